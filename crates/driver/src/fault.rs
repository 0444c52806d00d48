//! The fault plan: a file that makes chosen calls fail, hang, end the process, corrupt data or report a false time.
//!
//! All tests that need a faulty GPU use this one mechanism. Without a plan nothing here has any effect.
//!
//! ```toml
//! [[fault]]
//! call = "cuMemcpyDtoHAsync_v2"
//! nth = 3                       # from 1; or "every"
//! do = { error = 700 }          # or "hang", "exit", "abort", { corrupt = { bytes = 1 } }, { elapsed_ms = 0.001 }, { answer = 900 }
//! ```
//!
//! `leftovers = true` before the rules is not a fault: shared and local memory then keep the values that earlier
//! launches left there, as on hardware, and reading them is not a finding.

use std::collections::HashMap;
use std::sync::Mutex;

use serde::Deserialize;

use crate::code::Code;

/// The effect of a rule on one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    /// Returns this error without executing the call.
    Error(Code),
    /// Blocks the caller for ever.
    Hang,
    /// Ends the process with status 0.
    Exit,
    /// Ends the process with a signal (`SIGABRT`).
    Abort,
    /// Executes the call and falsifies its result.
    Tamper(Tamper),
}

/// A falsified result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tamper {
    /// Flips bits in the first bytes of a download to the host; the number of bytes.
    CorruptBytes(usize),
    /// Replaces the modelled time by this many milliseconds.
    ElapsedMilliseconds(f32),
    /// Replaces the answer to a query of the management library (NVML) by this number.
    Answer(u64),
}

/// The reason for rejecting a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The text is not a plan.
    #[error("read the fault plan: {0}")]
    Format(#[from] toml::de::Error),
    /// A rule's `nth` is 0, but occurrences are counted from one.
    #[error("read the fault plan: `nth` of {call} is 0, but calls are counted from 1")]
    ZerothOccurrence {
        /// The function that the rule names.
        call: String,
    },
    /// The rule could never have an effect, because the function does not do what the rule would change.
    #[error("read the fault plan: {call} cannot be made to {action}")]
    NoEffect {
        /// The function that the rule names.
        call: String,
        /// The action of the rule, as a verb phrase.
        action: &'static str,
    },
}

/// The rules of one process, with the number of calls of each function so far.
#[derive(Debug, Default)]
pub struct FaultPlan {
    /// True if launches find in shared and local memory the values that earlier ones left there.
    pub leftovers: bool,
    rules: Vec<Rule>,
    calls: Mutex<HashMap<&'static str, u64>>,
}

#[derive(Debug)]
struct Rule {
    call: String,
    occurrence: Occurrence,
    action: Action,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a number from 1, or \"every\"")]
enum Occurrence {
    Nth(u64),
    Every(Every),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Every {
    Every,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    #[serde(default)]
    leftovers: bool,
    #[serde(default)]
    fault: Vec<FaultText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultText {
    call: String,
    nth: Occurrence,
    #[serde(rename = "do")]
    action: ActionText,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ActionText {
    Hang,
    Exit,
    Abort,
    Error(u32),
    Corrupt {
        bytes: usize,
    },
    #[serde(rename = "elapsed_ms")]
    ElapsedMilliseconds(f32),
    Answer(u64),
}

impl FaultPlan {
    /// Reads a plan.
    ///
    /// # Errors
    /// When the text is not a plan, or a rule could never have an effect.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let file: PlanFile = toml::from_str(text)?;
        let rules = file
            .fault
            .into_iter()
            .map(Rule::read)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            leftovers: file.leftovers,
            rules,
            calls: Mutex::default(),
        })
    }

    /// Counts a call of this function and returns the action of the first rule that matches it.
    pub fn action_for_call(&self, call: &'static str) -> Option<Action> {
        if self.rules.is_empty() {
            return None;
        }
        let count = {
            let mut calls = self
                .calls
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let count = calls.entry(call).or_default();
            *count += 1;
            *count
        };
        self.rules
            .iter()
            .find(|rule| {
                rule.call == call
                    && match rule.occurrence {
                        Occurrence::Nth(nth) => nth == count,
                        Occurrence::Every(Every::Every) => true,
                    }
            })
            .map(|rule| rule.action)
    }
}

impl Rule {
    fn read(text: FaultText) -> Result<Self, PlanError> {
        let FaultText {
            call,
            nth: occurrence,
            action,
        } = text;
        if matches!(occurrence, Occurrence::Nth(0)) {
            return Err(PlanError::ZerothOccurrence { call });
        }
        let action = match action {
            ActionText::Hang => Action::Hang,
            ActionText::Exit => Action::Exit,
            ActionText::Abort => Action::Abort,
            ActionText::Error(0) => {
                return Err(PlanError::NoEffect {
                    call,
                    action: "fail with success",
                });
            }
            ActionText::Error(number) => Action::Error(Code(number)),
            ActionText::Corrupt { bytes } => {
                if !call.contains("DtoH") || bytes == 0 {
                    return Err(PlanError::NoEffect {
                        call,
                        action: "corrupt downloaded bytes",
                    });
                }
                Action::Tamper(Tamper::CorruptBytes(bytes))
            }
            ActionText::Answer(number) => {
                if !call.starts_with("nvml") {
                    return Err(PlanError::NoEffect {
                        call,
                        action: "answer with a number",
                    });
                }
                Action::Tamper(Tamper::Answer(number))
            }
            ActionText::ElapsedMilliseconds(lie) => {
                if !call.starts_with("cuEventElapsedTime") {
                    return Err(PlanError::NoEffect {
                        call,
                        action: "lie about time",
                    });
                }
                Action::Tamper(Tamper::ElapsedMilliseconds(lie))
            }
        };
        Ok(Self {
            call,
            occurrence,
            action,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rule: &str) -> Result<FaultPlan, PlanError> {
        FaultPlan::from_toml(&format!("[[fault]]\n{rule}"))
    }

    #[test]
    fn leftovers_are_kept_only_if_the_plan_says_so() {
        let read = |text: &str| FaultPlan::from_toml(text).unwrap();
        assert!(!read("").leftovers);
        let kept = read("leftovers = true\n[[fault]]\ncall = \"cuInit\"\nnth = 1\ndo = \"exit\"\n");
        assert!(kept.leftovers);
        assert_eq!(kept.action_for_call("cuInit"), Some(Action::Exit));
        assert!(FaultPlan::from_toml("leftover = true\n").is_err());
    }

    #[test]
    fn every_action_can_be_parsed() {
        let cases = [
            ("cuInit", "{ error = 700 }", Action::Error(Code(700))),
            ("cuInit", "\"hang\"", Action::Hang),
            ("cuInit", "\"exit\"", Action::Exit),
            ("cuInit", "\"abort\"", Action::Abort),
            (
                "cuMemcpyDtoH_v2",
                "{ corrupt = { bytes = 2 } }",
                Action::Tamper(Tamper::CorruptBytes(2)),
            ),
            (
                "cuEventElapsedTime_v2",
                "{ elapsed_ms = 0.5 }",
                Action::Tamper(Tamper::ElapsedMilliseconds(0.5)),
            ),
            (
                "nvmlDeviceGetClockInfo",
                "{ answer = 900 }",
                Action::Tamper(Tamper::Answer(900)),
            ),
        ];
        for (call, action, expected) in cases {
            let plan = plan(&format!(
                "call = \"{call}\"\nnth = \"every\"\ndo = {action}"
            ))
            .unwrap_or_else(|error| panic!("{action}: {error}"));
            assert_eq!(plan.action_for_call(call), Some(expected));
            assert_eq!(plan.action_for_call(call), Some(expected));
            assert_eq!(plan.action_for_call("cuMemFree_v2"), None);
        }
    }

    #[test]
    fn a_numbered_rule_applies_once() {
        let plan = plan("call = \"cuInit\"\nnth = 2\ndo = { error = 999 }").expect("a plan");
        let strikes: Vec<bool> = (0..4)
            .map(|_| plan.action_for_call("cuInit").is_some())
            .collect();
        assert_eq!(strikes, [false, true, false, false]);
    }

    #[test]
    fn rules_without_effect_are_refused() {
        for rule in [
            "call = \"cuInit\"\nnth = 0\ndo = \"hang\"",
            "call = \"cuInit\"\nnth = 1\ndo = { error = 0 }",
            "call = \"cuInit\"\nnth = 1\ndo = { corrupt = { bytes = 1 } }",
            "call = \"cuInit\"\nnth = 1\ndo = { elapsed_ms = 1.0 }",
            "call = \"cuInit\"\nnth = 1\ndo = { answer = 1 }",
            "call = \"cuInit\"\nnth = \"sometimes\"\ndo = \"hang\"",
            "call = \"cuInit\"\nnth = 1\ndo = \"dance\"",
            "call = \"cuInit\"\nnth = 1\ndo = \"hang\"\nthen = 3",
        ] {
            assert!(plan(rule).is_err(), "{rule}");
        }
    }
}
