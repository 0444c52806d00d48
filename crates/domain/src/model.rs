//! Language models: prompts, the usage and the cost of a call. Endpoints, keys and protocols are not
//! known here.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Nano-dollars in a dollar.
const NANOS: f64 = 1e9;

/// An amount of US dollars, kept as whole nano-dollars so that sums do not depend on their order.
/// On the wire it is a number of dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ToSchema)]
#[schema(value_type = f64, example = 0.0125)]
pub struct Dollars(u64);

impl Dollars {
    /// An amount in nano-dollars.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The amount rounded to nano-dollars; none if it is negative, no number or above what any
    /// account holds.
    pub fn new(dollars: f64) -> Option<Self> {
        let nanos = (dollars * NANOS).round();
        // Above 2^53 nano-dollars (nine million dollars) the conversion would lose digits.
        (0.0..=9_007_199_254_740_992.0)
            .contains(&nanos)
            .then_some(Self(nanos as u64))
    }

    /// In nano-dollars.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// In dollars.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / NANOS
    }
}

impl Add for Dollars {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Dollars {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sub for Dollars {
    type Output = Self;

    /// The difference, or zero if it is negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Dollars {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Dollars {
    /// Cents at least, and as many more digits as a small amount needs to be told from nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.as_f64();
        if self.0 == 0 || dollars >= 1.0 {
            write!(f, "${dollars:.2}")
        } else {
            write!(f, "${dollars:.4}")
        }
    }
}

impl Serialize for Dollars {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::new(dollars).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{dollars} is no amount of dollars: give a number from 0 to nine million"
            ))
        })
    }
}

/// The speakers of a conversation with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// We.
    User,
    /// The model.
    Assistant,
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        })
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// The speaker.
    pub speaker: Speaker,
    /// The text.
    pub text: String,
}

/// The input of one call of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct Prompt {
    /// The system message, which holds for the whole conversation and is the same for many: the
    /// part worth caching.
    pub system: String,
    /// The conversation; the last message is ours.
    pub messages: Vec<Message>,
}

impl Prompt {
    /// Upper estimate of its length in tokens, for budgets and context limits. Tokenisers differ
    /// by model; for C++ and English three bytes a token is on the safe side of all of them.
    pub fn estimated_tokens(&self) -> u64 {
        let bytes = self.system.len()
            + self
                .messages
                .iter()
                .map(|message| message.text.len())
                .sum::<usize>();
        // Every message costs a few tokens of its own for its role and end.
        (bytes as u64).div_ceil(3) + 8 * (1 + self.messages.len() as u64)
    }
}

/// The reasons why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyEnd {
    /// It had finished.
    Complete,
    /// It reached the limit of its output or of its context.
    Length,
}

/// The tokens of one call, as the model's server counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens read, those of `cached` and `cache_written` not counted.
    pub input: u64,
    /// Tokens read from the server's prompt cache.
    pub cached: u64,
    /// Tokens written to the server's prompt cache.
    pub cache_written: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
}

impl Usage {
    /// All tokens.
    pub fn total(self) -> u64 {
        self.input + self.cached + self.cache_written + self.output
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            cached: self.cached + other.cached,
            cache_written: self.cache_written + other.cache_written,
            output: self.output + other.output,
        }
    }
}

/// The price of a model, dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    pub input: Dollars,
    /// Tokens written.
    pub output: Dollars,
    /// Tokens read from the prompt cache; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<Dollars>,
    /// Tokens written to the prompt cache; as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<Dollars>,
}

impl Price {
    /// The cost of a call, rounded up to a nano-dollar.
    pub fn of(self, usage: Usage) -> Dollars {
        let part = |tokens: u64, price: Dollars| u128::from(tokens) * u128::from(price.nanos());
        let total = part(usage.input, self.input)
            + part(usage.cached, self.cached.unwrap_or(self.input))
            + part(
                usage.cache_written,
                self.cache_written.unwrap_or(self.input),
            )
            + part(usage.output, self.output);
        Dollars::from_nanos(u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// A configured model as clients see it. Its key is not part of it, and neither is its whole
/// address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelView {
    /// The name that runs use.
    pub name: String,
    /// The protocol: "openai", "anthropic" or "cassette".
    pub api: String,
    /// The server's name for the model.
    pub model: String,
    /// The host it is asked at; none for a recording.
    pub host: Option<String>,
    /// The price; none if the configuration does not state it: budgets in dollars then refuse the
    /// model.
    pub price: Option<Price>,
    /// Tokens of prompt and reply together.
    pub context_tokens: u64,
    /// Tokens a reply may have.
    pub max_output_tokens: u64,
    /// Calls at the same time.
    pub concurrency: u32,
}

/// The most that a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ceiling {
    /// Its tokens.
    pub usage: Usage,
    /// Their cost; nothing if the model has no known price.
    pub dollars: Dollars,
}

impl ModelView {
    /// The largest cost of a call: that of a reply as long as the model allows.
    pub fn ceiling(&self, prompt: &Prompt) -> Ceiling {
        let usage = Usage {
            input: prompt.estimated_tokens(),
            output: self.max_output_tokens,
            ..Usage::default()
        };
        let dollars = self.price.map(|price| price.of(usage)).unwrap_or_default();
        Ceiling { usage, dollars }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_its_parts_cost() {
        let price = Price {
            input: Dollars::new(3.0).expect("an amount"),
            output: Dollars::new(15.0).expect("an amount"),
            cached: Dollars::new(0.3),
            cache_written: Dollars::new(3.75),
        };
        let usage = Usage {
            input: 1_000,
            cached: 10_000,
            cache_written: 2_000,
            output: 500,
        };
        // 0.003 + 0.003 + 0.0075 + 0.0075.
        assert_eq!(price.of(usage), Dollars::new(0.021).expect("an amount"));
        assert_eq!(price.of(Usage::default()), Dollars::default());
    }

    #[test]
    fn what_is_no_amount_is_refused_with_a_reason() {
        for text in ["-1", "1e300"] {
            let error = serde_json::from_str::<Dollars>(text).expect_err("no amount");
            assert!(error.to_string().contains("amount of dollars"), "{error}");
        }
        let read: Dollars = serde_json::from_str("0.1").expect("an amount");
        assert_eq!(serde_json::to_string(&read).expect("written"), "0.1");
    }

    #[test]
    fn small_amounts_are_told_from_nothing() {
        let cases = [(0.0, "$0.00"), (0.0125, "$0.0125"), (12.5, "$12.50")];
        for (dollars, shown) in cases {
            assert_eq!(Dollars::new(dollars).expect("an amount").to_string(), shown);
        }
    }
}
