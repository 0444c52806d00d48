//! Paired comparisons of a candidate with the baseline: the decisions, and the verdicts on a
//! process that reports false times, dies or is disturbed.

use domain::candidate::KernelSource;
use domain::evaluation::{EvaluationRequest, EvaluationStage, Incumbent};
use domain::statistics::{ALTERNATIONS, ANALYSIS_PAIRS, CONFIRMATION};
use domain::task::Bundle;
use domain::verdict::{Outcome, Verdict, VerdictKind};
use worker::cancel::Cancellation;
use worker::evaluate::{Compared, Evaluator, Stop};
use worker::host::{ClockPolicy, RepeatPolicy, Role};

use crate::lab::{Lab, lab};

const TASK: &str = r#"name = "double"
[dims]
N = {}
[[tensor]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "in"
align = 16
values = "normal"
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
align = 16
[tolerance]
class = "f32"
[contract]
error_scale = { y = "y_scale" }
error_terms = { y = "1" }
[[case]]
name = "one"
dims = { N = 64 }
use = ["check", "score"]
[objective]
minimise = "geomean"
target_speedup = 1.5
stop_at_target = false
"#;

/// Doubles every element, after `rounds` dependent steps that change nothing.
pub(super) fn kernel(rounds: u32) -> String {
    format!(
        r#"/*---
[[launch]]
kernel = "twice"
grid = ["cdiv(N, 32)"]
block = [32]
args = ["x", "y", "N"]
---*/
extern "C" __global__ void twice(const float* x, float* y, int N) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float sum = x[i];
    for (int step = 0; step < {rounds}; ++step) sum = __fsqrt_rn(sum * sum) * (sum < 0 ? -1.0f : 1.0f);
    y[i] = 2.0f * sum;
}}
"#
    )
}

const REFERENCE: &str = r#"/*---
[[launch]]
kernel = "twice"
grid = ["N"]
block = [1]
args = ["x", "y", "y_scale"]
[workspace.y_scale]
dtype = "f64"
shape = ["N"]
---*/
extern "C" __global__ void twice(const float* x, double* y, double* y_scale) {
    y[blockIdx.x] = 2.0 * x[blockIdx.x];
    y_scale[blockIdx.x] = fabs(y[blockIdx.x]);
}
"#;

pub(super) fn request(source: &str) -> EvaluationRequest {
    let mut request = Lab::request("gemm-f32", "a.cu", source.to_owned());
    let files = [
        ("task.toml", TASK.to_owned()),
        ("reference.cu", REFERENCE.to_owned()),
        ("check.cu", REFERENCE.to_owned()),
        ("baseline.cu", kernel(400)),
    ];
    request.task = Bundle {
        files: files.map(|(name, text)| (name.to_owned(), text)).into(),
    };
    request.stage = EvaluationStage::Search;
    request
}

fn duel(evaluator: &Evaluator, source: &str) -> Result<Compared, Box<Verdict>> {
    compare(evaluator, &request(source))
}

fn compare(evaluator: &Evaluator, request: &EvaluationRequest) -> Result<Compared, Box<Verdict>> {
    match evaluator.bench(request, |_| {}, &Cancellation::new().unwrap()) {
        Ok(compared) => Ok(compared),
        Err(Stop::Verdict(verdict)) => Err(verdict),
        Err(Stop::Fault(error)) => panic!("{error}"),
    }
}

#[test]
fn a_paired_comparison_tells_a_faster_kernel_from_an_equal_one() {
    let Some(lab) = lab() else { return };
    let faster = duel(lab.evaluator(), &kernel(40)).unwrap();
    assert_eq!(faster.comparison.outcome, Outcome::Faster, "{faster:?}");
    assert!(faster.comparison.interval[0] > 1.005);
    let found = &faster.measurement;
    assert!(faster.timing.is_modelled() && found.incumbent_timing.is_modelled());
    let ratio = faster.timing.speedup_over(&found.incumbent_timing).unwrap();
    assert!((ratio / faster.comparison.ratio - 1.0).abs() < 1e-3);
    assert_eq!(
        (found.settled.evidence.pairs, found.analyses),
        (ANALYSIS_PAIRS[0], 1),
        "one analysis settles it"
    );
    assert_eq!(
        (2 * found.rounds.concat().len(), found.timed as usize),
        (ANALYSIS_PAIRS[0], ANALYSIS_PAIRS[0] / 2),
        "and no more is timed than that look needs"
    );
    assert!(found.discarded.is_empty() && found.noise.is_none());
    // Without an incumbent the baseline takes its place, and scores are relative to it.
    assert_eq!(found.incumbent, identity(&kernel(400)));
    assert!((found.anchor.ratio / faster.comparison.ratio - 1.0).abs() < 1e-9);
    // Such short times are taken in batches, over several sets of buffers.
    assert!(faster.timing.geomean_us() < 20.0, "{}", faster.timing);
    let [case] = found.cases.as_slice() else {
        panic!("{:?}", found.cases);
    };
    assert_eq!((case.batch, case.sets), (2, 4));
    assert!(case.warm_up >= 3);
    let equal = duel(lab.evaluator(), &kernel(400)).unwrap();
    assert_eq!(equal.comparison.outcome, Outcome::NotFaster, "{equal:?}");
    let slower = duel(lab.evaluator(), &kernel(800)).unwrap();
    assert_eq!(slower.comparison.outcome, Outcome::NotFaster);
    assert!(slower.measurement.regressions[0].blocks);
}

pub(super) fn identity(source: &str) -> domain::digest::Digest {
    let source = KernelSource::parse("a.cu", source).unwrap();
    source.candidate_digest(&source.plan().default_configuration())
}

#[test]
fn candidates_must_beat_the_incumbent_and_are_scored_by_the_baseline() {
    let Some(lab) = lab() else { return };
    let against = |candidate: u32, incumbent: u32| {
        let mut request = request(&kernel(candidate));
        let timing = domain::timing::Timing::Measured {
            cases: Vec::new(),
            unscored: Vec::new(),
        };
        request.incumbent = Some(Incumbent {
            file: "incumbent.cu".to_owned(),
            source: kernel(incumbent),
            configuration: domain::plan::Configuration::new(),
            timing,
        });
        let compared = compare(lab.evaluator(), &request).unwrap();
        assert_eq!(compared.measurement.incumbent, identity(&kernel(incumbent)));
        compared
    };
    let worse = against(160, 40);
    assert_eq!(worse.comparison.outcome, Outcome::NotFaster, "{worse:?}");
    assert!(worse.comparison.ratio < 1.0 && worse.measurement.anchor.ratio > 1.1);
    let better = against(10, 160);
    assert_eq!(better.comparison.outcome, Outcome::Faster, "{better:?}");
    assert!(better.measurement.anchor.ratio > 1.1 * better.comparison.ratio);
    let [lower, upper] = better.measurement.anchor.interval;
    assert!(lower <= better.measurement.anchor.ratio && better.measurement.anchor.ratio <= upper);
    let same = against(10, 400);
    assert!((same.measurement.anchor.ratio / better.measurement.anchor.ratio - 1.0).abs() < 1e-3);
}

#[test]
fn a_confirmation_has_a_control_and_meets_nobody() {
    let Some(lab) = lab() else { return };
    let mut request = request(&kernel(40));
    request.stage = EvaluationStage::Confirmation;
    let confirmed = compare(lab.evaluator(), &request).unwrap();
    assert_eq!(confirmed.comparison.outcome, Outcome::Faster);
    let found = &confirmed.measurement;
    assert_eq!(found.rounds.len(), CONFIRMATION.processes);
    assert_eq!(
        found.settled.evidence.pairs,
        CONFIRMATION.processes * CONFIRMATION.pairs
    );
    let noise = found.noise.as_ref().unwrap();
    assert_eq!(noise.processes as usize, CONFIRMATION.processes);
    assert!(noise.interval.half_width() < 1e-6, "a model has no noise");
    let split = found.split.as_ref().unwrap();
    assert_eq!(split.alternations, ALTERNATIONS);
    assert!((split.effect - found.settled.evidence.effect).abs() < 1e-3);
    // The record survives the way to the service.
    let json = serde_json::to_string(found).unwrap();
    let read: domain::measurement::Measurement = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (read.analyses, read.timed, &read.cases),
        (1, found.timed, &found.cases)
    );
    assert!((read.settled.evidence.effect - found.settled.evidence.effect).abs() < 1e-12);
}

/// The rules of a fault plan under which the driver reports these elapsed times in order,
/// milliseconds.
pub(super) fn elapsed(answers: impl Iterator<Item = f64>) -> String {
    answers
        .enumerate()
        .map(|(call, ms)| {
            format!(
                "[[fault]]\ncall = \"cuEventElapsedTime_v2\"\nnth = {}\ndo = {{ elapsed_ms = {ms:.6} }}\n",
                call + 1
            )
        })
        .collect()
}

/// The rules of a fault plan under which every time has so much noise that no gain is visible.
pub(super) fn noise() -> String {
    let mut state = 1_u32;
    // More times than the rounds and the warming up before them can use.
    let times = (0..2000).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.005 * (1.0 + 0.5 * f64::from(state >> 8) / f64::from(1 << 24))
    });
    elapsed(times)
}

#[test]
fn noise_that_hides_a_gain_leaves_the_comparison_unresolved() {
    let Some(lab) = lab() else { return };
    let spoiled = lab.with_spoiled_timing(&noise());
    let compared = duel(&spoiled, &kernel(400)).unwrap();
    assert_eq!(
        compared.comparison.outcome,
        Outcome::Unresolved,
        "{compared:?}"
    );
    let [lower, upper] = compared.comparison.interval;
    assert!(lower < 1.0 && upper > 1.0, "{compared:?}");
    // Four interim analyses were made, and each asked for further pairs.
    let found = &compared.measurement;
    assert_eq!(found.analyses as usize, ANALYSIS_PAIRS.len());
    assert_eq!(
        2 * found.timed as usize,
        ANALYSIS_PAIRS[ANALYSIS_PAIRS.len() - 1]
    );
    assert!(found.watched.clock > found.watched.blocks / 2, "{found:?}");
}

#[test]
fn a_process_that_dies_between_two_analyses_is_replaced_once() {
    let Some(lab) = lab() else { return };
    // Warming up takes at most five blocks. A block has four batches of two; where it is counted,
    // each batch is between two launches that count cycles.
    let within_the_second_look = 8 * 5 + 16 * (ANALYSIS_PAIRS[0] / 2 + 2);
    let death = format!(
        "[[fault]]\ncall = \"cuLaunchKernel\"\nnth = {within_the_second_look}\ndo = \"abort\"\n"
    );
    let spoiled = lab.with_spoiled_timing(&(noise() + &death));
    let verdict = duel(&spoiled, &kernel(400)).unwrap_err();
    assert_eq!(verdict.kind(), VerdictKind::RunnerCrash, "{verdict}");
}

#[test]
fn a_disturbed_device_decides_nothing_and_an_unobserved_one_does() {
    let Some(lab) = lab() else { return };
    let rule = |call: &str, action: &str| {
        format!("[[fault]]\ncall = \"{call}\"\nnth = \"every\"\ndo = {action}\n")
    };
    let usual = duel(lab.evaluator(), &kernel(40)).unwrap();
    let watched = &usual.measurement.watched;
    // On a busy machine the watcher may start late, so that it has no samples of the first blocks.
    assert!(
        watched.clock > 0 && watched.clock <= watched.blocks,
        "{watched:?}"
    );
    assert_eq!(watched.clock_events, watched.clock);
    // The process that times counts cycles whether or not the device is watched.
    assert_eq!(watched.counted_clock, watched.blocks);
    let [lowest, highest] = watched.counted_mhz.unwrap();
    assert!(
        lowest > 2000.0 && highest < 2080.0,
        "an L4's clock in its data sheet is 2040 MHz, counted were {lowest} to {highest}"
    );
    let evidence = &usual.measurement.settled.evidence;
    let cycles = evidence.cycles.unwrap();
    assert!((cycles - evidence.effect).abs() < 1e-3, "{evidence:?}");
    assert_eq!(watched.other_processes, watched.clock);
    assert_eq!(watched.celsius, Some([40.0, 40.0]));
    let reasons = "nvmlDeviceGetCurrentClocksEventReasons";
    for (plan, wanted) in [
        (rule(reasons, "{ answer = 0x48 }"), "slowed down"),
        (
            rule("nvmlDeviceGetComputeRunningProcesses_v3", "{ answer = 1 }"),
            "1 other processes",
        ),
    ] {
        let disturbed = lab.with_spoiled_watch(&plan);
        match duel(&disturbed, &kernel(40)) {
            Err(verdict) => {
                assert_eq!(verdict.kind(), VerdictKind::Inconclusive, "{verdict}");
                assert!(verdict.to_string().contains(wanted), "{verdict}");
            }
            Ok(compared) => {
                let found = compared.measurement;
                let discarded = found.discarded.len();
                assert_eq!(discarded, found.watched.clock as usize, "all that was seen");
                assert!(discarded > 0 && found.discarded[0].reason.to_string().contains(wanted));
            }
        }
    }
    let capped = lab.with_spoiled_watch(&rule(reasons, "{ answer = 4 }"));
    let capped = duel(&capped, &kernel(40)).unwrap().measurement.watched;
    assert!(capped.power_capped > 0, "said, and no disturbance");
    assert_eq!(capped.power_capped, capped.clock_events);
    for (call, action) in [
        ("nvmlInit_v2", "{ error = 999 }"),
        ("nvmlDeviceGetHandleByUUID", "\"abort\""),
        ("nvmlDeviceGetTemperature", "\"hang\""),
    ] {
        let blind = lab.with_spoiled_watch(&rule(call, action));
        let compared = duel(&blind, &kernel(40)).unwrap();
        assert_eq!(compared.comparison.outcome, Outcome::Faster, "{call}");
        let watched = compared.measurement.watched;
        assert_eq!((watched.clock, watched.celsius), (0, None), "{call}");
    }
}

#[test]
fn a_baseline_slower_than_its_history_invalidates_its_rounds() {
    let Some(lab) = lab() else { return };
    // Every batch takes this many microseconds.
    let timed = |us: f64| {
        let plan = format!(
            "[[fault]]\ncall = \"cuEventElapsedTime_v2\"\nnth = \"every\"\ndo = {{ elapsed_ms = {} }}\n",
            us / 1000.0
        );
        let host = lab.with_spoiled_timing(&plan).host().clone();
        let doubt = RepeatPolicy {
            max_repeats: 1,
            large_tensor_elements: 1 << 31,
        };
        duel(
            &Evaluator::new(host.assumed_unproved(doubt)).unwrap(),
            &kernel(40),
        )
    };
    // The history has no usual time before three comparisons.
    for us in [10.5, 10.0, 10.0] {
        timed(us).unwrap();
    }
    timed(10.2).unwrap();
    let off = timed(10.5).unwrap_err();
    assert_eq!(off.kind(), VerdictKind::Inconclusive, "{off}");
    assert!(
        off.to_string().contains("the baseline took 5.250 us"),
        "{off}"
    );
    // The refused comparison is not recorded.
    timed(10.0).unwrap();
    assert!(timed(10.5).is_err());
}

#[test]
fn a_copy_damaged_in_a_comparison_does_not_reject_a_correct_candidate() {
    let Some(lab) = lab() else { return };
    // In a block of two sets, each execution leaves two buffers, and four samples make 16 copies.
    // The damaged copy belongs to the second half of the rounds, which a second process does not
    // reach.
    let half = (ANALYSIS_PAIRS[0] / 2).div_ceil(2);
    let mut faults = 0;
    for nth in [16 * half + 20, 16 * half + 25, 16 * half + 30] {
        let plan = format!(
            "[[fault]]\ncall = \"cuMemcpyDtoH_v2\"\nnth = {nth}\ndo = {{ corrupt = {{ bytes = 4 }} }}\n"
        );
        let spoiled = lab.with_spoiled_timing(&plan);
        let asked = spoiled.bench(&request(&kernel(40)), |_| {}, &Cancellation::new().unwrap());
        match asked {
            Err(Stop::Fault(fault)) => {
                assert!(fault.to_string().contains("confirm"), "{nth}: {fault}");
                faults += 1;
            }
            // The copy was one of the incumbent's, on which no verdict rests.
            Err(Stop::Verdict(verdict)) => {
                assert_eq!(verdict.kind(), VerdictKind::InvalidRun, "{verdict}");
            }
            Ok(_) => panic!("{nth}: nothing was damaged"),
        }
    }
    assert!(faults > 0, "some of the copies are the candidate's");
}

/// The process that times knows no right answer, so that it keeps outputs for the role that does.
#[test]
fn timed_outputs_of_sums_in_any_order_are_held_against_the_tolerance() {
    let Some(lab) = lab() else { return };
    // Timed executions begin with different poison in their outputs.
    let off = |by: &str| {
        kernel(40).replace(
            "y[i] = 2.0f * sum;",
            &format!("y[i] = 2.0f * sum * (1.0f + (__float_as_uint(y[i]) & 1) * {by});"),
        )
    };
    let spread = |source: &str| {
        let mut request = request(source);
        let task = request.task.files.get_mut("task.toml").unwrap();
        *task = TASK.replace("[contract]", "[contract]\norder_dependent = [\"y\"]");
        compare(lab.evaluator(), &request)
    };
    let rounding = spread(&off("0x1p-23f")).unwrap();
    assert_eq!(rounding.comparison.outcome, Outcome::Faster, "{rounding:?}");
    for by in ["0x1p-19f", "0.01f"] {
        let verdict = spread(&off(by)).expect_err(by);
        assert_eq!(
            verdict.kind(),
            VerdictKind::NonDeterministic,
            "{by}: {verdict}"
        );
        assert!(verdict.to_string().contains("tolerance"), "{by}: {verdict}");
    }
    // Always the same, and wrong.
    let wrong = kernel(40).replace("2.0f * sum", "2.01f * sum");
    let verdict = spread(&wrong).expect_err("wrong in every execution");
    assert_eq!(verdict.kind(), VerdictKind::NonDeterministic, "{verdict}");

    let verdict = duel(lab.evaluator(), &off("0x1p-23f")).expect_err("bytes are compared");
    assert_eq!(verdict.kind(), VerdictKind::NonDeterministic, "{verdict}");
    assert!(!verdict.to_string().contains("tolerance"), "{verdict}");
}

#[test]
fn a_fault_in_a_comparison_never_wins() {
    let Some(lab) = lab() else { return };
    let rule = |call: &str, nth: &str, action: &str| {
        format!("[[fault]]\ncall = \"{call}\"\nnth = {nth}\ndo = {action}\n")
    };
    let table: [(&str, String, &[VerdictKind]); 6] = [
        (
            "a clock that runs ahead of the wall",
            rule("cuEventElapsedTime_v2", "\"every\"", "{ elapsed_ms = 1e7 }"),
            &[VerdictKind::ClockMismatch],
        ),
        (
            "times of nothing",
            rule("cuEventElapsedTime_v2", "\"every\"", "{ elapsed_ms = 0.0 }"),
            &[VerdictKind::Inconclusive],
        ),
        (
            "a process that ends in the middle",
            rule("cuLaunchKernel", "7", "\"exit\""),
            &[VerdictKind::RunnerCrash],
        ),
        (
            "a process that dies in the middle",
            rule("cuLaunchKernel", "7", "\"abort\""),
            &[VerdictKind::RunnerCrash],
        ),
        (
            "an illegal address",
            rule("cuLaunchKernel", "7", "{ error = 700 }"),
            &[VerdictKind::RuntimeFault, VerdictKind::InvalidRun],
        ),
        (
            "bytes that are not what was written",
            rule("cuMemcpyDtoH_v2", "60", "{ corrupt = { bytes = 4 } }"),
            &[VerdictKind::NonDeterministic, VerdictKind::InvalidRun],
        ),
    ];
    for (name, plan, expected) in table {
        let spoiled = lab.with_spoiled_timing(&plan);
        let verdict = duel(&spoiled, &kernel(40)).expect_err(name);
        assert!(expected.contains(&verdict.kind()), "{name}: {verdict}");
    }
    let after = duel(lab.evaluator(), &kernel(40)).unwrap();
    assert_eq!(
        after.comparison.outcome,
        Outcome::Faster,
        "nothing is left behind"
    );
}

#[test]
fn clocks_are_locked_for_a_comparison_and_free_after_it_whatever_happens() {
    let Some(lab) = lab() else { return };
    let rule = |call: &str, action: &str| {
        format!("[[fault]]\ncall = \"{call}\"\nnth = \"every\"\ndo = {action}\n")
    };
    let (lock, free) = (
        "nvmlDeviceSetGpuLockedClocks",
        "nvmlDeviceResetGpuLockedClocks",
    );
    let locking = |plans: &[(Role, &str)]| {
        let host = lab.spoiled(plans).host().clone();
        Evaluator::new(host.with_clocks(ClockPolicy::Lock)).unwrap()
    };
    let record = lab.evaluator().host().clocks_record();
    let says = || std::fs::read_to_string(&record).unwrap_or_default();

    let observed = duel(lab.evaluator(), &kernel(40)).unwrap();
    assert!(!observed.measurement.locked && !record.exists());
    let locked = duel(&locking(&[]), &kernel(40)).unwrap();
    assert!(locked.measurement.locked);
    assert_eq!((record.exists(), says().as_str()), (true, ""));

    // A worker that may not lock clocks compares without a lock.
    for action in ["{ error = 4 }", "{ error = 3 }"] {
        let plan = rule(lock, action);
        let refused = duel(&locking(&[(Role::Clocks, &plan)]), &kernel(40)).unwrap();
        assert_eq!(refused.comparison.outcome, Outcome::Faster, "{action}");
        assert!(!refused.measurement.locked && says().is_empty(), "{action}");
    }
    // A timing process that dies does not leave them locked.
    let plan = rule("cuLaunchKernel", "\"abort\"");
    let died = duel(&locking(&[(Role::Time, &plan)]), &kernel(40)).unwrap_err();
    assert_eq!(died.kind(), VerdictKind::RunnerCrash, "{died}");
    assert!(says().is_empty(), "{}", says());

    // A failed unlock stays recorded, and the next start unlocks them.
    for action in ["\"abort\"", "{ error = 999 }"] {
        let plan = rule(free, action);
        duel(&locking(&[(Role::Clocks, &plan)]), &kernel(40)).unwrap();
        assert_eq!(says(), "locked\n", "{action}");
        // A file that another worker holds records a lock that is in use.
        let held = std::fs::File::open(&record).unwrap();
        held.lock().unwrap();
        let _beside = lab.started_anew();
        assert_eq!(says(), "locked\n", "{action}");
        drop(held);
        let _next = lab.started_anew();
        assert!(says().is_empty(), "{action}");
    }
}

/// The same result for every number of dependent steps, which the compiler cannot remove.
pub(super) fn patient_kernel(rounds: u32) -> String {
    let usual = kernel(0);
    let (front, _) = usual.split_once("    float sum").unwrap();
    format!(
        r#"{front}    unsigned bits = __float_as_uint(x[i]);
    for (int step = 0; step < {rounds}; ++step) bits = __funnelshift_l(bits, bits, blockDim.y - 1);
    y[i] = 2.0f * __uint_as_float(bits);
}}
"#
    )
}

#[test]
fn a_search_repeats_a_comparison_that_is_nearly_too_good() {
    let Some(lab) = lab() else { return };
    let host = lab.evaluator().host().clone().with_paired_timing();
    let evaluator = Evaluator::new(host).unwrap();
    let evaluate = |rounds: u32, stage| {
        let mut request = request(&patient_kernel(rounds));
        let baseline = request.task.files.get_mut("baseline.cu").unwrap();
        *baseline = patient_kernel(4000);
        request.stage = stage;
        let cancellation = Cancellation::new().unwrap();
        let found = evaluator.evaluate(&request, |_| {}, &cancellation).unwrap();
        let Verdict::Accepted(accepted) = &found.verdict else {
            panic!("{}", found.verdict);
        };
        let ratio = accepted.comparison.as_ref().unwrap().ratio;
        let stages = found.stages.iter();
        let count = |name: &str| {
            let named = stages.clone().filter(|stage| stage.stage == name);
            named.count()
        };
        (ratio, count("smoke"), count("time"), count("time again"))
    };
    let (ratio, smoke, time, again) = evaluate(2000, EvaluationStage::Search);
    assert!(ratio > 1.2 && ratio < 3.0, "{ratio}");
    assert_eq!((smoke, time, again), (1, 1, 0));
    let (ratio, smoke, time, again) = evaluate(10, EvaluationStage::Search);
    assert!(ratio > 3.0, "{ratio}");
    assert_eq!((smoke, time, again), (2, 1, 1));
}
