//! The judge's tables: which facts give which verdict, and which of several causes is named.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its functions too"
)]

mod execution;
mod outputs;
mod processes;
mod times;

use std::collections::BTreeMap;

use domain::device::Limits;
use domain::digest::Digest;
use domain::finding::{Finding, FindingKind};
use domain::judge::{self, ExecutionContext};
use domain::plan::{ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep};
use domain::role::{
    DeviceFault, Distribution, ExecutionFacts, KernelResources, Key, LaunchFacts, TensorData,
};
use domain::task::{Role, ToleranceClass};
use domain::verdict::{Verdict, VerdictKind};

fn limits() -> Limits {
    Limits {
        sm_count: 58,
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX.cast_unsigned(), 65535, 65535],
        shared_per_block: 49152,
        shared_per_block_optin: 101_376,
        shared_per_sm: 102_400,
        registers_per_block: 65536,
        registers_per_sm: 65536,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
    }
}

fn launch() -> ResolvedLaunch {
    ResolvedLaunch {
        kernel: "scale".to_owned(),
        grid: [4, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
        cooperative: false,
        l2_persist: None,
        arguments: vec![
            ResolvedArgument::Buffer("y".to_owned()),
            ResolvedArgument::I32(3),
        ],
    }
}

fn plan() -> ResolvedPlan {
    ResolvedPlan {
        workspaces: Vec::new(),
        steps: vec![
            ResolvedStep::Memset {
                buffer: "y".to_owned(),
                byte: 0,
            },
            ResolvedStep::Kernel(launch()),
        ],
    }
}

fn resources() -> KernelResources {
    KernelResources {
        kernel: "scale".to_owned(),
        registers: 32,
        spill_bytes: 0,
        stack_bytes: 0,
        static_shared_bytes: 1024,
        constant_bytes: 0,
        parameters: vec![8, 4],
    }
}

fn tensors() -> Vec<TensorData> {
    vec![TensorData {
        name: "y".to_owned(),
        dtype: domain::dtype::Dtype::F16,
        extents: vec![2, 3, 5],
        role: Role::Out,
        align: 16,
        distribution: Distribution::Normal,
        key: Key(Digest::of("key")),
        alteration: None,
    }]
}

fn facts() -> ExecutionFacts {
    ExecutionFacts {
        id: 0,
        launches: vec![LaunchFacts {
            kernel: "scale".to_owned(),
            grid: [4, 1, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
            modelled: None,
            modelled_warm: None,
            modelled_terms: BTreeMap::new(),
            counters: BTreeMap::new(),
        }],
        findings: Vec::new(),
        fault: None,
        unsupported: None,
        mutated: Vec::new(),
        overrun: Vec::new(),
        unwritten: Vec::new(),
        event_us: None,
        outlasted: false,
        unprotected: false,
        outputs: BTreeMap::from([("y".to_owned(), Digest::of("bytes"))]),
    }
}

fn finding(kind: FindingKind) -> Finding {
    Finding {
        kind,
        kernel: "scale".to_owned(),
        line: Some(7),
        block: [0; 3],
        thread: [3, 0, 0],
        buffer: None,
        offset: None,
        other: None,
        occurrences: 1,
        message: format!("{kind:?}"),
    }
}

fn fault(code: u32, call: &str) -> DeviceFault {
    DeviceFault {
        code,
        name: "CUDA_ERROR".to_owned(),
        call: call.to_owned(),
        launch: Some(0),
        log: None,
    }
}

fn judged(facts: &ExecutionFacts) -> Result<Option<Verdict>, judge::InfrastructureFault> {
    of_the_case(|subject| judge::judge_execution(facts, subject))
}

fn of_the_case<T>(judge: impl FnOnce(&ExecutionContext<'_>) -> T) -> T {
    let (plan, tensors) = (plan(), tensors());
    let tolerance = ToleranceClass::F16OutF32Acc.tolerance();
    let subject = ExecutionContext {
        stage: "smoke",
        case: "odd",
        distribution: Distribution::Normal,
        plan: &plan,
        tensors: &tensors,
        tolerance: &tolerance,
        order_dependent: &[],
    };
    judge(&subject)
}

fn kind(facts: &ExecutionFacts) -> Option<VerdictKind> {
    judged(facts).unwrap().map(|verdict| verdict.kind())
}
