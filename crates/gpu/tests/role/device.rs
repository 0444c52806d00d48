//! Tests of candidates and references on the emulated driver: the roles run, verify and probe as child processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::finding::FindingKind;
use domain::plan::{
    ResolvedArgument, ResolvedLaunch, ResolvedPlan, ResolvedStep, ResolvedWorkspace,
};
use domain::role::{
    Check, CompileJob, CompileReply, Compiled, Distribution, Disturbance, Execution,
    ExecutionFacts, ExecutionPurpose, Key, OutputComparison, Placement, ProbeJob, ProbeReply,
    RunJob, RunReply, TensorData, VerifyJob, VerifyReply,
};
use domain::statistics::Arithmetic;
use domain::task::{Role, ToleranceClass};
use tempfile::TempDir;

use crate::process::{self, Ended};

/// Number of elements of the tensors: not a multiple of the block, so that a missing bounds check has an effect.
const N: u64 = 1000;
const BLOCK: u32 = 128;

/// out = 3 in, a correct kernel.
const HONEST: &str = r#"extern "C" __global__ void triple(const float* in, float* out, float* half, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 3.0f * in[i];
}
"#;
/// The same in binary64, with its error scale.
const REFERENCE: &str = r#"extern "C" __global__ void triple(const float* in, double* out, double* scale, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = 3.0 * in[i];
        scale[i] = 3.0 * fabs((double)in[i]);
    }
}
"#;

/// A folder with the files of a test; none if the toolchain is not installed.
struct Bench {
    folder: TempDir,
    libraries: Vec<PathBuf>,
    nvrtc: PathBuf,
}

impl Bench {
    fn new() -> Option<Self> {
        let nvrtc = process::nvrtc()?;
        let driver = process::driver()?;
        let folder = tempfile::tempdir().unwrap();
        let libraries = folder.path().join("libraries");
        fs::create_dir(&libraries).unwrap();
        std::os::unix::fs::symlink(driver, libraries.join("libcuda.so.1")).unwrap();
        Some(Self {
            folder,
            libraries: vec![libraries],
            nvrtc,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str, source: &str) -> Compiled {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("candidate.cu");
        fs::write(&path, source).unwrap();
        let job = CompileJob {
            source: path,
            architecture: "sm_89".to_owned(),
            defines: BTreeMap::new(),
            headers: None,
            toolchain_headers: process::headers(),
            output: folder,
        };
        let libraries = std::slice::from_ref(&self.nvrtc);
        match process::run("compile", &job, libraries).expect_reply() {
            CompileReply::Compiled(compiled) => *compiled,
            other => panic!("{other:?}"),
        }
    }

    fn job(&self, source: &str, executions: Vec<Execution>) -> RunJob {
        let Compiled { image, kernels, .. } = self.compile("candidate", source);
        RunJob {
            image,
            kernels,
            executions,
            threads: 2,
            lines: false,
            one_by_one: false,
            values: BTreeMap::new(),
            disturber: None,
            keeps_image: false,
        }
    }

    fn run(&self, source: &str, executions: Vec<Execution>) -> RunReply {
        let job = self.job(source, executions);
        process::run_in(self.folder.path(), "run", &job, &self.libraries).expect_reply()
    }

    /// The facts of one execution of a candidate.
    fn facts(&self, source: &str) -> ExecutionFacts {
        let mut reply = self.run(source, vec![execution(1, None)]);
        assert_eq!(reply.executions.len(), 1);
        reply.executions.remove(0)
    }

    fn verify(&self, outputs: &Path) -> Ended<VerifyReply> {
        let Compiled { image, kernels, .. } = self.compile("reference", REFERENCE);
        let job = VerifyJob {
            reference: image,
            kernels,
            checks: vec![Check {
                id: 1,
                plan: plan(Dtype::F64, N),
                tensors: tensors(),
                outputs: Some(outputs.to_owned()),
                beside: None,
                cache: self.path("answers"),
                tolerance: ToleranceClass::F32.tolerance(),
                error_scale: BTreeMap::from([("out".to_owned(), "scratch".to_owned())]),
                error_terms: BTreeMap::from([("out".to_owned(), 1.0)]),
                exact: false,
                mixed_magnitudes: false,
            }],
            threads: 1,
        };
        process::run("verify", &job, &self.libraries)
    }

    /// Runs a candidate, saves its output and compares it.
    fn compared(&self, source: &str) -> OutputComparison {
        let outputs = self.path("outputs");
        self.run(source, vec![execution(1, Some(outputs.clone()))]);
        let mut reply = self.verify(&outputs).expect_reply();
        assert_eq!(reply.comparisons.len(), 1);
        reply.comparisons.remove(0)
    }
}

fn tensors() -> Vec<TensorData> {
    let tensor = |name: &str, role, align| TensorData {
        name: name.to_owned(),
        dtype: Dtype::F32,
        extents: vec![10, 100],
        role,
        align,
        distribution: Distribution::Normal,
        key: Key(Digest::of("inputs")),
        alteration: None,
    };
    vec![tensor("in", Role::In, 16), tensor("out", Role::Out, 4)]
}

fn plan(scratch: Dtype, elements: u64) -> ResolvedPlan {
    ResolvedPlan {
        workspaces: vec![ResolvedWorkspace {
            name: "scratch".to_owned(),
            dtype: scratch,
            elements,
        }],
        steps: vec![ResolvedStep::Kernel(ResolvedLaunch {
            kernel: "triple".to_owned(),
            grid: [(N as u32).div_ceil(BLOCK), 1, 1],
            block: [BLOCK, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            l2_persist: None,
            arguments: vec![
                ResolvedArgument::Buffer("in".to_owned()),
                ResolvedArgument::Buffer("out".to_owned()),
                ResolvedArgument::Buffer("scratch".to_owned()),
                ResolvedArgument::I32(N as i32),
            ],
        })],
    }
}

fn execution(id: u32, save: Option<PathBuf>) -> Execution {
    Execution {
        id,
        case: "small".to_owned(),
        plan: plan(Dtype::F32, N / 2),
        tensors: tensors(),
        poison: 40 + u64::from(id),
        schedule: None,
        turned_fragments: false,
        disturbance: Disturbance::default(),
        placement: Placement::Ending,
        purpose: ExecutionPurpose::Score,
        instruction_budget: Some(10_000_000),
        save,
    }
}

#[test]
fn a_launch_with_arguments_of_wrong_sizes_is_refused() {
    let Some(bench) = Bench::new() else { return };
    let large = HONEST
        .replace("int n)", "Large large)")
        .replace("i < n", "i < large.n");
    let source = format!("struct Large {{ int n; char bytes[4000]; }};\n{large}");
    let mut job = bench.job(&source, vec![execution(1, None)]);
    // A job whose sizes differ from those in the image's own tables.
    assert_eq!(job.kernels[0].parameters, [8, 8, 8, 4004]);
    job.kernels[0].parameters = vec![8, 8, 8, 4];
    let ended = process::run_in(bench.folder.path(), "run", &job, &bench.libraries);
    let reply: RunReply = ended.expect_reply();
    let fault = reply.executions[0].fault.as_ref().unwrap();
    let told = (fault.name.as_str(), fault.call.as_str());
    assert_eq!(told, ("CUDA_ERROR_INVALID_VALUE", "cuLaunchKernel"));
    assert!(reply.executions[0].launches.is_empty());
}

/// An image that the driver cannot load: the fault says why.
#[test]
fn a_module_that_cannot_be_read_is_a_fault_with_the_drivers_reason() {
    let Some(bench) = Bench::new() else { return };
    let video = "if (i == n) asm volatile(\"vmad.u32.u32.u32 %0, %0.b0, %0.b1, %0;\" : \"+r\"(n));";
    let source = HONEST.replace("if (i < n)", &format!("{video}\n    if (i < n)"));
    let fault = bench.facts(&source).fault.expect("a fault");
    assert_eq!(
        (fault.code, fault.call.as_str()),
        (218, "cuModuleLoadDataEx")
    );
    let log = fault.log.unwrap_or_default();
    assert!(log.contains("found `.b0`"), "{log}");
}

#[test]
fn a_correct_candidate_gets_no_finding_and_matches_the_reference() {
    let Some(bench) = Bench::new() else { return };
    let outputs = bench.path("outputs");
    let shuffled = Execution {
        schedule: Some(7),
        ..execution(2, None)
    };
    let reply = bench.run(HONEST, vec![execution(1, Some(outputs.clone())), shuffled]);
    assert_eq!(reply.device.kind, DeviceKind::Emulated);
    assert!(reply.model_label.is_some());
    assert_eq!(reply.executions.len(), 2);
    for facts in &reply.executions {
        assert_eq!(facts.findings, [], "execution {}", facts.id);
        assert_eq!((&facts.fault, &facts.unsupported), (&None, &None));
        assert!(facts.mutated.is_empty() && facts.overrun.is_empty() && facts.unwritten.is_empty());
        assert_eq!(facts.event_us, None, "modelled time is no event time");
        let launch = &facts.launches[0];
        assert_eq!(
            (launch.kernel.as_str(), launch.grid, launch.block),
            ("triple", [8, 1, 1], [BLOCK, 1, 1])
        );
        assert!(launch.modelled.as_ref().unwrap().us > 0.0);
        assert!(launch.counters["thread_instructions"] > N);
    }
    let digest = reply.executions[0].outputs["out"];
    assert_eq!(reply.executions[1].outputs["out"], digest);
    assert_eq!(
        Digest::of(fs::read(outputs.join("out.bin")).unwrap()),
        digest
    );

    for answer in ["computed", "kept"] {
        let mut reply = bench.verify(&outputs).expect_reply();
        let comparison = reply.comparisons.remove(0);
        assert_eq!(
            (comparison.beyond_bound, comparison.special_mismatches),
            (0, 0),
            "{answer}"
        );
        assert_eq!(comparison.elements, N);
        assert!(
            comparison.relative_l2.unwrap() < 1e-7,
            "{answer}: {comparison:?}"
        );
    }
}

#[test]
fn a_wrong_factor_is_beyond_every_bound() {
    let Some(bench) = Bench::new() else { return };
    let comparison =
        bench.compared(&HONEST.replace("3.0f * in[i]", "(i == 431 ? 3.001f : 3.0f) * in[i]"));
    assert_eq!(comparison.beyond_bound, 1);
    assert_eq!(comparison.worst.unwrap().index, [4, 31]);
}

#[test]
fn a_damaged_answer_is_computed_again() {
    let Some(bench) = Bench::new() else { return };
    let first = bench.compared(HONEST);
    let kept = bench.path("answers").join("out.answer");
    let mut content = fs::read(&kept).unwrap();
    content[100] ^= 1;
    fs::write(&kept, content).unwrap();
    assert_eq!(bench.compared(HONEST), first);
}

#[test]
fn a_read_beyond_the_end_names_line_thread_and_buffer() {
    let Some(bench) = Bench::new() else { return };
    let facts = bench.facts(&HONEST.replace(
        "if (i < n) out[i] = 3.0f * in[i];",
        "float x = 3.0f * in[i + 1];\n    if (i < n) out[i] = x;",
    ));
    let finding = &facts.findings[0];
    assert_eq!(finding.kind, FindingKind::OutOfBoundsRead);
    assert_eq!(
        (finding.line, finding.buffer.as_deref()),
        (Some(3), Some("in"))
    );
    assert_eq!(finding.offset, Some(4 * N as i64));
    let fault = facts.fault.unwrap();
    assert_eq!(
        (fault.code, fault.name.as_str()),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    );
    assert_eq!(fault.launch, Some(0));
}

#[test]
fn a_write_beyond_either_end_is_detected() {
    let Some(bench) = Bench::new() else { return };
    let behind = bench.facts(&HONEST.replace("out[i] =", "out[i + 1] ="));
    assert_eq!(behind.findings[0].kind, FindingKind::OutOfBoundsWrite);
    assert_eq!(behind.findings[0].offset, Some(4 * N as i64));
    let before = bench.facts(&HONEST.replace("out[i] =", "out[i - 1] ="));
    let finding = &before.findings[0];
    assert_eq!(finding.kind, FindingKind::OutOfBoundsWrite);
    assert_eq!(
        (finding.line, finding.buffer.as_deref()),
        (Some(3), Some("out"))
    );
    assert_eq!(finding.offset, Some(-4));
    assert!(
        finding
            .message
            .contains("at byte -4 of `out`, which has 4000 bytes"),
        "{}",
        finding.message
    );
}

#[test]
fn unwritten_elements_are_counted() {
    let Some(bench) = Bench::new() else { return };
    let facts = bench.facts(&HONEST.replace("if (i < n)", "if (i < n - 5)"));
    let unwritten = &facts.unwritten[0];
    assert_eq!(
        (
            unwritten.tensor.as_str(),
            unwritten.elements,
            unwritten.first
        ),
        ("out", 5, N - 5)
    );
}

#[test]
fn a_changed_input_is_reported_by_name() {
    let Some(bench) = Bench::new() else { return };
    // The emulated device stops the first write, because a kernel can restore the content.
    let facts = bench.facts(&HONEST.replace("const float* in", "float* in").replace(
        "out[i] = 3.0f * in[i];",
        "{ out[i] = 3.0f * in[i]; in[i] = 0; }",
    ));
    assert_eq!(facts.fault.as_ref().unwrap().code, 700);
    assert_eq!(facts.findings[0].kind, FindingKind::IllegalAddress);
    assert_eq!(facts.findings[0].buffer.as_deref(), Some("in"));
}

#[test]
fn scratch_that_is_read_before_it_is_written_is_found_in_the_output() {
    let Some(bench) = Bench::new() else { return };
    let facts = bench.facts(&HONEST.replace("3.0f * in[i]", "3.0f * in[i] + half[i / 2]"));
    let finding = &facts.findings[0];
    assert_eq!(
        (finding.kind, finding.line),
        (FindingKind::Uninitialised, Some(3))
    );
}

#[test]
fn a_race_in_shared_memory_names_both_parties() {
    let Some(bench) = Bench::new() else { return };
    let facts = bench.facts(&HONEST.replace(
        "if (i < n) out[i] = 3.0f * in[i];",
        "__shared__ float tile[128];\n    tile[threadIdx.x] = i < n ? in[i] : 0.0f;\n    const float x = tile[threadIdx.x ^ 64];\n    if (i < n) out[i] = 3.0f * (i < n / 2 ? in[i] : x);",
    ));
    let race = facts
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::SharedRace)
        .unwrap();
    assert!(race.other.is_some(), "{race:?}");
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    let Some(bench) = Bench::new() else { return };
    let facts = bench.facts(&HONEST.replace(
        "if (i < n)",
        "volatile int spin = 1; while (spin) {}\n    if (i < n)",
    ));
    assert_eq!(facts.findings[0].kind, FindingKind::Hang);
    assert_eq!(facts.fault.unwrap().code, 702);
}

#[test]
fn module_variables_are_reset_between_executions() {
    let Some(bench) = Bench::new() else { return };
    let counting = HONEST
        .replace("extern \"C\"", "__device__ int calls;\nextern \"C\"")
        .replace(
            "if (i < n)",
            "if (i == 0 && atomicAdd(&calls, 1) > 0) __trap();\n    if (i < n)",
        );
    let reply = bench.run(&counting, vec![execution(1, None), execution(2, None)]);
    assert_eq!(reply.executions.len(), 2);
    assert!(reply.executions.iter().all(|facts| facts.fault.is_none()));
}

#[test]
fn a_fault_ends_the_job_with_the_facts_so_far() {
    let Some(bench) = Bench::new() else { return };
    let trap = HONEST.replace(
        "if (i < n)",
        "if (in == nullptr || n < 1000) __trap();\n    if (i < n)",
    );
    let mut second = execution(2, None);
    let ResolvedStep::Kernel(launch) = &mut second.plan.steps[0] else {
        unreachable!()
    };
    launch.arguments[3] = ResolvedArgument::I32(7);
    let reply = bench.run(&trap, vec![execution(1, None), second, execution(3, None)]);
    let ids: Vec<u32> = reply.executions.iter().map(|facts| facts.id).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(reply.executions[0].fault, None);
    assert_eq!(reply.executions[1].findings[0].kind, FindingKind::Trap);
}

#[test]
fn a_plan_that_does_not_fit_the_entry_is_refused_before_any_launch() {
    let Some(bench) = Bench::new() else { return };
    let mut wrong = execution(1, None);
    let ResolvedStep::Kernel(launch) = &mut wrong.plan.steps[0] else {
        unreachable!()
    };
    launch.arguments[3] = ResolvedArgument::I64(1000);
    let job = bench.job(HONEST, vec![wrong]);
    let ended: Ended<RunReply> =
        process::run_in(bench.folder.path(), "run", &job, &bench.libraries);
    assert!(ended.reply.is_none());
    assert_eq!(ended.status, Some(3));
    assert!(ended.said.contains("triple"), "{}", ended.said);
}

#[test]
fn a_probe_describes_the_device_or_says_what_is_missing() {
    if let Some(bench) = Bench::new() {
        let libraries = [bench.libraries.clone(), vec![bench.nvrtc.clone()]].concat();
        match process::run("probe", &ProbeJob::default(), &libraries).expect_reply() {
            ProbeReply::Ready {
                device,
                toolchain,
                rates,
                measured_rates,
                vitals,
            } => {
                assert_eq!(measured_rates, None, "nobody asked");
                assert!(vitals.free_bytes > 1 << 30, "{vitals:?}");
                assert!(vitals.copy_gigabytes_per_second > 1.0, "{vitals:?}");
                assert!(vitals.computed, "{vitals:?}");
                assert_eq!(device.kind, DeviceKind::Emulated);
                assert_eq!(device.architecture(), "sm_89");
                assert_eq!(device.limits.sm_count, 58);
                assert!(
                    device.uuid.starts_with("GPU-") && device.uuid.len() == 40,
                    "{}",
                    device.uuid
                );
                assert!(toolchain.unwrap().starts_with("NVRTC 13."));
                let rates = rates.unwrap();
                assert!(rates.bytes_per_us > 0.0 && rates.launch_us > 0.0);
                assert_eq!(rates.operations_per_us.len(), 3, "{rates:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("libcuda.so"), "no library").unwrap();
    let reply =
        process::run("probe", &ProbeJob::default(), &[empty.path().to_owned()]).expect_reply();
    if let ProbeReply::Unusable { reason } = reply {
        assert!(reason.contains("libcuda.so.1"), "{reason}");
    }
}

/// Bounds of the rates that the probe's kernels measure on a device with known peak rates.
#[test]
fn measured_rates_are_slightly_below_peak() {
    let Some(bench) = Bench::new() else { return };
    let job = ProbeJob {
        measure_rates: true,
    };
    let reply = process::run("probe", &job, &bench.libraries).expect_reply();
    let ProbeReply::Ready {
        rates: Some(known),
        measured_rates: Some(found),
        ..
    } = reply
    else {
        panic!("{reply:?}");
    };
    let mut shares = vec![
        ("launch", known.launch_us / found.launch_us),
        ("memory", found.bytes_per_us / known.bytes_per_us),
    ];
    for (arithmetic, name) in [
        (Arithmetic::F32, "f32"),
        (Arithmetic::F64, "f64"),
        (Arithmetic::F16, "f16"),
    ] {
        let share = found.operations_per_us[&arithmetic] / known.operations_per_us[&arithmetic];
        shares.push((name, share));
    }
    for (what, share) in &shares {
        assert!((0.8..=1.0 + 1e-9).contains(share), "{what}: {shares:?}");
    }
    assert!((found.l2_bytes / known.l2_bytes - 1.0).abs() < 1e-9);
}

#[test]
fn a_guard_stops_only_accesses_past_it() {
    let Some(bench) = Bench::new() else { return };
    let at = |placement| Execution {
        placement,
        ..execution(1, None)
    };
    let guards = [Placement::GuardBehind, Placement::GuardBefore];
    let reply = bench.run(
        HONEST,
        vec![execution(1, None), at(guards[0]), at(guards[1])],
    );
    let [usual, behind, before] = reply.executions.as_slice() else {
        panic!("{} executions", reply.executions.len());
    };
    for guarded in [behind, before] {
        assert_eq!(guarded.findings, []);
        assert!(guarded.fault.is_none() && guarded.overrun.is_empty());
        assert_eq!(guarded.outputs, usual.outputs);
    }
    // The sizes of the inputs are multiples of their alignment, so that no byte lies between them and the guard.
    for (placement, index, offset) in [(guards[0], "n", 4000), (guards[1], "-1", -4)] {
        let source = HONEST.replace("3.0f * in[i]", &format!("3.0f * in[i] + in[{index}]"));
        let reply = bench.run(&source, vec![at(placement)]);
        let finding = &reply.executions[0].findings[0];
        assert_eq!(finding.kind, FindingKind::OutOfBoundsRead, "{finding:?}");
        assert_eq!(finding.offset, Some(offset));
        assert!(reply.executions[0].fault.is_some());
    }
    // Inputs are read-only: a kernel that writes to one ends as next to a guard on hardware.
    let source = HONEST.replace(
        "if (i < n)",
        "if (i == 0) const_cast<float*>(in)[0] = 7.0f;\n    if (i < n)",
    );
    for execution in [at(guards[0]), at(guards[1]), execution(1, None)] {
        let reply = bench.run(&source, vec![execution]);
        let facts = &reply.executions[0];
        assert_eq!(facts.fault.as_ref().unwrap().code, 700);
        assert_eq!(facts.findings[0].kind, FindingKind::IllegalAddress);
        assert_eq!(facts.findings[0].buffer.as_deref(), Some("in"));
    }
    // A buffer without a pattern ends with its allocation and is not compared.
    let bare = at(Placement::Bare);
    let reply = bench.run(HONEST, vec![bare.clone()]);
    let facts = &reply.executions[0];
    assert!(facts.fault.is_none() && facts.findings.is_empty());
    assert!(facts.outputs.is_empty() && facts.unwritten.is_empty());
    let source = HONEST.replace("3.0f * in[i]", "3.0f * in[i] + in[n]");
    let reply = bench.run(&source, vec![bare]);
    assert_eq!(reply.executions[0].findings[0].offset, Some(4000));
    // On the side without a guard the pattern detects the overrun.
    let source = HONEST.replace("if (i < n)", "if (i == 0) out[-1] = 1.0f;\n    if (i < n)");
    let reply = bench.run(&source, vec![at(guards[0])]);
    assert_eq!(reply.executions[0].overrun, ["out"]);
}
