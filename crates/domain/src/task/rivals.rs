//! The contents of a task's `baselines`: kernels, scripts, and machine code with a plan.
//!
//! Machine code travels as the hexadecimal digits of its bytes, since a task consists of texts.

use super::read::TaskReader;
use super::{ImageRival, Rival};
use crate::candidate::KernelSource;
use crate::problem::{Problem, Problems};

const FOLDER: &str = "baselines/";
/// The ending of files with machine code in a task folder.
pub const MACHINE_CODE: &str = ".cubin";

impl TaskReader<'_> {
    pub(super) fn rivals(&mut self) -> Vec<(String, Rival)> {
        let kernels = self.folder(FOLDER).into_iter();
        let mut rivals: Vec<_> = kernels
            .map(|(path, source)| (path, Rival::Kernel(Box::new(source))))
            .collect();
        let files = &self.bundle.files;
        let mut problems = Vec::new();
        for (path, text) in files.iter().filter(|(path, _)| path.starts_with(FOLDER)) {
            let beside = |ending: &str| {
                let names = stems(path).map(|stem| format!("{stem}{ending}"));
                names
                    .into_iter()
                    .find_map(|name| files.get_key_value(&name))
            };
            match path.rsplit_once('.').map(|(_, ending)| ending) {
                Some("cu") => {}
                Some("py") => rivals.push((path.clone(), Rival::Script(text.clone()))),
                Some("cubin") => match beside(".toml") {
                    None => problems.push(Problem::whole(
                        path,
                        "machine code without a plan",
                        "put the plan beside it, in NAME.toml for NAME.cubin or NAME.sm_89.cubin",
                    )),
                    Some((plan_path, plan)) => {
                        let ptx = beside(".ptx").map(|(_, ptx)| ptx.clone());
                        match image(path, text, plan_path, plan, ptx) {
                            Ok(image) => rivals.push((path.clone(), Rival::Image(Box::new(image)))),
                            Err(Problems(found)) => problems.extend(found),
                        }
                    }
                },
                Some("toml" | "ptx") if files.keys().any(|code| is_for(path, code)) => {}
                _ => {
                    let fix = "a kernel ends in .cu, a script that times a library in .py, machine code in \
                               .cubin with a plan in .toml and perhaps its PTX in .ptx beside it";
                    problems.push(Problem::whole(path, "neither a kernel nor a script", fix));
                }
            }
        }
        self.problems.extend(problems);
        rivals.sort_by(|(one, _), (other, _)| one.cmp(other));
        rivals
    }
}

/// The file's name without its ending, and without the architecture that may stand before it as in
/// `gemm.sm_89.cubin`: a library has machine code for several, and one plan.
fn stems(path: &str) -> [&str; 2] {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let general = match stem.rsplit_once('.') {
        Some((general, architecture)) if architecture.starts_with("sm_") => general,
        _ => stem,
    };
    [stem, general]
}

/// Returns true if a plan or PTX belongs to machine code.
fn is_for(path: &str, code: &str) -> bool {
    code.ends_with(MACHINE_CODE) && stems(code).contains(&stems(path)[0])
}

fn image(
    path: &str,
    digits: &str,
    plan_path: &str,
    plan: &str,
    ptx: Option<String>,
) -> Result<ImageRival, Problems> {
    let machine_code = hex::decode(digits.trim()).map_err(|_| {
        Problem::whole(
            path,
            "it is no machine code as tasks carry it",
            "put the file into the folder as it is: what reads the folder writes its bytes as hexadecimal digits",
        )
    })?;
    let plan = KernelSource::parse(plan_path, format!("/*---\n{plan}\n---*/\n")).map_err(
        |Problems(mut problems)| {
            // The line above the plan is ours.
            for problem in &mut problems {
                problem.line = problem.line.saturating_sub(1);
            }
            Problems(problems)
        },
    )?;
    Ok(ImageRival {
        plan,
        machine_code,
        ptx,
    })
}
