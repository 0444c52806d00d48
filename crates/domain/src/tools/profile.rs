//! The metrics of a profile, their names in each tool, and the rules that give advice from them.
//!
//! Metrics and rules are data. A metric without a value is unknown, and a rule that needs it returns
//! [`RuleOutcome::Unknown`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::role::{KernelResources, LaunchFacts};

/// A number of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Our name.
    pub id: &'static str,
    /// The metric's meaning.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Nsight Compute's names: the first that the device has is taken.
    pub ncu: &'static [&'static str],
}

const fn metric(
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    ncu: &'static [&'static str],
) -> Metric {
    Metric {
        id,
        title,
        unit,
        ncu,
    }
}

/// Everything that is asked of a profiler: a light set, collected in few passes.
pub const METRICS: &[Metric] = &[
    metric(
        "sm_throughput",
        "multiprocessors' throughput",
        "%",
        &["sm__throughput.avg.pct_of_peak_sustained_elapsed"],
    ),
    metric(
        "warps_active",
        "resident warps",
        "%",
        &["sm__warps_active.avg.pct_of_peak_sustained_active"],
    ),
    metric(
        "l2_throughput",
        "second level cache's throughput",
        "%",
        &["lts__throughput.avg.pct_of_peak_sustained_elapsed"],
    ),
    metric(
        "dram_throughput",
        "device memory's throughput",
        "%",
        &["dram__throughput.avg.pct_of_peak_sustained_elapsed"],
    ),
    metric(
        "tensor_active",
        "tensor cores busy",
        "%",
        &[
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
        ],
    ),
    metric(
        "tensor_instructions",
        "tensor instructions",
        "",
        &["sm__inst_executed_pipe_tensor.sum"],
    ),
    metric(
        "bank_conflicts",
        "bank conflicts of shared loads",
        "",
        &["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"],
    ),
    metric(
        "sectors_loaded",
        "sectors loaded from global memory",
        "",
        &["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
    ),
    metric(
        "sectors_stored",
        "sectors stored to global memory",
        "",
        &["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"],
    ),
    metric(
        "branches_uniform",
        "branches whose threads agree",
        "%",
        &["smsp__sass_average_branch_targets_threads_uniform.pct"],
    ),
    metric(
        "barrier_stall",
        "warps waiting at a barrier",
        "%",
        &["smsp__warp_issue_stalled_barrier_per_warp_active.pct"],
    ),
    metric(
        "memory_stall",
        "warps waiting for global memory",
        "%",
        &["smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct"],
    ),
    metric("blocks", "blocks", "", &["launch__grid_size"]),
    metric(
        "registers",
        "registers of a thread",
        "",
        &["launch__registers_per_thread"],
    ),
    metric(
        "shared_static",
        "static shared memory of a block",
        "byte",
        &["launch__shared_mem_per_block_static"],
    ),
    metric(
        "shared_dynamic",
        "dynamic shared memory of a block",
        "byte",
        &["launch__shared_mem_per_block_dynamic"],
    ),
    metric(
        "limit_registers",
        "blocks that the registers allow",
        "block",
        &["launch__occupancy_limit_registers"],
    ),
    metric(
        "limit_shared",
        "blocks that shared memory allows",
        "block",
        &["launch__occupancy_limit_shared_mem"],
    ),
    metric(
        "limit_warps",
        "blocks that the warps allow",
        "block",
        &["launch__occupancy_limit_warps"],
    ),
];

/// The values of a launch by the metrics' own names. What is missing is not known.
pub type MetricValues = BTreeMap<String, f64>;

/// A rule, which applies if all of its conditions hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TriageRule {
    /// Its name.
    pub id: &'static str,
    /// All of these.
    pub when: &'static [TriageCondition],
    /// The advice.
    pub advice: &'static str,
}

/// A comparison of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TriageCondition {
    /// The metric's name, or `blocks_per_sm`.
    pub metric: &'static str,
    /// The comparison.
    pub is: Comparator,
    /// The value to compare with.
    pub value: f64,
}

/// The comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparator {
    /// At least this.
    AtLeast,
    /// More than this.
    Above,
    /// Less than this.
    Below,
}

const fn when(metric: &'static str, is: Comparator, value: f64) -> TriageCondition {
    TriageCondition { metric, is, value }
}

/// The triage. Thresholds are those that a team found useful on an L4; they are advice and gate
/// nothing.
pub const RULES: &[TriageRule] = &[
    TriageRule {
        id: "parallelism_bound",
        when: &[when("blocks_per_sm", Comparator::Below, 4.0)],
        advice: "too few blocks to fill the device: give each block less work, so that there are more of them",
    },
    TriageRule {
        id: "occupancy_bound",
        when: &[when("warps_active", Comparator::Below, 30.0)],
        advice: "too few warps to hide latency: use fewer registers or less shared memory per block",
    },
    TriageRule {
        id: "compute_bound",
        when: &[
            when("tensor_active", Comparator::AtLeast, 70.0),
            when("dram_throughput", Comparator::Below, 50.0),
        ],
        advice: "the tensor cores are the limit: only less work makes it faster",
    },
    TriageRule {
        id: "memory_bound",
        when: &[when("dram_throughput", Comparator::Above, 70.0)],
        advice: "device memory is the limit: read less, reuse more, use smaller types",
    },
    TriageRule {
        id: "bank_conflicts",
        when: &[when("bank_conflicts", Comparator::Above, 10_000.0)],
        advice: "shared memory conflicts: pad or swizzle the tiles, on store and on load",
    },
    TriageRule {
        id: "barrier_stall",
        when: &[when("barrier_stall", Comparator::AtLeast, 15.0)],
        advice: "warps wait for each other: fewer barriers, or warps that specialise",
    },
    TriageRule {
        id: "memory_stall",
        when: &[when("memory_stall", Comparator::AtLeast, 20.0)],
        advice: "warps wait for memory: load ahead with cp.async, or keep more warps resident",
    },
];

/// The suggestion of a rule for a launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The rule.
    pub rule: String,
    /// The result.
    #[serde(flatten)]
    pub applies: RuleOutcome,
}

/// The application of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "applies", rename_all = "snake_case")]
pub enum RuleOutcome {
    /// The rule applies.
    Yes {
        /// The advice.
        advice: String,
    },
    /// The rule does not apply.
    No,
    /// Numbers that it needs are not known.
    Unknown {
        /// The missing metrics.
        missing: Vec<String>,
    },
}

/// Applies every rule to a launch's values.
pub fn triage(values: &MetricValues, sm_count: u32) -> Vec<Suggestion> {
    let value = |metric: &str| match metric {
        "blocks_per_sm" => values
            .get("blocks")
            .map(|blocks| blocks / f64::from(sm_count.max(1))),
        metric => values.get(metric).copied(),
    };
    let holds = |condition: &TriageCondition| {
        value(condition.metric).map(|found| match condition.is {
            Comparator::AtLeast => found >= condition.value,
            Comparator::Above => found > condition.value,
            Comparator::Below => found < condition.value,
        })
    };
    let rules = RULES.iter().map(|rule| {
        let missing = rule
            .when
            .iter()
            .filter(|condition| holds(condition).is_none())
            .map(|condition| condition.metric.to_owned())
            .collect::<Vec<_>>();
        let applies = if rule.when.iter().any(|one| holds(one) == Some(false)) {
            RuleOutcome::No
        } else if missing.is_empty() {
            RuleOutcome::Yes {
                advice: rule.advice.to_owned(),
            }
        } else {
            RuleOutcome::Unknown { missing }
        };
        Suggestion {
            rule: rule.id.to_owned(),
            applies,
        }
    });
    rules.collect()
}

/// The values that the emulated device's counters give. Percentages of a peak are not among them:
/// only clocks could say.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts to read, far below 2^53 or approximate"
)]
pub fn counted(
    launch: &LaunchFacts,
    resources: Option<&KernelResources>,
    device: &Device,
) -> MetricValues {
    let count = |name: &str| launch.counters.get(name).map(|&count| count as f64);
    let mut values = MetricValues::new();
    let mut set = |id: &str, value: Option<f64>| {
        if let Some(value) = value {
            values.insert(id.to_owned(), value);
        }
    };
    let blocks = launch.grid.iter().map(|&n| f64::from(n)).product();
    set("blocks", Some(blocks));
    set("shared_dynamic", Some(f64::from(launch.shared_bytes)));
    let conflicts = count("shared.wavefronts").zip(count("shared.wavefronts_ideal"));
    set("bank_conflicts", conflicts.map(|(all, ideal)| all - ideal));
    set("sectors_loaded", count("global.sectors_read"));
    set("sectors_stored", count("global.sectors_written"));
    set("tensor_instructions", count("classes.tensor"));
    let branches = count("divergent_branches").zip(count("classes.branch"));
    let uniform = branches
        .filter(|(_, all)| *all > 0.0)
        .map(|(divergent, all)| 100.0 * (1.0 - divergent / all));
    set("branches_uniform", uniform);
    if let Some(resources) = resources {
        let limits = &device.limits;
        let threads = launch.block.iter().product::<u32>();
        let warps = threads.max(1).div_ceil(crate::occupancy::WARP);
        set("registers", Some(f64::from(resources.registers)));
        set(
            "shared_static",
            Some(f64::from(resources.static_shared_bytes)),
        );
        let most = limits.threads_per_sm / (warps * crate::occupancy::WARP);
        set("limit_warps", Some(f64::from(most)));
    }
    values
}
