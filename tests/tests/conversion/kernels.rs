//! The kernels that the tests convert, and their tasks.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// A kernel of `crates/convert/tests/kernels` with the lines that its owner writes into
/// `reference.cu` and `check.cu`.
pub const KERNELS: [(&str, &str, &str); 5] = [
    (
        "rms_norm",
        "double sum = 0.0;
         for (int c = 0; c < hidden; ++c) sum += double(x[i0 * hidden + c]) * x[i0 * hidden + c];
         value = x[element] / sqrt(sum / hidden + epsilon) * weight[i1];",
        "for (int c = hidden - 1; c >= 0; --c) value += double(x[i0 * hidden + c]) * x[i0 * hidden + c];
         value = double(weight[i1]) * x[element] / sqrt(value / hidden + epsilon);",
    ),
    (
        "rope",
        "const long long pair = i2 % half, first = (i0 * heads + i1) * 2 * half + pair;
         const double c = cos_table[i0 * half + pair], s = sin_table[i0 * half + pair];
         const double a = query[first], b = query[first + half];
         value = i2 < half ? a * c - b * s : b * c + a * s;
         scale = i2 < half ? fabs(a * c) + fabs(b * s) : fabs(b * c) + fabs(a * s);",
        "const long long other = i2 < half ? element + half : element - half, at = i0 * half + i2 % half;
         const double turned = query[other] * (i2 < half ? -1.0 : 1.0) * sin_table[at];
         const double kept = double(query[element]) * cos_table[at];
         value = turned + kept;
         scale = fabs(turned) + fabs(kept);",
    ),
    (
        "gemv_int8",
        "for (int k = 0; k < K; ++k) {
             const double product = double(W[i0 * K + k]) * x[k] * row_scale[i0];
             value += product;
             scale += fabs(product);
         }",
        "for (int k = K - 1; k >= 0; --k) {
             value += double(W[i0 * K + k]) * x[k];
             scale += fabs(double(W[i0 * K + k]) * x[k]);
         }
         value *= row_scale[i0];
         scale *= fabs(row_scale[i0]);",
    ),
    (
        "depthwise_conv",
        "for (int r = 0; r < 3; ++r)
             for (int s = 0; s < 3; ++s) {
                 const long long h = i1 + r - 1, w = i2 + s - 1;
                 if (h < 0 || h >= H || w < 0 || w >= W) continue;
                 const double pixel = __half2float(in[((i0 * H + h) * W + w) * C + i3]);
                 const double product = pixel * __half2float(filter[(r * 3 + s) * C + i3]);
                 value += product;
                 scale += fabs(product);
             }",
        "for (int tap = 8; tap >= 0; --tap) {
             const long long h = i1 + tap / 3 - 1, w = i2 + tap % 3 - 1;
             if (h < 0 || h >= H || w < 0 || w >= W) continue;
             const double weight = __half2float(filter[tap * C + i3]);
             const double product = weight * __half2float(in[((i0 * H + h) * W + w) * C + i3]);
             value += product;
             scale += fabs(product);
         }",
    ),
    (
        "scan",
        "for (long long k = 0; k <= i0; ++k) { value += input[k]; scale += fabs(input[k]); }",
        "for (long long k = i0; k >= 0; --k) { value += input[k]; scale += fabs(input[k]); }",
    ),
];

/// Puts lines in the place of the line `#error` of a reference.
fn fill(file: &Path, lines: &str) -> Result<()> {
    let text = fs::read_to_string(file)?;
    ensure!(text.matches("#error").count() == 1, "{}", file.display());
    let filled = text.lines().map(|line| {
        if line.starts_with("#error") {
            lines
        } else {
            line
        }
    });
    let filled = filled.collect::<Vec<_>>().join("\n");
    fs::write(file, filled + "\n").context("write the reference")
}

/// Fills in both references of a task from [`init`], as its owner would.
pub fn complete(name: &str, task: &str) -> Result<()> {
    let kernel = KERNELS.iter().find(|(known, _, _)| *known == name);
    let (_, reference, check) = kernel.context("a kernel of the table")?;
    fill(&Path::new(task).join("reference.cu"), reference)?;
    fill(&Path::new(task).join("check.cu"), check)
}

/// Writes the task of one of [`KERNELS`] below a folder, with its references to be filled in.
pub fn init(name: &str, folder: &Path) -> Result<String> {
    let source = lab::repository().join(format!("crates/convert/tests/kernels/{name}.cu"));
    let [source, task] =
        [&source, &folder.join(name)].map(|path| path.to_string_lossy().into_owned());
    let mut words = vec!["task", "init", &source, "--to", &task];
    if name == "scan" {
        // Its references take time with the square of the length.
        words.extend(["--dim", "n=2000:max=20000"]);
    }
    let written = lab::kernelwright(&words)?;
    ensure!(written.status.success(), "{}", written.stderr);
    Ok(task)
}
