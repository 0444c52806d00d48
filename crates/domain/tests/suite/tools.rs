//! Reading the output of NVIDIA's tools. The texts have the tools' own form.

use domain::finding::{Finding, FindingKind};
use domain::tools::ncu;
use domain::tools::profile::{METRICS, MetricValues, RULES, RuleOutcome, triage};
use domain::tools::sanitize::{SanitizerFinding, Status, Tool, emulated, read, verdict};
use domain::verdict::{Access, Verdict, VerdictKind};

const MEMCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at scale(float *, int)+0x160 in candidate.cu:17
=========     by thread (31,0,0) in block (2,0,0)
=========     Address 0x7f2a00000200 is out of bounds
=========
========= Invalid __shared__ write of size 16 bytes
=========     at 0x70 in /tmp/candidate.cu:23:scale(float*, int)
=========     Address 0x41 is misaligned
=========
========= ERROR SUMMARY: 2 errors
";

const RACECHECK: &str = "\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum(int *)+0x90 in candidate.cu:16
=========     and Read access at sum(int *)+0x170 in candidate.cu:20 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
";

#[test]
fn findings_of_the_sanitizer_have_their_line() {
    let Status::Found { findings } = read(Tool::Memcheck, MEMCHECK) else {
        panic!("found");
    };
    let lines = findings.iter().map(|said| said.line).collect::<Vec<_>>();
    assert_eq!(lines, [Some(17), Some(23)]);
    assert_eq!(
        findings[0].message,
        "Invalid __global__ read of size 4 bytes"
    );
    let Status::Found { findings } = read(Tool::Racecheck, RACECHECK) else {
        panic!("found");
    };
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].line, Some(16));
    assert_eq!(
        findings[0].message,
        "Error: Race reported between Write access and Read access"
    );
}

/// The first line that each tool prints for a finding, with the verdict that it leads to.
#[test]
fn what_a_sanitizer_finds_is_the_verdict_that_it_means() {
    let place = "\
=========     at void scale<(int)4>(float *, int)+0x160 in /a/path/candidate.cu:17
=========     by thread (31,1,0) in block (2,0,3)
";
    for (tool, heading, detail, expected) in [
        (
            Tool::Memcheck,
            "Invalid __global__ read of size 4 bytes",
            "Address 0x7f2a00000200 is out of bounds",
            VerdictKind::OutOfBounds,
        ),
        (
            Tool::Memcheck,
            "Invalid __shared__ atomic of size 4 bytes",
            "Address 0x4000 is out of bounds",
            VerdictKind::OutOfBounds,
        ),
        (
            Tool::Memcheck,
            "Invalid __global__ write of size 16 bytes",
            "Access to 0x7f2a00000201 is misaligned",
            VerdictKind::RuntimeFault,
        ),
        (
            Tool::Initcheck,
            "Uninitialized __global__ memory read of size 4 bytes",
            "Address 0x7f2a00000200",
            VerdictKind::UninitDependent,
        ),
        (
            Tool::Synccheck,
            "Barrier error detected. Divergent thread(s) in block.",
            "",
            VerdictKind::BarrierError,
        ),
    ] {
        let log = format!(
            "========= COMPUTE-SANITIZER\n========= {heading}\n{place}=========     {detail}\n\
             =========     Saved host backtrace up to driver entry point at kernel launch time\n\
             ========= Target application returned an error\n========= ERROR SUMMARY: 3 errors\n\
             ========= ERROR SUMMARY: 2 errors were not printed. Use --print-limit option\n"
        );
        let Status::Found { findings } = read(tool, &log) else {
            panic!("{log}");
        };
        let [said] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert!(!said.message.contains("/a/path"), "{said:?}");
        let found = verdict(tool, said).unwrap();
        assert_eq!(found.kind(), expected, "{heading}");
        let finding = found.finding().unwrap();
        assert_eq!(finding.kernel, "scale");
        assert_eq!(finding.line, Some(17));
        assert_eq!((finding.block, finding.thread), ([2, 0, 3], [31, 1, 0]));
        assert!(finding.message.contains(heading), "{finding}");
        // No tool's word is taken for another's.
        for other in Tool::ALL.into_iter().filter(|other| *other != tool) {
            assert_eq!(verdict(other, said), None, "{heading}");
        }
    }
    let Status::Found { findings } = read(Tool::Racecheck, RACECHECK) else {
        panic!("found");
    };
    let race = verdict(Tool::Racecheck, &findings[0]).unwrap();
    assert_eq!(race.kind(), VerdictKind::DataRace);
    assert_eq!(race.finding().unwrap().kernel, "sum");
    let Status::Found { findings } = read(Tool::Memcheck, MEMCHECK) else {
        panic!("found");
    };
    let read = verdict(Tool::Memcheck, &findings[0]).unwrap();
    assert!(matches!(
        read,
        Verdict::OutOfBounds {
            access: Access::Read,
            ..
        }
    ));
}

#[test]
fn warnings_and_errors_of_calls_are_no_verdict() {
    for (tool, heading) in [
        (
            Tool::Racecheck,
            "Warning: Race reported between Write access at sum(int *)+0x90 in candidate.cu:16",
        ),
        (
            Tool::Memcheck,
            "Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to \"invalid argument\" on CUDA API call to cuMemMap.",
        ),
        (
            Tool::Initcheck,
            "Host API uninitialized memory access on access by cudaMemcpy source.",
        ),
    ] {
        let log = format!("========= {heading}\n========= ERROR SUMMARY: 1 error\n");
        let Status::Found { findings } = read(tool, &log) else {
            panic!("{log}");
        };
        assert_eq!(verdict(tool, &findings[0]), None, "{heading}");
    }
}

#[test]
fn only_a_summary_of_no_errors_is_clean() {
    let clean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
    assert_eq!(read(Tool::Initcheck, clean), Status::Clean);
    for log in [
        "",
        "========= COMPUTE-SANITIZER\n",
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n",
        "========= COMPUTE-SANITIZER\n========= Error: No attachable process found. Compute-sanitizer timed-out.\n========= ERROR SUMMARY: 0 errors\n",
        "========= Internal Sanitizer Error: out of memory\n========= ERROR SUMMARY: 0 errors\n",
        "========= ERROR SUMMARY: many errors\n",
    ] {
        let status = read(Tool::Memcheck, log);
        assert!(
            matches!(status, Status::NotRun { .. }),
            "{log:?}: {status:?}"
        );
    }
    let silent = read(Tool::Synccheck, "========= ERROR SUMMARY: 3 errors\n");
    assert!(matches!(silent, Status::Found { findings } if findings.len() == 1));
}

fn finding(kind: FindingKind, line: u32) -> Finding {
    Finding {
        kind,
        kernel: "scale".to_owned(),
        line: Some(line),
        block: [0; 3],
        thread: [0; 3],
        buffer: None,
        offset: None,
        other: None,
        occurrences: 1,
        message: "what happened".to_owned(),
    }
}

#[test]
fn emulated_checks_answer_for_the_tool_whose_subject_they_are() {
    let kinds = [
        (FindingKind::OutOfBoundsRead, Tool::Memcheck),
        (FindingKind::SharedRace, Tool::Racecheck),
        (FindingKind::GlobalRace, Tool::Racecheck),
        (FindingKind::Uninitialised, Tool::Initcheck),
        (FindingKind::DivergentBarrier, Tool::Synccheck),
        (FindingKind::Deadlock, Tool::Synccheck),
    ];
    for (kind, expected) in kinds {
        let twice = [finding(kind, 9), finding(kind, 9)];
        for result in emulated(&twice, None) {
            let status = if result.tool == expected {
                Status::Found {
                    findings: vec![SanitizerFinding {
                        line: Some(9),
                        message: "what happened".to_owned(),
                        ..SanitizerFinding::default()
                    }],
                }
            } else {
                Status::Clean
            };
            assert_eq!(result.status, status, "{kind:?}, {:?}", result.tool);
        }
    }
}

#[test]
fn a_finding_names_its_line_once() {
    for (message, expected) in [
        ("Invalid read", "line 24: Invalid read"),
        ("reads past `x`, at line 24", "reads past `x`, at line 24"),
    ] {
        let finding = SanitizerFinding {
            line: Some(24),
            message: message.to_owned(),
            ..SanitizerFinding::default()
        };
        assert_eq!(finding.to_string(), expected);
    }
}

#[test]
fn an_execution_without_an_end_lets_no_silent_tool_pass() {
    let results = emulated(&[finding(FindingKind::Hang, 3)], Some("it hangs"));
    assert!(
        results.iter().all(
            |result| matches!(&result.status, Status::NotRun { reason } if reason == "it hangs")
        )
    );
    let results = emulated(&[finding(FindingKind::Misaligned, 3)], Some("it trapped"));
    assert!(matches!(results[0].status, Status::Found { .. }));
    assert!(
        results[1..]
            .iter()
            .all(|result| matches!(result.status, Status::NotRun { .. }))
    );
}

const QUERY: &str = "\
Device NVIDIA L4 (AD104)
----------------------------- ------------------- ----------------------
Metric Name                   Metric Type         Metric Description
sm__throughput                Throughput          SM throughput
dram__throughput              Throughput          DRAM throughput
sm__inst_executed_pipe_tensor Counter             tensor instructions
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld Counter conflicts
";

const TABLE: &str = r#"==PROF== Connected to process 4711 (/usr/bin/kernelwright)
==PROF== Profiling "scale" - 0: 0%....50%....100% - 1 pass
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__throughput.avg.pct_of_peak_sustained_elapsed","l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum","launch__grid_size","sm__inst_executed_pipe_tensor.sum"
"","","","","","","","","","","","%","","",""
"0","4711","kernelwright","127.0.0.1","scale(const float *, float *, int)","1","7","(128, 1, 1)","(2, 1, 1)","0","8.9","71.50","12,345","2","n/a"
"#;

#[test]
fn only_metrics_that_the_device_has_are_asked_for() {
    let choice = ncu::choose(QUERY);
    let expected = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active";
    assert_eq!(choice.names.get("tensor_active"), Some(&expected));
    assert!(choice.missing.contains(&"l2_throughput"));
    assert!(choice.names.contains_key("registers"));
}

#[test]
fn a_missing_metric_is_unknown_and_never_zero() {
    let choice = ncu::choose(QUERY);
    let kernels = ncu::read(TABLE, &choice).unwrap();
    assert_eq!(kernels.len(), 1);
    let values = &kernels[0].values;
    assert_eq!(values.get("dram_throughput"), Some(&71.5));
    assert_eq!(values.get("bank_conflicts"), Some(&12345.0));
    assert_eq!(values.get("tensor_instructions"), None);
    assert_eq!(values.get("l2_throughput"), None);

    let said = |rule: &str| {
        let all = triage(values, 58);
        let found = all.into_iter().find(|one| one.rule == rule);
        found.unwrap().applies
    };
    assert!(matches!(said("memory_bound"), RuleOutcome::Yes { .. }));
    assert!(matches!(said("bank_conflicts"), RuleOutcome::Yes { .. }));
    assert!(matches!(said("parallelism_bound"), RuleOutcome::Yes { .. }));
    // Memory at 71% rules it out, whatever the tensor cores do.
    assert_eq!(said("compute_bound"), RuleOutcome::No);
    let missing = vec!["warps_active".to_owned()];
    assert_eq!(said("occupancy_bound"), RuleOutcome::Unknown { missing });
}

#[test]
fn a_profiler_that_may_not_count_is_told_how_to() {
    let choice = ncu::choose(QUERY);
    let log = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n";
    let error = ncu::read(log, &choice).unwrap_err();
    assert!(
        error.contains("NVreg_RestrictProfilingToAdminUsers=0"),
        "{error}"
    );
    assert!(
        ncu::read("==ERROR== Failed to connect\n", &choice)
            .unwrap_err()
            .contains("Failed")
    );
    assert!(ncu::read("==WARNING== No kernels were profiled.\n", &choice).is_err());
}

#[test]
fn advice_names_nothing_that_only_some_tasks_have() {
    for rule in RULES {
        for word in [
            "K and V",
            "query",
            "attention",
            "softmax",
            "matrix",
            "row of",
        ] {
            assert!(!rule.advice.contains(word), "{}: {}", rule.id, rule.advice);
        }
    }
}

#[test]
fn rules_speak_of_metrics_that_exist() {
    for condition in RULES.iter().flat_map(|rule| rule.when) {
        let known = METRICS.iter().any(|metric| metric.id == condition.metric);
        assert!(
            known || condition.metric == "blocks_per_sm",
            "{}",
            condition.metric
        );
    }
    let unknown = triage(&MetricValues::new(), 58);
    assert_eq!(unknown.len(), RULES.len());
    assert!(
        unknown
            .iter()
            .all(|one| matches!(one.applies, RuleOutcome::Unknown { .. }))
    );
}
