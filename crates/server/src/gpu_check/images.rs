//! Images of the corpus for a device: from the builds where they are or can be made, else the
//! PTX that the program carries, which NVIDIA's driver compiles itself where it can.

use std::path::{Path, PathBuf};

use corpus::Source;
use domain::device::DeviceKind;
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, Evaluator};

use super::{CheckError, storage};

/// The images of one architecture.
pub(crate) struct Images {
    folder: PathBuf,
    architecture: String,
}

/// The origin of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Machine code of our compiler.
    Cubin,
    /// The PTX of the same compilation.
    Ptx,
    /// The PTX that the program carries, made for `sm_89`.
    Carried,
}

impl Images {
    /// Images of one architecture, with a folder for the files that the program embeds.
    pub(crate) fn new(data: &Path, architecture: &str) -> Result<Self, CheckError> {
        let folder = data.join("carried");
        std::fs::create_dir_all(&folder).map_err(storage(&folder))?;
        Ok(Self {
            folder,
            architecture: architecture.to_owned(),
        })
    }

    /// The file that a device loads for a source.
    pub(crate) fn image(
        &self,
        evaluator: &Evaluator,
        source: &Source,
        cancellation: &Cancellation,
    ) -> Result<(PathBuf, Origin), CheckError> {
        let configuration = domain::plan::Configuration::new();
        let headers = std::collections::BTreeMap::new();
        let recipe = CompilationInputs {
            source: source.cuda,
            configuration: &configuration,
            headers: &headers,
            architecture: &self.architecture,
        };
        if let Some(compiled) = evaluator.find_or_build(&recipe, cancellation)? {
            return Ok(match evaluator.host().device().kind {
                DeviceKind::Nvidia => (compiled.image.cubin, Origin::Cubin),
                DeviceKind::Emulated => (compiled.image.ptx, Origin::Ptx),
            });
        }
        let file = self.folder.join(format!("{}.ptx", source.name));
        std::fs::write(&file, source.ptx).map_err(storage(&file))?;
        Ok((file, Origin::Carried))
    }
}
