//! The page of all commands, `docs/guide/commands.md`, generated from the command line's grammar.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use server::cli::Cli;

const PAGE: &str = "../../docs/guide/commands.md";

/// `KERNELWRIGHT_BLESS=1` rewrites the page.
#[test]
fn the_page_of_commands_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let wanted = render_page();
    if std::env::var_os("KERNELWRIGHT_BLESS").is_some() {
        std::fs::write(&page, &wanted).unwrap();
    }
    let committed = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        committed == wanted,
        "the command line and docs/guide/commands.md differ: run KERNELWRIGHT_BLESS=1 cargo test -p server command_reference"
    );
}

fn render_page() -> String {
    let mut program = Cli::command();
    program.build();
    let mut text = String::from(
        "# Commands\n\n\
         <!-- Generated from the command line's grammar. Rewrite with:\n     \
         KERNELWRIGHT_BLESS=1 cargo test -p server command_reference -->\n\n\
         `kernelwright COMMAND --help` prints the same. `./kw COMMAND` builds the program first.\n\n",
    );
    let codes = program
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    write!(text, "```text\n{codes}\n```\n").unwrap();
    let global = program.get_arguments().filter(|arg| arg.is_global_set());
    text.push_str("\nEvery command takes:\n\n| option | meaning |\n|---|---|\n");
    for arg in global {
        text.push_str(&render_option(arg));
    }
    for command in program.get_subcommands() {
        render_command(command, "kernelwright", &mut text);
    }
    text
}

/// Writes one command, or each command of a group.
fn render_command(command: &Command, path: &str, text: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let path = format!("{path} {}", command.get_name());
    if command.has_subcommands() {
        for inner in command.get_subcommands() {
            render_command(inner, &path, text);
        }
        return;
    }
    let shown = |arg: &&Arg| {
        !arg.is_hide_set()
            && !arg.is_global_set()
            && !["help", "version"].contains(&arg.get_id().as_str())
    };
    let positionals = command.get_positionals().filter(shown).collect::<Vec<_>>();
    let options = command.get_opts().filter(shown).collect::<Vec<_>>();
    let flags = command
        .get_arguments()
        .filter(shown)
        .filter(|arg| !arg.is_positional() && !arg.get_action().takes_values())
        .collect::<Vec<_>>();
    write!(text, "\n## `{path}`\n\n").unwrap();
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    writeln!(text, "{}.", about.trim_end_matches('.')).unwrap();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    write!(text, "\n```text\n{usage}\n```\n").unwrap();
    if !positionals.is_empty() {
        text.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in positionals {
            writeln!(
                text,
                "| `{}` | {} |",
                arg.to_string().trim_matches(['<', '>']),
                meaning(arg)
            )
            .unwrap();
        }
    }
    if !options.is_empty() || !flags.is_empty() {
        text.push_str("\n| option | meaning |\n|---|---|\n");
        for arg in options.into_iter().chain(flags) {
            text.push_str(&render_option(arg));
        }
    }
}

fn render_option(arg: &Arg) -> String {
    let long = arg.get_long().expect("every option has a long name");
    let values = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values());
    let value = values.map_or_else(String::new, |names| {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        format!(" {}", names.join(" "))
    });
    format!("| `--{long}{value}` | {} |\n", meaning(arg))
}

/// The help text with default, environment variable and possible values.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    if !text.ends_with('.') {
        text.push('.');
    }
    if arg.get_action().takes_values() {
        let choices = arg.get_possible_values();
        let names = choices.iter().filter(|choice| !choice.is_hide_set());
        let names = names.map(|choice| format!("`{}`", choice.get_name()));
        let names = names.collect::<Vec<_>>();
        if !names.is_empty() {
            write!(text, " One of {}.", names.join(", ")).unwrap();
        }
        let defaults = arg.get_default_values().iter();
        let defaults = defaults.map(|value| value.to_string_lossy());
        let defaults = defaults.collect::<Vec<_>>();
        if !defaults.is_empty() {
            write!(text, " Default `{}`.", defaults.join(",")).unwrap();
        }
    }
    if let Some(variable) = arg.get_env() {
        write!(text, " Environment: `{}`.", variable.to_string_lossy()).unwrap();
    }
    if arg.is_required_set() && !arg.is_positional() {
        text.push_str(" Required.");
    }
    if matches!(arg.get_action(), ArgAction::Append)
        && !text.contains("several times")
        && !text.contains("repeated")
    {
        text.push_str(" May be repeated.");
    }
    text.replace('|', "\\|")
}
