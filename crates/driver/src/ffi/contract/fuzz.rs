//! Random calls in random order with random arguments: valid ones, stale ones, those of another kind or context,
//! garbage.
//!
//! `PROPTEST_CASES=100000 cargo test -p driver any_sequence` runs more cases.

use proptest::prelude::*;

use crate::code;

use super::entries;
use super::entry::{Argument, FunctionContract};
use super::test_process::{GARBAGE, ROOM, TestProcess};

/// Limit of thread instructions of a launch; all kernels that terminate need fewer.
const BUDGET: u64 = 20_000;

/// Numbers that are plausible sizes, flags, ordinals or counts.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    31,
    32,
    64,
    1024,
    65_536,
    1 << 31,
    0xffff_ffff,
    1 << 50,
    u64::MAX,
];
const NAMES: [&str; 8] = [
    "axpy",
    "astray",
    "trapped",
    "endless",
    "through_shared",
    "counter",
    "",
    "cuCtxCreate",
];
const IMAGES: [&str; 4] = [
    super::test_process::PTX,
    "",
    "\x7fELF",
    ".version 8.0\n.target sm_80\n.address_size 64\n.global .u64 counter[9];\n",
];

/// A random number generator; all choices of a call follow from one seed.
struct RandomChoices(u64);

impl RandomChoices {
    /// One step of splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// All handles and device addresses that the functions returned so far, alive or not. Host addresses among them are
/// never passed as host pointers, because the API trusts those.
#[derive(Default)]
struct Returned {
    numbers: Vec<u64>,
    contexts: Vec<u64>,
    /// Device memory, allocated or freed.
    memory: Vec<u64>,
    /// Parameter structures that refer to objects which were alive at the start.
    params: Vec<(Argument, u64)>,
}

/// The structures that are created at the start.
const PARAMS: [Argument; 6] = [
    Argument::Rectangle,
    Argument::KernelParams,
    Argument::CopyParams,
    Argument::FillParams,
    Argument::HostCallParams,
    Argument::AnyNodeParams,
];

impl Returned {
    /// Creates one object of each kind.
    fn prepared(test_process: &mut TestProcess) -> Self {
        let mut returned = Self {
            params: PARAMS
                .map(|param| (param, test_process.valid(param)))
                .to_vec(),
            ..Self::default()
        };
        for kind in [
            Argument::Context,
            Argument::Stream,
            Argument::Recorded,
            Argument::Function,
            Argument::Kernel,
            Argument::Pool,
            Argument::FilledLink,
            Argument::Memory,
            Argument::Reserved,
            Argument::Physical,
            Argument::Mapped,
            Argument::Managed,
            Argument::Pinned,
            Argument::Graph,
            Argument::InnerGraph,
            Argument::Node(0),
            Argument::Node(1),
            Argument::Node(2),
            Argument::Node(3),
            Argument::Node(4),
            Argument::AnyNode,
            Argument::Node(6),
            Argument::Node(7),
            Argument::Executable,
            Argument::Captured,
            Argument::UserObject,
        ] {
            let valid = test_process.valid(kind);
            returned.numbers.push(valid);
            match kind {
                Argument::Context => returned.contexts.push(valid),
                Argument::Memory => returned.memory.push(valid),
                _ => {}
            }
        }
        returned
    }
}

/// Chooses an argument: usually a value that is or was valid, sometimes any value.
fn choose(
    test_process: &mut TestProcess,
    returned: &Returned,
    argument: Argument,
    choices: &mut RandomChoices,
) -> u64 {
    let handle = |choices: &mut RandomChoices| match choices.below(8) {
        0 => 0,
        1 => GARBAGE,
        2 => choices.one_of(&NUMBERS),
        _ if returned.numbers.is_empty() => 0,
        _ => choices.one_of(&returned.numbers),
    };
    let rarely_null = |value: u64, choices: &mut RandomChoices| match choices.below(10) {
        0 => 0,
        _ => value,
    };
    match argument {
        Argument::Null | Argument::SharedForBlock => 0,
        Argument::Out | Argument::OptionalOut => {
            rarely_null(test_process.result_address(), choices)
        }
        Argument::Host | Argument::Unregistered => rarely_null(test_process.host(), choices),
        Argument::Number(valid) => match choices.below(3) {
            // The count of an array that is null: every number is valid.
            0 => choices.one_of(&NUMBERS),
            _ => valid,
        },
        Argument::Bytes(_) => choices.one_of(&[0, 1, 16, 4096, ROOM as u64]),
        Argument::Length(valid) => choices.one_of(&[0, valid]),
        Argument::HostBytes => choices.one_of(&[0, 64, 4096, 1 << 20, 1 << 60, u64::MAX]),
        Argument::OneOf(valid, invalid_values) => match choices.below(4) {
            0 => choices.one_of(&NUMBERS),
            1 => choices.one_of(invalid_values).0,
            _ => valid,
        },
        Argument::Device => u64::from(choices.below(10) == 0),
        Argument::Name(..) => {
            let name = choices.one_of(&NAMES);
            let name = test_process.text(name);
            rarely_null(name, choices)
        }
        Argument::Image => {
            let image = choices.one_of(&IMAGES);
            let image = test_process.text(image);
            rarely_null(image, choices)
        }
        Argument::Either => match choices.below(3) {
            0 => rarely_null(test_process.host(), choices),
            _ if returned.memory.is_empty() => 0,
            _ => choices.one_of(&returned.memory),
        },
        Argument::Nodes(_) => {
            let node = handle(choices);
            let list = test_process.list(node);
            rarely_null(list, choices)
        }
        Argument::Path => rarely_null(test_process.text("/dev/null"), choices),
        Argument::Rectangle
        | Argument::KernelParams
        | Argument::CopyParams
        | Argument::FillParams
        | Argument::HostCallParams
        | Argument::AnyNodeParams => {
            let param = returned.params.iter().find(|(kind, _)| *kind == argument);
            param.map_or(0, |(_, param)| rarely_null(*param, choices))
        }
        Argument::Parameters
        | Argument::PoolProperties
        | Argument::MemoryProperties
        | Argument::Access
        | Argument::Description
        | Argument::Attributes
        | Argument::AttributeBuffers
        | Argument::InstantiateParams
        | Argument::Mode
        | Argument::HostFunction => {
            let valid = test_process.valid(argument);
            rarely_null(valid, choices)
        }
        _ => handle(choices),
    }
}

/// Makes one call and records the handle that it returned.
fn step(
    test_process: &mut TestProcess,
    returned: &mut Returned,
    entry: &FunctionContract,
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut choices = RandomChoices(seed);
    let arguments: Vec<u64> = entry
        .arguments
        .iter()
        .map(|argument| choose(test_process, returned, *argument, &mut choices))
        .collect();
    let found = test_process.call(entry.name, &arguments);
    prop_assert!(
        code::name(found).is_some(),
        "{} answered {found}",
        entry.name
    );
    let gives = matches!(entry.arguments.first(), Some(Argument::Out));
    if found == 0 && gives && arguments[0] != 0 {
        returned.numbers.push(test_process.result());
        if entry.name.starts_with("cuCtxCreate") {
            returned.contexts.push(test_process.result());
        }
        if matches!(entry.name, "cuMemAlloc_v2" | "cuMemAllocAsync") {
            returned.memory.push(test_process.result());
        }
    }
    Ok(())
}

/// Destroys every context and checks that no object of a context is left.
fn destroy_contexts(
    test_process: &mut TestProcess,
    returned: &Returned,
) -> Result<(), TestCaseError> {
    test_process.call_ok("cuInit", &[0]);
    test_process.call_ok("cuDevicePrimaryCtxReset_v2", &[0]);
    for context in &returned.contexts {
        // Most contexts are destroyed already.
        let _ = test_process.call("cuCtxDestroy_v2", &[*context]);
    }
    let left = test_process.objects();
    let (libraries, mappings, used) = test_process.outside_contexts();
    // Libraries and mappings belong to no context: their kernels, variables and bytes exist until they are unloaded
    // or unmapped.
    prop_assert_eq!(&left[..4], [0; 4], "allocations, events, streams, modules");
    prop_assert_eq!(
        test_process.graph_objects(),
        [0; 4],
        "graphs, nodes, executables, captures"
    );
    if libraries == 0 && mappings == 0 {
        prop_assert_eq!((left[4], used), (0, 0), "functions, bytes");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_returns_known_codes_and_leaks_nothing(
        initialised in prop::bool::weighted(0.95),
        calls in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..40),
    ) {
        let entries: Vec<FunctionContract> = entries().collect();
        let (mut test_process, mut returned) = if initialised {
            let mut test_process = TestProcess::ready();
            let returned = Returned::prepared(&mut test_process);
            (test_process, returned)
        } else {
            (TestProcess::new(), Returned::default())
        };
        test_process.limit_launches(BUDGET);
        for (entry, seed) in &calls {
            step(&mut test_process, &mut returned, entry.get(&entries), *seed)?;
        }
        destroy_contexts(&mut test_process, &returned)?;
    }
}
