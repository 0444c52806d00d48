//! The modelled times of launches that belong to no task.

use std::collections::BTreeMap;

use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::plan::{ResolvedArgument, ResolvedLaunch};
use domain::role::{Compiled, Distribution, Key, LaunchFacts, TensorData};
use domain::task::Role;
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, ModelError, Subject};

use crate::lab::{Lab, lab};

const ELEMENTS: u64 = 1 << 18;
const DOUBLE: &str = r#"extern "C" __global__ void twice(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
"#;

fn built(lab: &Lab) -> Compiled {
    let recipe = CompilationInputs {
        source: DOUBLE,
        configuration: &BTreeMap::new(),
        headers: &BTreeMap::new(),
        architecture: &lab.evaluator().host().device().architecture(),
    };
    let cancellation = Cancellation::new().unwrap();
    lab.evaluator().build(&recipe, &cancellation).unwrap()
}

fn asked(lab: &Lab, compiled: &Compiled, threads: u32, blocks: u64) -> Result<LaunchFacts, String> {
    let buffer = |name: &str| TensorData {
        name: name.to_owned(),
        dtype: Dtype::F32,
        extents: vec![ELEMENTS],
        role: Role::Inout,
        align: 256,
        distribution: Distribution::Positive,
        key: Key(Digest::of(name)),
        alteration: None,
    };
    let subject = Subject {
        compiled,
        launch: ResolvedLaunch {
            kernel: "twice".to_owned(),
            grid: [1024, 1, 1],
            block: [threads, 1, 1],
            // Two blocks fit a multiprocessor, so that the grid has several waves.
            shared_bytes: 48 << 10,
            cooperative: false,
            l2_persist: None,
            arguments: vec![
                ResolvedArgument::Buffer("in".to_owned()),
                ResolvedArgument::Buffer("out".to_owned()),
                ResolvedArgument::I32(i32::try_from(ELEMENTS).unwrap()),
            ],
        },
        buffers: vec![buffer("in"), buffer("out")],
        values: BTreeMap::new(),
        blocks,
    };
    let cancellation = Cancellation::new().unwrap();
    match lab.evaluator().model(&subject, &cancellation) {
        Ok(launch) => Ok(launch),
        Err(ModelError::Launch(reason)) => Err(reason),
        Err(ModelError::Fault(error)) => panic!("{error}"),
    }
}

#[test]
fn a_launch_is_modelled_from_a_sample_of_its_blocks() {
    let Some(lab) = lab() else { return };
    let compiled = built(&lab);
    let whole = asked(&lab, &compiled, 256, 1024).unwrap();
    let sampled = asked(&lab, &compiled, 256, 16).unwrap();
    assert_eq!(whole.counters["global.sectors_read"], ELEMENTS / 8);
    assert_eq!(whole.counters.get("sampled_blocks"), None);
    // Two runs of three waves, of the blocks that 58 multiprocessors run at a time.
    assert_eq!(sampled.counters["sampled_blocks"], 2 * 3 * 58 * 2);
    // A sample does not say which blocks share a multiprocessor.
    let placed = |name: &str| name.starts_with("busiest_multiprocessor.");
    for (name, count) in whole.counters.iter().filter(|(name, _)| !placed(name)) {
        assert_eq!(sampled.counters.get(name), Some(count), "{name}");
    }
    let us = |facts: &LaunchFacts| facts.modelled.as_ref().unwrap().us;
    assert!(us(&whole) > 0.0);
    assert!((us(&sampled) / us(&whole) - 1.0).abs() < 1e-9);
}

#[test]
fn a_launch_that_does_not_fit_the_device_is_refused() {
    let Some(lab) = lab() else { return };
    let compiled = built(&lab);
    let refused = asked(&lab, &compiled, 2048, 16).unwrap_err();
    assert!(refused.contains("CUDA_ERROR_INVALID_VALUE"), "{refused}");
}
