//! Inputs of a confirmation as files, and the right answers to them, computed here in `f64`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::seeds::SeedFamily;
use domain::task::Role;
use worker::evaluate::{Passes, load_task};

/// The seed of every export of these tests.
pub const SEED: u64 = 16;

/// One execution: a folder with a file for each input, `dims.txt` with a line for each dim, and
/// `tensors.txt` with the direction and the bytes of each tensor, `shapes.txt` with its type and extents.
pub struct Vector {
    pub folder: PathBuf,
    dims: BTreeMap<String, i64>,
    inputs: BTreeMap<String, Vec<f64>>,
    /// The output and its elements.
    output: (String, usize),
}

/// Writes the inputs with which a confirmation with [`SEED`] begins: every small case and every edge
/// once, with ordinary values.
pub fn write(task: &str, folder: &Path) -> Result<Vec<Vector>> {
    let request = EvaluationRequest {
        task: lab::task_in(Path::new(task))?,
        file: "baseline.cu".to_owned(),
        source: fs::read_to_string(Path::new(task).join("baseline.cu"))?,
        configuration: BTreeMap::new(),
        stage: EvaluationStage::Confirmation,
        // As `--seed` makes it.
        key: Key(Digest::of_parts([
            b"local evaluation".as_slice(),
            &SEED.to_le_bytes(),
        ])),
        incumbent: None,
    };
    let task = load_task(&request)?;
    let passes = Passes {
        task: &task,
        key: request.key,
        family: SeedFamily::Promotion,
    };
    let smoke = passes
        .smoke()
        .map_err(|problem| anyhow::anyhow!("{problem}"))?;
    ensure!(smoke.len() >= 5, "only {} executions", smoke.len());
    let vectors = smoke.into_iter().enumerate().map(|(number, pass)| {
        let folder = folder.join(number.to_string());
        fs::create_dir_all(&folder)?;
        let case = task.case(&pass.case).context("a case of the task")?;
        let lines = case
            .dims
            .iter()
            .map(|(dim, value)| format!("{dim} {value}\n"));
        fs::write(folder.join("dims.txt"), lines.collect::<String>())?;
        let mut inputs = BTreeMap::new();
        let (mut output, mut lines, mut shapes) = (None, String::new(), String::new());
        for tensor in &pass.tensors {
            let extents = tensor.extents.iter().map(|extent| format!(" {extent}"));
            let extents = extents.collect::<String>();
            shapes.push_str(&format!("{} {}{extents}\n", tensor.name, tensor.dtype));
            let direction = if tensor.role == Role::Out {
                "out"
            } else {
                "in"
            };
            let bytes = tensor.elements() * tensor.dtype.bytes();
            lines.push_str(&format!("{} {direction} {bytes}\n", tensor.name));
            if tensor.role == Role::Out {
                output = Some((tensor.name.clone(), usize::try_from(tensor.elements())?));
                continue;
            }
            let bytes = tensors::inputs::bytes(tensor);
            fs::write(folder.join(&tensor.name), &bytes)?;
            let values = tensors::inputs::decode(tensor.dtype, &bytes);
            inputs.insert(tensor.name.clone(), values);
        }
        fs::write(folder.join("tensors.txt"), lines)?;
        fs::write(folder.join("shapes.txt"), shapes)?;
        Ok(Vector {
            folder,
            dims: case.dims.clone(),
            inputs,
            output: output.context("the task has an output")?,
        })
    });
    vectors.collect()
}

impl Vector {
    /// Compares the file of the output, which an exported kernel wrote, with the right answer.
    pub fn verify(&self, kernel: &str) -> Result<()> {
        let (name, elements) = &self.output;
        let path = self.folder.join(name);
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let found = tensors::inputs::decode(domain::dtype::Dtype::F32, &bytes);
        let wanted = self.answer(kernel)?;
        ensure!(
            found.len() == *elements && wanted.len() == *elements,
            "{}",
            path.display()
        );
        for (at, (found, (value, scale))) in found.iter().zip(wanted).enumerate() {
            ensure!(
                (found - value).abs() <= 2e-5 * scale,
                "{kernel} of {:?}: element {at} is {found}, not {value}",
                self.dims
            );
        }
        fs::remove_file(path)?;
        Ok(())
    }

    /// The values of the output, each with the sum of the magnitudes of its terms.
    fn answer(&self, kernel: &str) -> Result<Vec<(f64, f64)>> {
        let input = |name: &str| self.inputs.get(name).context("an input");
        let dim = |name: &str| -> Result<usize> {
            Ok(usize::try_from(*self.dims.get(name).context("a dim")?)?)
        };
        Ok(match kernel {
            "scan" => {
                let sums = input("input")?.iter().scan((0.0, 0.0), |sum, value| {
                    *sum = (sum.0 + value, sum.1 + value.abs());
                    Some(*sum)
                });
                sums.collect()
            }
            "rms_norm" => {
                let (weight, hidden) = (input("weight")?, dim("hidden")?);
                let rows = input("x")?.chunks(hidden).flat_map(|row| {
                    let squares = row.iter().map(|value| value * value).sum::<f64>();
                    let root = (squares / hidden as f64 + 1e-5).sqrt();
                    let row = row.iter().zip(weight);
                    row.map(move |(value, weight)| value / root * weight)
                });
                rows.map(|value| (value, value.abs() + 1e-30)).collect()
            }
            "gemv_int8" => {
                let (x, columns) = (input("x")?, dim("K")?);
                let rows = input("W")?.chunks(columns).zip(input("row_scale")?);
                let rows = rows.map(|(row, scale)| {
                    let terms = row.iter().zip(x).map(|(w, x)| w * x * scale);
                    terms.fold((0.0, 1e-30), |sum, term| (sum.0 + term, sum.1 + term.abs()))
                });
                rows.collect()
            }
            other => anyhow::bail!("no answer to {other}"),
        })
    }
}
