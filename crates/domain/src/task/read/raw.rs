//! The tables of `task.toml` as written, before their values are checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::super::{Allclose, CasePurpose, Enforce, GateSubject, Role, ToleranceClass, Values};
use crate::dtype::Dtype;
use crate::policy::{Feature, Rule};
use crate::statistics::Arithmetic;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) title: String,
    pub(super) family: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) dims: BTreeMap<Spanned<String>, RawDim>,
    #[serde(default)]
    pub(super) tensor: Vec<Spanned<RawTensor>>,
    #[serde(default)]
    pub(super) scalar: Vec<RawScalar>,
    #[serde(default)]
    pub(super) case: Vec<RawCase>,
    pub(super) tolerance: RawTolerance,
    #[serde(default)]
    pub(super) contract: RawContract,
    #[serde(default)]
    pub(super) policy: BTreeMap<Feature, Rule>,
    #[serde(default)]
    pub(super) gates: BTreeMap<GateSubject, Spanned<RawGate>>,
    #[serde(default)]
    pub(super) phase: Vec<RawPhase>,
    #[serde(default)]
    pub(super) objective: RawObjective,
    pub(super) work: Option<RawWork>,
    pub(super) promotion: Option<RawPromotion>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPromotion {
    pub(super) repository: Spanned<String>,
    pub(super) base: Option<String>,
    pub(super) path: Spanned<String>,
    pub(super) region: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWork {
    pub(super) operations: Spanned<String>,
    pub(super) arithmetic: Arithmetic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDim {
    pub(super) fixed: Option<Spanned<i64>>,
    pub(super) min: Option<Spanned<i64>>,
    pub(super) max: Option<Spanned<i64>>,
    pub(super) multiple: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTensor {
    pub(super) name: Spanned<String>,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<Spanned<String>>,
    pub(super) role: Role,
    #[serde(default = "default_align")]
    pub(super) align: Spanned<u64>,
    #[serde(default = "default_values")]
    pub(super) values: Values,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScalar {
    pub(super) name: Spanned<String>,
    pub(super) dtype: Spanned<Dtype>,
    pub(super) value: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCase {
    pub(super) name: Spanned<String>,
    pub(super) dims: Spanned<BTreeMap<String, i64>>,
    pub(super) r#use: Spanned<Vec<CasePurpose>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTolerance {
    pub(super) class: ToleranceClass,
    pub(super) allclose: Option<Spanned<Allclose>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawContract {
    #[serde(default)]
    pub(super) linear_in: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) order_dependent: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) specials_in: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) depends: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    #[serde(default)]
    pub(super) error_scale: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    pub(super) error_terms: BTreeMap<Spanned<String>, Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGate {
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) enforce: Enforce,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPhase {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) gates: BTreeMap<GateSubject, Spanned<RawGate>>,
    #[serde(default)]
    pub(super) targets: BTreeMap<String, f64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawObjective {
    pub(super) minimise: Option<Spanned<String>>,
    pub(super) cache: Option<Spanned<String>>,
    pub(super) target_speedup: Option<f64>,
    #[serde(default)]
    pub(super) stop_at_target: bool,
}

fn default_align() -> Spanned<u64> {
    Spanned::new(0..0, 16)
}

fn default_values() -> Values {
    Values::Normal
}
