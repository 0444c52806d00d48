//! The names and messages in a runner's facts, made safe to repeat: the process that reported them
//! ran candidate code.

use domain::cleaning;
use domain::role::{
    DeviceFault, ExecutionFacts, LaunchFacts, UnsupportedInstruction, UnwrittenOutput,
};
use domain::timing::ModelledLaunch;

/// Counters kept of one launch: more than there are kinds of work to count.
const MAX_COUNTERS: usize = 128;

/// The same facts with cleaned texts and a bounded number of counters.
pub(in crate::evaluate) fn cleaned(facts: ExecutionFacts) -> ExecutionFacts {
    let names = |names: Vec<String>| {
        names
            .iter()
            .map(|name| cleaning::clean_name(name))
            .collect()
    };
    ExecutionFacts {
        launches: facts.launches.into_iter().map(cleaned_launch).collect(),
        findings: facts
            .findings
            .into_iter()
            .map(cleaning::clean_finding)
            .collect(),
        fault: facts.fault.map(|fault| DeviceFault {
            name: cleaning::clean_name(&fault.name),
            call: cleaning::clean_name(&fault.call),
            log: fault
                .log
                .map(|log| cleaning::clean_sentence(&log, cleaning::MESSAGE_CHARACTERS)),
            ..fault
        }),
        unsupported: facts.unsupported.map(|unsupported| UnsupportedInstruction {
            opcode: cleaning::clean_line(&unsupported.opcode, cleaning::NAME_CHARACTERS),
            ..unsupported
        }),
        mutated: names(facts.mutated),
        overrun: names(facts.overrun),
        unwritten: facts
            .unwritten
            .into_iter()
            .map(|unwritten| UnwrittenOutput {
                tensor: cleaning::clean_name(&unwritten.tensor),
                ..unwritten
            })
            .collect(),
        ..facts
    }
}

fn cleaned_launch(launch: LaunchFacts) -> LaunchFacts {
    LaunchFacts {
        kernel: cleaning::clean_name(&launch.kernel),
        modelled: launch.modelled.as_ref().map(cleaned_time),
        modelled_warm: launch.modelled_warm.as_ref().map(cleaned_time),
        modelled_terms: launch
            .modelled_terms
            .into_iter()
            .take(MAX_COUNTERS)
            .filter(|(_, us)| us.is_finite())
            .map(|(term, us)| (cleaning::clean_name(&term), us))
            .collect(),
        counters: launch
            .counters
            .into_iter()
            .take(MAX_COUNTERS)
            .map(|(counter, value)| (cleaning::clean_name(&counter), value))
            .collect(),
        ..launch
    }
}

fn cleaned_time(modelled: &ModelledLaunch) -> ModelledLaunch {
    ModelledLaunch {
        kernel: cleaning::clean_name(&modelled.kernel),
        bottleneck: cleaning::clean_line(&modelled.bottleneck, cleaning::NAME_CHARACTERS),
        ..*modelled
    }
}
