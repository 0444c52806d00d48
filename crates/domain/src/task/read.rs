//! Reading of a task folder's files into a checked task, with every defect located.

mod contract;
mod raw;

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;

use self::raw::{Raw, RawContract, RawGate, RawPromotion, RawTolerance};
use super::{
    Allclose, Bundle, CHECK_FILE, Case, CasePurpose, Destination, Essential, Gate, GateSubject,
    MAX_BUNDLE_BYTES, Objective, PYTHON_FILE, Phase, Range, Role, Scalar, ScoredCache,
    SecondReference, Task, Tensor, Tolerance, UNSTATED_MAXIMUM, is_name,
};
use crate::candidate::{KernelSource, is_identifier};
use crate::decode_message::{self, Syntax};
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::expr::{Expr, ExprError};
use crate::policy::Policy;
use crate::problem::{Problem, Problems};

const FILE: &str = "task.toml";
const SEE: &str = "see docs/reference/task-format.md for the keys of a task file";

pub(super) fn task(bundle: &Bundle) -> Result<Task, Problems> {
    let bytes: usize = bundle.files.values().map(String::len).sum();
    if bytes > MAX_BUNDLE_BYTES {
        let message = format!(
            "the task's files have {bytes} bytes together; at most {MAX_BUNDLE_BYTES} are read"
        );
        return Err(
            Problem::whole(FILE, message, "keep data and binaries out of the folder").into(),
        );
    }
    let Some(text) = bundle.files.get(FILE) else {
        return Err(Problem::whole(
            FILE,
            "the file is missing",
            "a task folder holds a task.toml",
        )
        .into());
    };
    let raw: Raw = toml::from_str(text).map_err(|error| {
        Problem::at(
            FILE,
            text,
            error.span().map_or(0, |span| span.start),
            decode_message::describe(error.message(), Syntax::Toml),
            SEE,
        )
    })?;
    let mut reader = TaskReader {
        bundle,
        text,
        problems: Vec::new(),
    };
    let task = reader.task(&raw);
    match task {
        Some(task) if reader.problems.is_empty() => Ok(task),
        _ => Err(Problems(reader.problems)),
    }
}

pub(super) struct TaskReader<'a> {
    pub(super) bundle: &'a Bundle,
    text: &'a str,
    pub(super) problems: Vec<Problem>,
}

impl TaskReader<'_> {
    fn report<T>(&mut self, at: &Spanned<T>, message: impl Into<String>, fix: impl Into<String>) {
        self.problems
            .push(Problem::at(FILE, self.text, at.span().start, message, fix));
    }

    fn task(&mut self, raw: &Raw) -> Option<Task> {
        for (name, complaint) in [
            (Some(&raw.name), "not a task name"),
            (raw.family.as_ref(), "not a name of an operator family"),
        ] {
            if let Some(name) = name
                && !is_name(name.get_ref())
            {
                let fix = "use letters, digits, '_', '-' and '.', the first none of the last two";
                self.report(name, complaint, fix);
            }
        }
        for name in raw.dims.keys() {
            self.identifier(name);
        }
        let fixed_dims: BTreeMap<_, _> = raw
            .dims
            .iter()
            .filter_map(|(name, dim)| {
                Some((name.get_ref().clone(), *dim.fixed.as_ref()?.get_ref()))
            })
            .collect();
        let dims: BTreeSet<String> = raw.dims.keys().map(|name| name.get_ref().clone()).collect();
        let free_dims = self.ranges(raw);
        let cases = self.cases(raw, &dims, &fixed_dims, &free_dims);
        let tensors = self.tensors(raw, &dims);
        let scalars = self.scalars(raw, &dims);
        self.unique_names(raw);
        let contract = self.contract(&raw.contract, &tensors, &dims);
        let essential = raw.work.as_ref().map(|work| Essential {
            operations: self.expr(&work.operations, &dims),
            arithmetic: work.arithmetic,
        });
        let gates = self.gates(&raw.gates);
        let phases = raw
            .phase
            .iter()
            .map(|phase| Phase {
                name: phase.name.get_ref().clone(),
                gates: self.gates(&phase.gates),
                targets: phase.targets.clone(),
            })
            .collect::<Vec<_>>();
        if let Some(minimise) = &raw.objective.minimise
            && minimise.get_ref() != "geomean"
        {
            self.report(
                minimise,
                format!("unknown objective {:?}", minimise.get_ref()),
                "write \"geomean\"",
            );
        }
        let cache = self.scored_cache(raw.objective.cache.as_ref());
        let promotion = raw.promotion.as_ref().map(|it| self.destination(it));
        let reference = self.kernel("reference.cu");
        let check = self.second_reference();
        let baseline = self.kernel("baseline.cu");
        let playbook = self.folder("playbook/");
        for (name, source) in &playbook {
            self.playbook_step(name, source, &phases);
        }
        let broken = self.folder("broken/");
        for (name, source) in &broken {
            if source.expectation().is_none() {
                let fix = "add [expect] with the verdict it must get";
                self.problems.push(Problem::whole(
                    name,
                    "a broken variant without expectation",
                    fix,
                ));
            }
        }
        let task = Task {
            name: raw.name.get_ref().clone(),
            title: raw.title.clone(),
            family: raw.family.as_ref().map(|it| it.get_ref().clone()),
            version: self.version(),
            fixed_dims,
            free_dims,
            tensors,
            scalars,
            cases,
            tolerance: self.tolerance(&raw.tolerance),
            policy: Policy::new(raw.tolerance.class, raw.policy.clone()),
            contract,
            essential,
            gates,
            phases,
            promotion,
            objective: Objective {
                cache,
                target_speedup: raw.objective.target_speedup,
                stop_at_target: raw.objective.stop_at_target,
            },
            reference: reference?,
            check: check?,
            baseline: baseline?,
            headers: self.headers(),
            playbook,
            broken,
            rivals: self.rivals(),
            context: self.prose("context.md"),
            insights: self.prose("insights.md"),
        };
        for case in &task.cases {
            if let (Some(essential), Some(work)) = (&task.essential, &raw.work)
                && !essential
                    .operations
                    .scalar(&case.dims)
                    .is_ok_and(|operations| operations.is_finite() && operations > 0.0)
            {
                self.report(
                    &work.operations,
                    format!("no positive value in case {}", case.name),
                    "count the operations that no algorithm avoids",
                );
            }
            for tensor in &task.tensors {
                if let Err(problem) = task.extents(tensor, case) {
                    self.problems.push(problem);
                }
            }
        }
        Some(task)
    }

    fn tolerance(&mut self, raw: &RawTolerance) -> Tolerance {
        if let Some(limits) = &raw.allclose {
            let Allclose { atol, rtol } = *limits.get_ref();
            let valid = |limit: f64| limit.is_finite() && limit >= 0.0;
            if !valid(atol) || !valid(rtol) || atol + rtol == 0.0 {
                let fix = "write the limits of your own test, such as { atol = 1e-3, rtol = 1e-3 }";
                self.report(limits, "not limits that an output could meet", fix);
            }
        }
        Tolerance {
            allclose: raw.allclose.as_ref().map(|limits| *limits.get_ref()),
            ..raw.class.tolerance()
        }
    }

    fn destination(&mut self, raw: &RawPromotion) -> Destination {
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        if !raw.path.get_ref().split('/').all(is_part) {
            let fix =
                "write the path of the file from the top of the repository, such as src/norm.cu";
            self.report(&raw.path, "not a path inside a repository", fix);
        }
        if raw.repository.get_ref().is_empty() {
            let fix = "write its path from this folder, such as \"..\"";
            self.report(&raw.repository, "no repository", fix);
        }
        if let Some(region) = raw
            .region
            .as_ref()
            .filter(|region| region.get_ref().trim().is_empty())
        {
            let fix = "name a region of the file, or leave the key out to replace the whole file";
            self.report(region, "no region", fix);
        }
        Destination {
            repository: raw.repository.get_ref().clone(),
            base: raw.base.clone(),
            path: raw.path.get_ref().clone(),
            region: raw.region.as_ref().map(|region| region.get_ref().clone()),
        }
    }

    /// Reads the cache states that are scored. Without a name it is the cold one.
    fn scored_cache(&mut self, named: Option<&Spanned<String>>) -> ScoredCache {
        let Some(named) = named else {
            return ScoredCache::default();
        };
        let found = ScoredCache::named(named.get_ref());
        if found.is_none() {
            let message = format!("unknown state of the cache {:?}", named.get_ref());
            self.report(named, message, "write \"cold\", \"warm\" or \"both\"");
        }
        found.unwrap_or_default()
    }

    fn cases(
        &mut self,
        raw: &Raw,
        dims: &BTreeSet<String>,
        fixed: &BTreeMap<String, i64>,
        free: &BTreeMap<String, Range>,
    ) -> Vec<Case> {
        let mut seen = BTreeSet::new();
        let mut cases = Vec::new();
        for case in &raw.case {
            if !seen.insert(case.name.get_ref()) {
                self.report(
                    &case.name,
                    format!("a second case {:?}", case.name.get_ref()),
                    "rename one",
                );
            }
            if case.r#use.get_ref().is_empty() {
                self.report(
                    &case.r#use,
                    "a case without a use",
                    "use = [\"check\"], \"score\" or \"holdout\"",
                );
            }
            for (name, value) in case.dims.get_ref() {
                if !dims.contains(name) {
                    let known = dims.iter().cloned().collect::<Vec<_>>().join(", ");
                    self.report(
                        &case.dims,
                        format!("unknown dim {name:?}"),
                        format!("declared are: {known}"),
                    );
                } else if fixed.get(name).is_some_and(|fixed| fixed != value) {
                    self.report(
                        &case.dims,
                        format!("dim {name:?} is fixed"),
                        "leave it out of the case",
                    );
                } else if free.get(name).is_some_and(|range| !range.contains(*value)) {
                    self.report(
                        &case.dims,
                        format!("dim {name:?} cannot be {value}"),
                        "keep to what [dims] says of it",
                    );
                }
            }
            for name in dims {
                if !fixed.contains_key(name) && !case.dims.get_ref().contains_key(name) {
                    self.report(
                        &case.dims,
                        format!("dim {name:?} has no value"),
                        "give it one in this case",
                    );
                }
            }
            let mut values = fixed.clone();
            values.extend(case.dims.get_ref().clone());
            cases.push(Case {
                name: case.name.get_ref().clone(),
                dims: values,
                uses: case.r#use.get_ref().clone(),
            });
        }
        if !cases.iter().any(|case| case.is_for(CasePurpose::Score)) {
            let fix = "add a [[case]] with use = [\"check\", \"score\"]";
            self.problems
                .push(Problem::whole(FILE, "no case is scored", fix));
        }
        cases
    }

    /// The values that the dims without a fixed one may have.
    fn ranges(&mut self, raw: &Raw) -> BTreeMap<String, Range> {
        let mut ranges = BTreeMap::new();
        for (name, dim) in &raw.dims {
            let given = |bound: &Option<Spanned<i64>>| bound.as_ref().map(|bound| *bound.get_ref());
            let range = Range {
                least: given(&dim.min).unwrap_or(1),
                most: given(&dim.max).unwrap_or(UNSTATED_MAXIMUM),
                multiple: given(&dim.multiple).unwrap_or(1),
            };
            let bounded = dim.min.is_some() || dim.max.is_some() || dim.multiple.is_some();
            if dim.fixed.is_some() && bounded {
                self.report(
                    name,
                    "a fixed dim with bounds",
                    "give either fixed or bounds",
                );
            } else if range.least < 1 || range.most < range.least || range.multiple < 1 {
                self.report(
                    name,
                    "a dim without values",
                    "1 <= min <= max, multiple >= 1",
                );
            } else if dim.fixed.is_none() {
                ranges.insert(name.get_ref().clone(), range);
            }
        }
        ranges
    }

    fn tensors(&mut self, raw: &Raw, dims: &BTreeSet<String>) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        for spanned in &raw.tensor {
            let tensor = spanned.get_ref();
            if tensor.shape.is_empty() {
                self.report(spanned, "a tensor without axes", "give its shape");
            }
            let align = *tensor.align.get_ref();
            if !align.is_power_of_two() || align < tensor.dtype.bytes() || align > 256 {
                let fix = format!("a power of two from {} to 256", tensor.dtype.bytes());
                self.report(&tensor.align, format!("align cannot be {align}"), fix);
            }
            let shape = tensor
                .shape
                .iter()
                .map(|axis| self.expr(axis, dims))
                .collect();
            tensors.push(Tensor {
                name: tensor.name.get_ref().clone(),
                dtype: tensor.dtype,
                shape,
                role: tensor.role,
                align,
                values: tensor.values,
            });
        }
        if !tensors.iter().any(|tensor| tensor.role != Role::In) {
            let fix = "add a [[tensor]] with role = \"out\"";
            self.problems
                .push(Problem::whole(FILE, "the task has no output", fix));
        }
        tensors
    }

    fn scalars(&mut self, raw: &Raw, dims: &BTreeSet<String>) -> Vec<Scalar> {
        let mut scalars = Vec::new();
        for scalar in &raw.scalar {
            if !matches!(scalar.dtype.get_ref(), Dtype::F32 | Dtype::F64) {
                self.report(
                    &scalar.dtype,
                    "a scalar is f32 or f64",
                    "pass integers as dims",
                );
            }
            let value = self.expr(&scalar.value, dims);
            scalars.push(Scalar {
                name: scalar.name.get_ref().clone(),
                dtype: *scalar.dtype.get_ref(),
                value,
            });
        }
        scalars
    }

    fn unique_names(&mut self, raw: &Raw) {
        let mut seen = BTreeSet::new();
        let tensors = raw.tensor.iter().map(|tensor| &tensor.get_ref().name);
        let scalars = raw.scalar.iter().map(|scalar| &scalar.name);
        for name in raw.dims.keys().chain(tensors).chain(scalars) {
            self.identifier(name);
            if !seen.insert(name.get_ref()) {
                let message = format!("{:?} names two things", name.get_ref());
                self.report(
                    name,
                    message,
                    "dims, tensors and scalars share one name space",
                );
            }
        }
    }

    fn gates(&mut self, raw: &BTreeMap<GateSubject, Spanned<RawGate>>) -> Vec<Gate> {
        raw.iter()
            .map(|(subject, gate)| {
                let RawGate { min, max, enforce } = *gate.get_ref();
                if min.is_none() && max.is_none() {
                    self.report(gate, "a gate without a limit", "give it min or max");
                }
                Gate {
                    subject: *subject,
                    min,
                    max,
                    enforce,
                }
            })
            .collect()
    }

    fn expr(&mut self, spanned: &Spanned<String>, dims: &BTreeSet<String>) -> Expr {
        let fix = "an expression over the task's dims";
        match Expr::parse(spanned.get_ref()) {
            Ok(expr) => {
                if let Some(name) = expr.names().into_iter().find(|name| !dims.contains(*name)) {
                    self.report(spanned, format!("unknown dim {name:?}"), fix);
                }
                expr
            }
            Err(error) => {
                let inside = if let ExprError::Syntax { offset, .. } = &error {
                    offset + 1
                } else {
                    0
                };
                let at = spanned.span().start + inside;
                self.problems
                    .push(Problem::at(FILE, self.text, at, error.to_string(), fix));
                Expr::constant(1)
            }
        }
    }

    fn identifier(&mut self, name: &Spanned<String>) {
        if !is_identifier(name.get_ref()) {
            let message = format!("{:?} is not a C identifier", name.get_ref());
            self.report(
                name,
                message,
                "use letters, digits and underscores, at most 64",
            );
        }
    }

    fn kernel(&mut self, path: &str) -> Option<KernelSource> {
        let Some(text) = self.bundle.files.get(path) else {
            self.problems.push(Problem::whole(
                path,
                "the file is missing",
                "every task has one",
            ));
            return None;
        };
        match KernelSource::parse(path, text.clone()) {
            Ok(source) => Some(source),
            Err(Problems(found)) => {
                self.problems.extend(found);
                None
            }
        }
    }

    /// The second reference: one of the two files that can hold it.
    fn second_reference(&mut self) -> Option<SecondReference> {
        let python = self.bundle.files.get(PYTHON_FILE);
        match (self.bundle.files.contains_key(CHECK_FILE), python) {
            (false, Some(text)) => Some(SecondReference::Python(text.clone())),
            (true, Some(_)) => {
                let message = format!("a second reference beside {CHECK_FILE}");
                let fix = "a task has one; remove either file";
                self.problems
                    .push(Problem::whole(PYTHON_FILE, message, fix));
                None
            }
            (false, None) => {
                let message = "the file is missing";
                let fix = "every task has a second reference: check.cu, or reference.py";
                self.problems.push(Problem::whole(CHECK_FILE, message, fix));
                None
            }
            (true, None) => self
                .kernel(CHECK_FILE)
                .map(|check| SecondReference::Kernel(Box::new(check))),
        }
    }

    pub(super) fn folder(&mut self, folder: &str) -> Vec<(String, KernelSource)> {
        let paths: Vec<String> = self
            .bundle
            .files
            .keys()
            .filter(|path| path.starts_with(folder) && path.ends_with(".cu"))
            .cloned()
            .collect();
        paths
            .into_iter()
            .filter_map(|path| Some((path.clone(), self.kernel(&path)?)))
            .collect()
    }

    fn playbook_step(&mut self, path: &str, source: &KernelSource, phases: &[Phase]) {
        let Some(step) = source.step() else {
            let message = "a playbook file without a table [step]";
            let fix = "add [step] with phase = \"NAME\", the name of a [[phase]] of task.toml";
            self.problems.push(Problem::whole(path, message, fix));
            return;
        };
        if !phases.iter().any(|phase| phase.name == step.phase) {
            let known = phases
                .iter()
                .map(|phase| phase.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!("unknown phase {:?}", step.phase);
            self.problems.push(Problem::whole(
                path,
                message,
                if known.is_empty() {
                    "task.toml declares no [[phase]]; add one with this name".to_owned()
                } else {
                    format!("name a [[phase]] of task.toml: {known}")
                },
            ));
        }
        for name in &step.sweep {
            if !source.plan().tunables.contains_key(name) {
                let message = format!("sweep names {name:?}, which is no tunable of the file");
                self.problems
                    .push(Problem::whole(path, message, "declare it under [tunables]"));
            }
        }
    }

    fn headers(&self) -> BTreeMap<String, String> {
        self.bundle
            .files
            .iter()
            .filter_map(|(path, text)| {
                Some((path.strip_prefix("include/")?.to_owned(), text.clone()))
            })
            .collect()
    }

    fn prose(&self, path: &str) -> String {
        self.bundle.files.get(path).cloned().unwrap_or_default()
    }

    /// Hashes what defines the right answer, and only that: editing prose voids no result.
    fn version(&self) -> Digest {
        let defining = |path: &str| {
            matches!(path, FILE | "reference.cu" | CHECK_FILE | PYTHON_FILE)
                || path.starts_with("include/")
        };
        let parts = self
            .bundle
            .files
            .iter()
            .filter(|(path, _)| defining(path))
            .flat_map(|(path, text)| [path.as_bytes(), text.as_bytes()]);
        Digest::of_parts(parts)
    }
}
