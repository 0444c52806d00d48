//! The limits of a run, the resources that it has used, and the reasons why it stops.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::model::{Ceiling, Dollars, Usage};

/// The limits that stop a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Candidates; not counted are the baseline, repairs, duplicates of a sweep, and configurations that
    /// are swept between the candidates of models.
    pub trials: u32,
    /// Wall time of the run in seconds, pauses not counted; none is unlimited.
    pub wall_seconds: Option<u64>,
    /// Tokens read and written by models; none is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost of models; none is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars: Option<Dollars>,
    /// Seconds that devices spend on the run's candidates; none is unlimited. Those on their way
    /// count as much as the others took on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_seconds: Option<u64>,
    /// The price of this time, dollars; none is unlimited. Only the time of workers that told the price of an hour has
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_dollars: Option<Dollars>,
    /// Percent of the floor: the run ends once the least time in which the device can do the work is this
    /// share of the champion's time. Without effect where no floor is known; none to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_percent: Option<u32>,
    /// Percent per dollar: the run ends once models are expected to make the fastest candidate faster by
    /// less, from the last 16 candidates and their average cost. None to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain_per_dollar: Option<u32>,
    /// Trials: the run ends once so many in a row were judged of which none raised the best speedup. None to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials_without_gain: Option<u32>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            trials: 45,
            wall_seconds: None,
            tokens: None,
            dollars: None,
            device_seconds: None,
            device_dollars: None,
            floor_percent: None,
            gain_per_dollar: None,
            trials_without_gain: None,
        }
    }
}

/// The resources that a run has used, besides trials and wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Spend {
    /// Replies that models gave.
    pub calls: u64,
    /// Their tokens.
    pub usage: Usage,
    /// Their cost, as far as the models' prices are known.
    pub dollars: Dollars,
    /// Replies of models without a known price: they are in `usage` and not in `dollars`.
    pub unpriced_calls: u64,
    /// Tokens that the replies still waited for may use at most.
    pub committed_tokens: u64,
    /// The most that these replies may cost.
    pub committed_dollars: Dollars,
    /// Requests to models whose outcome is unknown, because the service stopped or the run ended
    /// before the answer came.
    #[serde(default)]
    pub interrupted_calls: u64,
    /// Tokens that they may have used at most; they count against the budget.
    #[serde(default)]
    pub interrupted_tokens: u64,
    /// Highest possible cost of these requests, dollars; it counts against the budget.
    #[serde(default)]
    pub interrupted_dollars: Dollars,
    /// Milliseconds that devices spent on candidates, compilation not counted.
    pub device_ms: u64,
    /// The price of this time, dollars, as far as workers told the price of an hour.
    #[serde(default)]
    pub device_dollars: Dollars,
}

impl Budget {
    /// The limits by their names on the wire, each with the share that is used, in whole percent. Open
    /// calls are not counted.
    pub fn used_percent(
        &self,
        trials: u32,
        running: Duration,
        spend: &Spend,
    ) -> Vec<(&'static str, u32)> {
        let tokens = spend.usage.total() + spend.interrupted_tokens;
        let dollars = spend.dollars + spend.interrupted_dollars;
        let limits = [
            ("trials", Some(u64::from(self.trials)), u64::from(trials)),
            ("wall_seconds", self.wall_seconds, running.as_secs()),
            ("tokens", self.tokens, tokens),
            ("dollars", self.dollars.map(Dollars::nanos), dollars.nanos()),
            (
                "device_seconds",
                self.device_seconds,
                spend.device_ms / 1000,
            ),
            (
                "device_dollars",
                self.device_dollars.map(Dollars::nanos),
                spend.device_dollars.nanos(),
            ),
        ];
        let used = limits.into_iter().filter_map(|(name, limit, used)| {
            let percent = (u128::from(used) * 100).checked_div(u128::from(limit?))?;
            Some((name, u32::try_from(percent).unwrap_or(u32::MAX)))
        });
        used.collect()
    }

    /// Returns the limit that a further call could exceed, or none if the call may be made. Counts
    /// what answers used, and the most that open and interrupted calls may use.
    pub fn forbids(&self, spend: &Spend, call: &Ceiling) -> Option<StopReason> {
        let all_tokens = spend.usage.total()
            + spend.committed_tokens
            + spend.interrupted_tokens
            + call.usage.total();
        let all_dollars =
            spend.dollars + spend.committed_dollars + spend.interrupted_dollars + call.dollars;
        if self.tokens.is_some_and(|limit| all_tokens > limit) {
            Some(StopReason::Tokens)
        } else if self.dollars.is_some_and(|limit| all_dollars > limit) {
            Some(StopReason::Dollars)
        } else {
            None
        }
    }
}

/// The reasons why a run ended as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The method has nothing left to try.
    Exhausted,
    /// The trials are used up.
    Trials,
    /// The wall time is used up.
    WallTime,
    /// Another call might use more tokens than are left.
    Tokens,
    /// Another call might cost more than is left.
    Dollars,
    /// The devices' time is used up.
    DeviceTime,
    /// The dollars for devices are used up.
    DeviceDollars,
    /// Every generation was bred.
    Generations,
    /// A whole batch of first replies held no kernel.
    NothingUsable,
    /// The target was reached and the task says to stop there.
    Target,
    /// The champion's time is close to the floor.
    Floor,
    /// The expected gain per dollar is too small.
    GainPerDollar,
    /// The last trials raised the best speedup no more.
    TrialsWithoutGain,
    /// No candidate meets the gates that open the playbook's next phase.
    PhaseClosed,
    /// Someone asked for it.
    Requested,
}

impl StopReason {
    /// The limit of the budget that the run reached, by its name on the wire; none if it ended for
    /// another reason.
    pub fn limit(self) -> Option<&'static str> {
        match self {
            Self::Floor | Self::GainPerDollar | Self::TrialsWithoutGain => None,
            other => other.setting(),
        }
    }

    /// The setting of the budget that ended the run, by its name on the wire; none if another budget
    /// changes nothing.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            Self::Trials => Some("trials"),
            Self::WallTime => Some("wall_seconds"),
            Self::Tokens => Some("tokens"),
            Self::Dollars => Some("dollars"),
            Self::DeviceTime => Some("device_seconds"),
            Self::DeviceDollars => Some("device_dollars"),
            Self::Floor => Some("floor_percent"),
            Self::GainPerDollar => Some("gain_per_dollar"),
            Self::TrialsWithoutGain => Some("trials_without_gain"),
            Self::Exhausted
            | Self::Generations
            | Self::NothingUsable
            | Self::Target
            | Self::PhaseClosed
            | Self::Requested => None,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => "nothing left to try",
            Self::Trials => "trial budget used up",
            Self::WallTime => "wall time used up",
            Self::Tokens => "the tokens left do not cover another call",
            Self::Dollars => "the dollars left do not cover another call",
            Self::DeviceTime => "device time used up",
            Self::DeviceDollars => "dollars for devices used up",
            Self::Generations => "every generation bred",
            Self::NothingUsable => "none of the first replies held a kernel",
            Self::Target => "target reached",
            Self::Floor => "close to the floor",
            Self::GainPerDollar => "expected gain per dollar too small",
            Self::TrialsWithoutGain => "the last trials brought nothing faster",
            Self::PhaseClosed => "no candidate opens the playbook's next phase",
            Self::Requested => "finished on request",
        })
    }
}
