//! Validation of the parts of a run request that concern models.

use domain::api::RunRequest;
use domain::problem::Problem;
use domain::search::{Evolution, MAX_SWEEP_PERCENT, Schedule};

use crate::llm::Models;

const MOST_GENERATIONS: u32 = 100_000;
const MOST_IN_FLIGHT: u32 = 256;
const HOTTEST: f64 = 2.0;
/// Below this a prompt has no room for the task and a kernel.
const LEAST_PROMPT_TOKENS: u32 = 2_000;
const MOST_FIRST_CONFIGURATIONS: usize = 64;

/// The defects of a request's models, evolution settings, and token and dollar budgets.
pub(crate) fn defects(request: &RunRequest, models: &Models) -> Vec<Problem> {
    if request.method.asks_models() {
        let mut problems = choices(request, models);
        problems.extend(limits(&request.evolution));
        problems.extend(first_configurations_defect(&request.evolution));
        return problems;
    }
    let mut problems = Vec::new();
    let method = request.method.as_str();
    let mut unused = |field: &str, used: bool| {
        if used {
            problems.push(Problem::whole(
                field,
                format!("the method {method} asks no model"),
                "leave it out, or choose a method that asks models, such as insight",
            ));
        }
    };
    unused("models", !request.models.is_empty());
    unused("evolution", !request.evolution.suits(request.method));
    unused("budget.tokens", request.budget.tokens.is_some());
    unused("budget.dollars", request.budget.dollars.is_some());
    let gain = request.budget.gain_per_dollar;
    unused("budget.gain_per_dollar", gain.is_some());
    problems.extend(first_configurations_defect(&request.evolution));
    problems
}

fn choices(request: &RunRequest, models: &Models) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |message: String, fix: String| {
        problems.push(Problem::whole("models", message, fix));
    };
    let known = models.views();
    let names = known.iter().map(|view| view.name.as_str());
    let known_names = names.collect::<Vec<_>>().join(", ");
    let configured = if let Some(defects) = models.defects() {
        format!("mend the models file, its latest change is not in use: {defects}")
    } else if known.is_empty() {
        "no model is configured: write a models.toml in the service's data folder".to_owned()
    } else {
        format!("name one of: {known_names}")
    };
    if request.models.is_empty() {
        let method = request.method.as_str();
        report(
            format!("the method {method} needs a model"),
            configured.clone(),
        );
    }
    for (index, choice) in request.models.iter().enumerate() {
        let name = &choice.name;
        let Some(view) = models.view(name) else {
            report(format!("no model is named {name:?}"), configured.clone());
            continue;
        };
        if request.models[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            report(
                format!("{name:?} is named twice"),
                "name each model once, with the sum of its weights".to_owned(),
            );
        }
        let (dollars, gain) = (request.budget.dollars, request.budget.gain_per_dollar);
        if (dollars.is_some() || gain.is_some()) && view.price.is_none() {
            report(
                format!("{name:?} has no price, so dollars cannot be kept to"),
                "give it a price in the models file, or limit tokens instead".to_owned(),
            );
        }
    }
    let weights = request.models.iter().map(|choice| choice.weight);
    let wrong = |weight: f64| !(weight.is_finite() && weight >= 0.0);
    if weights.clone().any(wrong) || (!request.models.is_empty() && weights.sum::<f64>() <= 0.0) {
        report(
            "weights are positive numbers; one of them may be 0, not all".to_owned(),
            "leave weights out to ask every model equally often".to_owned(),
        );
    }
    problems
}

fn first_configurations_defect(evolution: &Evolution) -> Option<Problem> {
    let first = &evolution.first_configurations;
    let (message, fix) = if first.len() > MOST_FIRST_CONFIGURATIONS {
        let message = format!(
            "{} configurations are to be evaluated first, at most {MOST_FIRST_CONFIGURATIONS} can be",
            first.len()
        );
        (message, "keep the most promising")
    } else if first.iter().any(|values| values.is_empty()) {
        (
            "one of the configurations names no tunable".to_owned(),
            "write names with values, such as {\"THREADS\": 128}",
        )
    } else {
        return None;
    };
    Some(Problem::whole(
        "evolution.first_configurations",
        message,
        fix,
    ))
}

fn limits(evolution: &Evolution) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut require = |holds: bool, field: &str, message: String| {
        if !holds {
            let field = format!("evolution.{field}");
            problems.push(Problem::whole(
                &field,
                message,
                "choose a value inside the range",
            ));
        }
    };
    require(
        (1..=MOST_GENERATIONS).contains(&evolution.generations),
        "generations",
        format!("a run has 1 to {MOST_GENERATIONS} generations"),
    );
    require(
        (0.0..=HOTTEST).contains(&evolution.temperature),
        "temperature",
        format!("temperatures lie from 0 to {HOTTEST}"),
    );
    require(
        evolution.sweep_percent <= MAX_SWEEP_PERCENT,
        "sweep_percent",
        format!("at most {MAX_SWEEP_PERCENT}% of the timed candidates are configurations"),
    );
    if let Schedule::Steady { in_flight } = evolution.schedule {
        require(
            (1..=MOST_IN_FLIGHT).contains(&in_flight),
            "schedule.in_flight",
            format!("1 to {MOST_IN_FLIGHT} candidates may be open at a time"),
        );
    }
    require(
        evolution
            .prompt_tokens
            .is_none_or(|tokens| tokens >= LEAST_PROMPT_TOKENS),
        "prompt_tokens",
        format!("below {LEAST_PROMPT_TOKENS} tokens neither task nor kernel fit"),
    );
    problems
}
