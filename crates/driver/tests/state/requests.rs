//! Requests of the emulator's own interface.

use kernelwright_driver::emulator;
use kernelwright_driver::state::Driver;

use super::{ask, function, launch_of, ready};

#[test]
fn the_emulator_reports_unwritten_bytes() {
    let mut driver = ready();
    let buffer = driver.allocate(64).expect("allocates");
    driver.fill(buffer, &[0], 16, None).expect("fills");
    let written = |driver: &mut Driver| {
        ask(
            driver,
            &format!(r#"{{"do":"written","pointer":{buffer},"bytes":64}}"#),
        )
    };
    assert_eq!(written(&mut driver), r#"{"unwritten":48,"first":16}"#);
    driver.fill(buffer, &[0], 64, None).expect("fills");
    assert_eq!(written(&mut driver), r#"{"unwritten":0,"first":null}"#);
    ask(
        &mut driver,
        &format!(r#"{{"do":"forget","pointer":{},"bytes":4}}"#, buffer + 8),
    );
    assert_eq!(written(&mut driver), r#"{"unwritten":4,"first":8}"#);
    ask(
        &mut driver,
        &format!(r#"{{"do":"label","pointer":{buffer},"name":"q"}}"#),
    );
    ask(
        &mut driver,
        &format!(r#"{{"do":"begin","pointer":{}}}"#, buffer + 4),
    );
    assert_eq!(written(&mut driver), r#"{"unwritten":4,"first":8}"#);
    let described = ask(&mut driver, r#"{"do":"describe"}"#);
    assert!(described.starts_with(r#"{"version":1,"device":"l4","label":"uncalibrated""#));
}

#[test]
fn bad_requests_get_an_error_and_change_nothing() {
    let mut driver = ready();
    for request in [
        "",
        "{}",
        r#"{"do":"dance"}"#,
        r#"{"do":"label","pointer":1,"name":"x"}"#,
        r#"{"do":"begin","pointer":1}"#,
        r#"{"do":"written","pointer":1,"bytes":1}"#,
        r#"{"do":"configure","cheks":"off"}"#,
        r#"{"do":"configure","checks":"some"}"#,
        r#"{"do":"configure","fragments":"shuffled"}"#,
    ] {
        let answer = emulator::answer(&mut driver, request.as_bytes());
        assert!(!answer.accepted, "{request}");
        assert!(answer.json.starts_with(r#"{"error":""#), "{}", answer.json);
    }
}

#[test]
fn a_reply_that_was_not_delivered_is_kept() {
    let mut driver = ready();
    let function = function(&mut driver, "trapped");
    driver.launch(&launch_of(function, &[])).expect("launches");
    let unseen = emulator::answer(&mut driver, br#"{"do":"take"}"#);
    let seen = ask(&mut driver, r#"{"do":"take"}"#);
    assert_eq!(unseen.json, seen);
}
