//! The sanitizers' part in a promotion on a device without proofs. The program is a stand-in that
//! runs the real role and prints in the real tool's format; it reports findings on the calls that a
//! test names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use domain::evaluation::{Evaluation, EvaluationRequest, EvaluationStage};
use domain::tools::sanitize::{Status, Tool, ToolResult};
use domain::verdict::VerdictKind;
use worker::cancel::Cancellation;
use worker::evaluate::{EvaluateError, Evaluator};
use worker::host::RepeatPolicy;

use crate::lab::Lab;
use crate::paired::{kernel, request};

const DOUBT: RepeatPolicy = RepeatPolicy {
    max_repeats: 1,
    // More elements than any shape of the task has.
    large_tensor_elements: 1 << 62,
};

/// Writes a stand-in whose `tool` prints `heading` on the calls of these numbers, from 1.
fn write_fake_sanitizer(folder: &Path, tool: Tool, heading: &str, calls: &[u32]) -> PathBuf {
    let (path, tool) = (folder.join("compute-sanitizer"), tool.as_str());
    let calls = calls
        .iter()
        .map(|call| format!(" {tool}:{call} "))
        .collect::<String>();
    let script = format!(
        r#"#!/bin/sh
echo "$*" >>"$0.words"
while [ $# -gt 0 ]; do
    case $1 in
    --tool) tool=$2; shift 2 ;;
    --log-file) log=$2; shift 2 ;;
    --*) shift 2 ;;
    *) break ;;
    esac
done
"$@" || exit 1
echo "$tool" >>"$0.calls"
call=$(grep -c "$tool" "$0.calls")
echo "========= COMPUTE-SANITIZER" >"$log"
case "{calls}" in
*" $tool:$call "*)
    cat >>"$log" <<'LOG'
========= {heading}
=========     at product(const float *, int)+0x160 in /a/path/candidate.cu:9
=========     by thread (31,0,0) in block (2,0,0)
========= ERROR SUMMARY: 1 error
LOG
    ;;
*) echo "========= ERROR SUMMARY: 0 errors" >>"$log" ;;
esac
"#
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn confirmation() -> EvaluationRequest {
    EvaluationRequest {
        stage: EvaluationStage::Confirmation,
        ..request(&kernel(0))
    }
}

fn evaluate(evaluator: &Evaluator) -> Result<Evaluation, EvaluateError> {
    evaluator.evaluate(&confirmation(), |_| {}, &Cancellation::new().unwrap())
}

fn rows(evaluation: &Evaluation) -> &[ToolResult] {
    &evaluation.sanitizers.as_ref().unwrap().tools
}

const RACE: &str = "Error: Race reported between Write access";

#[test]
fn a_promotion_uses_all_four_sanitizers_and_each_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let program = write_fake_sanitizer(folder.path(), Tool::Memcheck, "", &[]);
    let Some(lab) = Lab::with_sanitizer(&program) else {
        return;
    };
    let found = evaluate(&lab.treated_as_unproved(DOUBT)).unwrap();
    assert_eq!(found.verdict.kind(), VerdictKind::Accepted);
    let tools = rows(&found).iter().map(|row| row.tool).collect::<Vec<_>>();
    assert_eq!(tools, Tool::ALL);
    assert!(rows(&found).iter().all(|row| row.status == Status::Clean));
    let words = fs::read_to_string(folder.path().join("compute-sanitizer.words")).unwrap();
    let of_memcheck = words.lines().next().unwrap();
    assert!(of_memcheck.contains("--padding"), "{of_memcheck}");
    assert_eq!(words.lines().count(), 4);
    assert_eq!(words.matches("--padding").count(), 1);

    // A search runs no sanitizer, and the emulated device uses its own checks.
    let mut search = confirmation();
    search.stage = EvaluationStage::Search;
    let cancellation = Cancellation::new().unwrap();
    let searched = lab
        .treated_as_unproved(DOUBT)
        .evaluate(&search, |_| {}, &cancellation);
    assert_eq!(searched.unwrap().sanitizers, None);
    let own = evaluate(lab.evaluator()).unwrap();
    assert!(rows(&own).iter().all(|row| row.status == Status::Clean));
    let by = own.sanitizers.unwrap().by;
    assert!(by.contains("emulated device's own"), "{by}");
    let words = fs::read_to_string(folder.path().join("compute-sanitizer.words")).unwrap();
    assert_eq!(words.lines().count(), 4, "nobody else asked it");
}

/// The second of three calls of a tool runs the task's baseline.
#[test]
fn a_repeated_finding_is_a_verdict() {
    for (tool, heading, expected) in [
        (
            Tool::Memcheck,
            "Invalid __global__ read of size 4 bytes",
            VerdictKind::OutOfBounds,
        ),
        (Tool::Racecheck, RACE, VerdictKind::DataRace),
        (
            Tool::Initcheck,
            "Uninitialized __global__ memory read of size 4 bytes",
            VerdictKind::UninitDependent,
        ),
        (
            Tool::Synccheck,
            "Barrier error detected. Divergent thread(s) in block.",
            VerdictKind::BarrierError,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = write_fake_sanitizer(folder.path(), tool, heading, &[1, 3]);
        let Some(lab) = Lab::with_sanitizer(&program) else {
            return;
        };
        let found = evaluate(&lab.treated_as_unproved(DOUBT)).unwrap();
        assert_eq!(found.verdict.kind(), expected, "{}", found.verdict);
        assert_eq!(found.verdict.line(), Some(9));
        let last = rows(&found).last().unwrap();
        assert_eq!(last.tool, tool);
        assert!(matches!(last.status, Status::Found { .. }), "{last:?}");
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("/a/path"), "a path of this machine");
    }
}

#[test]
fn an_unrepeated_finding_or_one_against_the_baseline_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let program = write_fake_sanitizer(folder.path(), Tool::Racecheck, RACE, &[1]);
    let Some(lab) = Lab::with_sanitizer(&program) else {
        return;
    };
    match evaluate(&lab.treated_as_unproved(DOUBT)) {
        Err(EvaluateError::Trouble(trouble)) => {
            assert!(trouble.0.contains("by racecheck"), "{trouble}");
        }
        other => panic!("{other:?}"),
    }
    for (heading, calls, reason) in [
        (RACE, &[1, 2, 3][..], "accuses the task's baseline as well"),
        (
            "Warning: Race reported between Write access",
            &[1, 3],
            "no verdict is known for",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = write_fake_sanitizer(folder.path(), Tool::Racecheck, heading, calls);
        let lab = Lab::with_sanitizer(&program).unwrap();
        let found = evaluate(&lab.treated_as_unproved(DOUBT)).unwrap();
        assert_eq!(found.verdict.kind(), VerdictKind::Accepted);
        let Status::NotRun { reason: why } = &rows(&found)[1].status else {
            panic!("{:?}", rows(&found));
        };
        assert!(why.contains(reason), "{why}");
    }
}

#[test]
fn a_missing_or_failing_tool_never_passes() {
    let folder = tempfile::tempdir().unwrap();
    let refusing = folder.path().join("refusing");
    let said = "========= Internal Sanitizer Error: The Sanitizer cannot work here";
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != --log-file ]; do shift; done\necho '{said}' >\"$2\"\nexit 1\n"
    );
    fs::write(&refusing, script).unwrap();
    fs::set_permissions(&refusing, fs::Permissions::from_mode(0o755)).unwrap();
    for (program, expected) in [
        (
            folder.path().join("nowhere"),
            "KERNELWRIGHT_COMPUTE_SANITIZER",
        ),
        (refusing, "could not look"),
    ] {
        let Some(lab) = Lab::with_sanitizer(&program) else {
            return;
        };
        let found = evaluate(&lab.treated_as_unproved(DOUBT)).unwrap();
        assert_eq!(found.verdict.kind(), VerdictKind::Accepted);
        assert_eq!(rows(&found).len(), 4);
        for row in rows(&found) {
            let Status::NotRun { reason } = &row.status else {
                panic!("{row:?}");
            };
            assert!(reason.contains(expected), "{reason}");
        }
    }
}

/// The findings of earlier stages come first, whatever a tool would report.
#[test]
fn no_tool_examines_a_rejected_candidate() {
    let folder = tempfile::tempdir().unwrap();
    let program = write_fake_sanitizer(folder.path(), Tool::Memcheck, RACE, &[1, 3]);
    let Some(lab) = Lab::with_sanitizer(&program) else {
        return;
    };
    let mut wrong = confirmation();
    wrong.source = wrong.source.replace("2.0f * sum", "2.001f * sum");
    let cancellation = Cancellation::new().unwrap();
    let evaluator = lab.treated_as_unproved(DOUBT);
    let found = evaluator.evaluate(&wrong, |_| {}, &cancellation).unwrap();
    assert_ne!(found.verdict.kind(), VerdictKind::Accepted);
    assert_eq!(found.sanitizers, None);
    assert!(!folder.path().join("compute-sanitizer.words").exists());
}
