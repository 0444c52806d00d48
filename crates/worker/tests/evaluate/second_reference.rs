//! Second references of `NumPy` arrays. They need an interpreter with `NumPy`, which `KERNELWRIGHT_PYTHON` may name.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use domain::admission::{Admission, AdmissionRule};

use crate::admission::{admit, product};
use crate::lab::{Lab, lab};

/// A lab on a machine with `NumPy`; none, with a message, where it is missing. In CI that is an error.
fn lab_with_numpy() -> Option<Lab> {
    has_module("numpy").then(lab).flatten()
}

/// Returns true if the interpreter has a module. In CI the absence of `NumPy` is an error.
fn has_module(name: &str) -> bool {
    let program = std::env::var_os("KERNELWRIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    #[expect(clippy::disallowed_methods, reason = "a question about this machine")]
    let found = Command::new(&program)
        .args(["-c", &format!("import {name}")])
        .output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let program = Path::new(&program).display();
    assert!(
        name != "numpy" || std::env::var_os("CI").is_none(),
        "{program} has no NumPy: tests/run installs it"
    );
    println!("skipped: {program} has no {name}");
    false
}

/// Admits the product of matrices with a text in place of `check.cu`.
fn admit_with(lab: &Lab, source: &str) -> Admission {
    let mut files = product();
    files.remove("check.cu");
    files.insert("reference.py".to_owned(), source.to_owned());
    admit(lab, files)
}

/// The explanation of the only broken rule.
fn refusal(admission: &Admission) -> (AdmissionRule, String) {
    let broken = admission.results.iter().filter(|point| !point.holds);
    let [broken] = broken.collect::<Vec<_>>()[..] else {
        panic!("{:?}", admission.results);
    };
    assert!(broken.subject.contains("reference.py"), "{broken:?}");
    (broken.rule, broken.explanation.clone())
}

#[test]
fn numpy_takes_the_place_of_the_second_kernel() {
    let Some(lab) = lab_with_numpy() else { return };
    // It sees dims as integers, may print, and may change what it got.
    let admission = admit_with(
        &lab,
        "import numpy as np\n\ndef reference(a, b, M, K):\n    print('called', M)\n    \
         assert isinstance(K, int) and a.shape == (M, K) and a.dtype == np.float64\n    \
         c = a @ b\n    a[:] = 0\n    return {'c': c}\n",
    );
    assert!(admission.admitted(), "{:?}", admission.results);
    let agree = admission.results.iter();
    let agree = agree.filter(|point| point.rule == AdmissionRule::ReferencesAgree);
    let [agree] = agree.collect::<Vec<_>>()[..] else {
        panic!("{:?}", admission.results);
    };
    assert_eq!(agree.subject, "reference.cu and reference.py");
    assert!(agree.found.unwrap() < 1e-12);
}

#[test]
fn a_wrong_formula_disagrees() {
    let Some(lab) = lab_with_numpy() else { return };
    let admission = admit_with(&lab, "def reference(a, b):\n    return 1.0001 * (a @ b)\n");
    assert_eq!(refusal(&admission).0, AdmissionRule::ReferencesAgree);
}

#[test]
fn each_defect_is_named_with_its_remedy() {
    let Some(lab) = lab_with_numpy() else { return };
    let defects = [
        (
            "def other(a, b):\n    return a @ b\n",
            "add `def reference(...)`",
        ),
        ("def reference(a b):\n", "SyntaxError"),
        (
            "def reference(a, w):\n    return a @ w\n",
            "the parameter w, which is no input",
        ),
        (
            "def reference(a, b):\n    return a.T @ b\n",
            "File \"reference.py\", line 2",
        ),
        (
            "def reference(a, b):\n    return (a @ b).T[:1]\n",
            "but the task says",
        ),
        (
            "def reference(a, b):\n    return (a @ b).astype('f4')\n",
            "float32, not float64",
        ),
        (
            "def reference(a, b):\n    return {'d': a @ b}\n",
            "has no c",
        ),
        (
            "def reference(a, b):\n    return (a @ b) / 0.0\n",
            "not finite",
        ),
        (
            "import itertools\ncount = itertools.count()\ndef reference(a, b):\n    return a @ b + next(count)\n",
            "differs between two calls",
        ),
        ("import no_such_module\n", "-m pip install no_such_module"),
        (
            "import os\ndef reference(a, b):\n    os._exit(7)\n",
            "ended before it answered",
        ),
        (
            "def reference(a, b):\n    open('/etc/passwd')\n    return a @ b\n",
            "PermissionError",
        ),
        (
            "import os\ndef reference(a, b):\n    open(os.environ['TMPDIR'] + '/left', 'w')\n    return a @ b\n",
            "PermissionError",
        ),
        (
            "import socket\ndef reference(a, b):\n    socket.socket()\n    return a @ b\n",
            "PermissionError",
        ),
    ];
    for (source, expected) in defects {
        let (rule, explanation) = refusal(&admit_with(&lab, source));
        assert_eq!(rule, AdmissionRule::Compiles, "{source}: {explanation}");
        assert!(explanation.contains(expected), "{source}: {explanation}");
    }
}

#[test]
fn a_reference_that_does_not_end_is_stopped_and_told_what_to_do() {
    if !has_module("numpy") {
        return;
    }
    let Some(lab) = Lab::with_python_limit(Duration::from_secs(1)) else {
        return;
    };
    let (rule, explanation) = refusal(&admit_with(
        &lab,
        "def reference(a, b):\n    while True:\n        a = a * 1.0\n",
    ));
    assert_eq!(rule, AdmissionRule::Compiles, "{explanation}");
    assert!(
        explanation.contains("raise KERNELWRIGHT_PYTHON_SECONDS"),
        "{explanation}"
    );
}

/// PyTorch looks for libraries while it is imported. The programs that Python asks about them may not run.
#[test]
fn a_search_for_a_library_ends_without_an_answer() {
    if !has_module("numpy") {
        return;
    }
    let Some(lab) = lab() else { return };
    let admission = admit_with(
        &lab,
        "import ctypes.util\n\ndef reference(a, b):\n    assert ctypes.util.find_library('dl') is None\n    return a @ b\n",
    );
    assert!(admission.admitted(), "{:?}", admission.results);
}

#[test]
fn tensors_of_pytorch_are_answers_too() {
    if !has_module("torch") {
        return;
    }
    let Some(lab) = lab() else { return };
    let admission = admit_with(
        &lab,
        "import torch\n\ndef reference(a, b):\n    return torch.from_numpy(a) @ torch.from_numpy(b)\n",
    );
    assert!(admission.admitted(), "{:?}", admission.results);
}
