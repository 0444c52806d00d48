//! The precision of a device's products and its peak throughput.

use domain::role::experiment::{ExperimentReply, Measure};
use domain::statistics::Arithmetic;

use super::{QuestionError, QuestionMeasurements, QuestionResult, QuestionRunner};

/// The limits of the relative L2 error that the evaluator takes for `f32` tasks, strict and with
/// TF32 allowed.
const STRICT_LIMIT: f64 = 4e-5;
const TF32_LIMIT: f64 = 8e-4;
/// The least distance between a permitted result and the nearest forbidden one.
const SEPARATION: f64 = 4.0;

impl QuestionRunner<'_> {
    pub(super) fn precision(&self) -> QuestionResult {
        let reply = self.reply(Measure::Precision)?;
        let worst = |kernel: &str| extreme(&reply, kernel, f64::max);
        let best = |kernel: &str| extreme(&reply, kernel, f64::min);
        let (honest, tf32) = (worst("product_f32"), best("product_tf32"));
        let (tf32_worst, bf16) = (worst("product_tf32"), best("product_bf16"));
        let f16 = best("product_f16");
        let measured = reply
            .series
            .iter()
            .map(|(name, values)| {
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                let high = values.iter().copied().fold(0.0, f64::max);
                format!("{name}: {low:.2e} to {high:.2e}")
            })
            .collect();
        let forbidden = tf32.min(f16);
        let strict = verdict_on_limit("strict f32", STRICT_LIMIT, honest, forbidden);
        let relaxed = verdict_on_limit("f32 with TF32", TF32_LIMIT, tf32_worst, bf16);
        Ok(QuestionMeasurements {
            measured,
            n: reply.series.values().map(Vec::len).sum(),
            conclusion: self.labelled(format!("{strict}; {relaxed}")),
        })
    }

    pub(super) fn rates(&self) -> QuestionResult {
        let rates = self.driver.host().rates().ok_or_else(|| {
            QuestionError::NotRun("its driver could not compile the kernels".to_owned())
        })?;
        let mut measured = vec![
            format!("memory {:.0} GB/s", rates.bytes_per_us / 1e3),
            format!("an empty launch {:.2} us", rates.launch_us),
        ];
        measured.extend(rates.operations_per_us.iter().map(|(arithmetic, rate)| {
            let name = match arithmetic {
                Arithmetic::F64 => "double precision",
                Arithmetic::F32 => "single precision",
                Arithmetic::F16 => "tensor cores, 16-bit operands",
            };
            format!("{name} {:.1} TFLOP/s", rate / 1e6)
        }));
        Ok(QuestionMeasurements {
            n: measured.len(),
            measured,
            conclusion: self.labelled(
                "a time that would need more than this is taken for impossible".to_owned(),
            ),
        })
    }
}

/// The largest or smallest error of a product over all depths.
fn extreme(reply: &ExperimentReply, kernel: &str, pick: fn(f64, f64) -> f64) -> f64 {
    let prefix = format!("relative_l2_{kernel}_");
    reply
        .series
        .iter()
        .filter(|(name, _)| name.starts_with(&prefix))
        .flat_map(|(_, values)| values.iter().copied())
        .reduce(pick)
        .unwrap_or(f64::NAN)
}

fn verdict_on_limit(class: &str, limit: f64, honest: f64, forbidden: f64) -> String {
    let ratio = forbidden / honest;
    let middle = (forbidden * honest).sqrt();
    let holds = honest <= limit && limit <= forbidden && ratio >= SEPARATION;
    format!(
        "{class}: honest {honest:.1e}, forbidden {forbidden:.1e}, {ratio:.0} times apart, limit {limit:.0e} {}, their geometric mean {middle:.1e}",
        if holds { "holds" } else { "does NOT hold" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_must_lie_between_and_both_far_apart() {
        assert!(verdict_on_limit("x", 4e-5, 1e-6, 3e-4).contains(" holds"));
        for (honest, forbidden) in [(1e-4, 3e-3), (1e-6, 2e-5), (3e-5, 1e-4)] {
            let words = verdict_on_limit("x", 4e-5, honest, forbidden);
            assert!(words.contains("does NOT hold"), "{words}");
        }
    }
}
