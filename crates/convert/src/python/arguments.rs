//! The arguments of a call, which remember what was read of them.
//!
//! An operation reads the arguments that it translates. What it left unread would be ignored, so that the
//! task would compute something else than the source: such a call is refused.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::interpret::Value;
use super::number::Number;

/// The arguments of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments<'s> {
    pub positional: Vec<Value<'s>>,
    pub named: Vec<(String, Value<'s>)>,
    read_positions: RefCell<BTreeSet<usize>>,
    read_names: RefCell<BTreeSet<String>>,
}

impl<'s> Arguments<'s> {
    pub fn new(positional: Vec<Value<'s>>, named: Vec<(String, Value<'s>)>) -> Self {
        Self {
            positional,
            named,
            ..Self::default()
        }
    }

    /// Reads an argument by position or name.
    pub fn get(&self, at: usize, name: &str) -> Option<&Value<'s>> {
        self.get_named(name).or_else(|| {
            self.read_positions.borrow_mut().insert(at);
            self.positional.get(at)
        })
    }

    /// Reads an argument that is only passed by name.
    pub fn get_named(&self, name: &str) -> Option<&Value<'s>> {
        let mut named = self.named.iter();
        let (own, value) = named.find(|(own, _)| own == name)?;
        self.read_names.borrow_mut().insert(own.clone());
        Some(value)
    }

    /// Reads a number. A value of another kind stays unread, so that it is refused.
    pub fn get_number(&self, at: usize, name: &str) -> Option<&Number> {
        let named = self.named.iter().find(|(own, _)| own == name);
        match named.map(|(_, value)| value).or(self.positional.get(at)) {
            Some(Value::Number(number)) => {
                self.get(at, name);
                Some(number)
            }
            Some(Value::None) => {
                self.get(at, name);
                None
            }
            _ => None,
        }
    }

    /// Reads all positional arguments from a position on.
    pub fn get_from(&self, at: usize) -> &[Value<'s>] {
        let positions = at..self.positional.len();
        self.read_positions.borrow_mut().extend(positions);
        self.positional.get(at..).unwrap_or_default()
    }

    /// The first argument that was not read and is not PyTorch's own default: its name, or its number from 1.
    pub fn first_unread(&self) -> Option<String> {
        let positions = self.read_positions.borrow();
        let unread = (0..self.positional.len()).find(|at| !positions.contains(at));
        if let Some(at) = unread {
            return Some(format!("number {}", at + 1));
        }
        let names = self.read_names.borrow();
        let mut unread = self.named.iter().filter(|(name, _)| !names.contains(name));
        let (name, _) = unread.find(|(name, value)| !is_default(name, value))?;
        Some(name.clone())
    }
}

/// Returns true if an argument says what PyTorch does without it.
fn is_default(name: &str, value: &Value<'_>) -> bool {
    match (name, value) {
        (
            "ceil_mode" | "return_indices" | "enable_gqa" | "track_running_stats",
            Value::Bool(set),
        ) => !set,
        ("count_include_pad", Value::Bool(set)) => *set,
        ("divisor_override" | "rounding_mode" | "dtype", Value::None) => true,
        ("padding_mode", Value::Text(mode)) => mode == "zeros",
        ("dropout_p", Value::Number(share)) => share.value == 0.0,
        ("alpha" | "beta", Value::Number(factor)) => factor.value == 1.0,
        _ => false,
    }
}
