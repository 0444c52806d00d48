//! The shapes that a verdict covers.

use std::collections::BTreeMap;

use domain::evaluation::CheckOutcome;
use domain::preconditions::{DimBounds, Preconditions, TensorLimits};
use domain::role::Distribution;
use domain::task::{Bundle, Task};

const TASK: &str = r#"
name = "fill"
[dims]
N = {}
D = { fixed = 8 }
[[tensor]]
name = "x"
dtype = "f32"
shape = ["N", "D"]
role = "in"
align = 16
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
align = 4
[tolerance]
class = "f32"
[[case]]
name = "small"
dims = { N = 12 }
use = ["check", "score"]
[[case]]
name = "large"
dims = { N = 40 }
use = ["holdout"]
[[case]]
name = "never executed"
dims = { N = 4000 }
use = ["check"]
"#;

fn task() -> Task {
    task_of(TASK)
}

fn task_of(text: &str) -> Task {
    let kernel = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [1]\nargs = [\"x\", \"y\"]\n---*/\nk\n";
    let mut files = BTreeMap::from([("task.toml".to_owned(), text.to_owned())]);
    for name in ["reference.cu", "check.cu", "baseline.cu"] {
        files.insert(name.to_owned(), kernel.to_owned());
    }
    Task::load(&Bundle { files }).unwrap_or_else(|problems| panic!("{problems}"))
}

fn check(case: &str) -> CheckOutcome {
    CheckOutcome {
        case: case.to_owned(),
        distribution: Distribution::Normal,
        tensor: "y".to_owned(),
        relative_l2: None,
        worst_ratio: None,
        passed: true,
    }
}

#[test]
fn only_executed_shapes_are_covered() {
    let task = task();
    let checks = ["small", "small", "large", "of another task"].map(check);
    let covered = Preconditions::of(&task, &checks).expect("two shapes");
    let bounds = |min, max, multiple| DimBounds {
        min,
        max,
        multiple,
        task_max: None,
    };
    assert_eq!(covered.dims["N"], bounds(12, 40, 4));
    assert_eq!(covered.dims["D"], bounds(8, 8, 8));
    let limits = |align, max_elements| TensorLimits {
        align,
        max_elements,
    };
    assert_eq!(covered.tensors["x"], limits(16, 320));
    assert_eq!(covered.tensors["y"], limits(4, 40));
    assert_eq!(covered.shapes, 2);
    assert_eq!(
        covered.to_string(),
        "D 8; N 12 to 40 by 4; x at 16 bytes, to 320 elements; y at 4 bytes, to 40 elements; 2 shapes executed"
    );
    assert_eq!(Preconditions::of(&task, &[]), None);
}

#[test]
fn a_maximum_that_was_not_reached_is_named() {
    let task = task_of(&TASK.replace("N = {}", "N = { max = 5000 }"));
    let checks = ["small", "never executed"].map(check);
    let covered = Preconditions::of(&task, &checks).expect("two shapes");
    assert_eq!(covered.dims["N"].task_max, Some(5000));
    assert_eq!(
        covered.dims["N"].to_string(),
        "12 to 4000 by 4 (the task allows 5000)"
    );
    let task = task_of(&TASK.replace("N = {}", "N = { max = 4003, multiple = 4 }"));
    let covered = Preconditions::of(&task, &checks).expect("two shapes");
    assert_eq!(covered.dims["N"].task_max, None);
}
