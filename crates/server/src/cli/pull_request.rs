//! The grammar of `pull-request`.

use std::path::PathBuf;

use clap::Args;

use crate::git_host::HostKind;

/// Arguments of `pull-request`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PullRequestArgs {
    /// The winner's branch, such as `kernelwright/row-norm/0123456789ab`.
    pub branch: String,
    /// The repository with the branch.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repository: PathBuf,
    /// The remote to push the branch to, with the credentials that git has.
    #[arg(long, value_name = "NAME", default_value = "origin")]
    pub remote: String,
    /// The branch to merge into. By default the remote's default branch.
    #[arg(long, value_name = "BRANCH")]
    pub base: Option<String>,
    /// The kind of the host. By default it follows from the remote's address, if that is well known.
    #[arg(long, value_name = "KIND", value_enum)]
    pub host: Option<HostKind>,
    /// Address of the host's API, such as `https://git.example.org/api/v1`. By default it follows from
    /// the remote's address.
    #[arg(long, value_name = "URL")]
    pub api: Option<String>,
    /// The project on the host. By default it follows from the remote's address.
    #[arg(long, value_name = "OWNER/NAME")]
    pub project: Option<String>,
    /// File with the token for the host, which only you may read.
    #[arg(
        long,
        value_name = "FILE",
        env = "KERNELWRIGHT_HOST_TOKEN_FILE",
        required_unless_present = "dry_run"
    )]
    pub host_token_file: Option<PathBuf>,
    /// Certificate, in PEM, of the authority that signed the host's certificate. By default the system's
    /// authorities.
    #[arg(long, value_name = "FILE")]
    pub host_ca: Option<PathBuf>,
    /// Print the title and the text of the pull request, push nothing and ask no host.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
