//! Issue counts of instructions, incremented once per run of instructions rather than once per instruction.

/// The number of times that an instruction was issued, and of lanes that it was issued for in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Issued {
    pub(crate) warps: u64,
    pub(crate) lanes: u64,
}

/// The counts of a program's instructions. Kept as differences from one instruction to the next, which wrap around:
/// a run adds where it begins and takes away where it ends.
#[derive(Debug)]
pub(crate) struct Counts {
    steps: Vec<Issued>,
}

impl Counts {
    /// For so many instructions.
    pub(crate) fn new(code: usize) -> Self {
        Self {
            steps: vec![Issued::default(); code + 1],
        }
    }

    /// One warp executed the instructions `begin..end` with so many lanes.
    #[inline(always)]
    pub(crate) fn run(&mut self, begin: u32, end: u32, lanes: u32) {
        self.add(begin, 1, u64::from(lanes));
        self.add(end, 1u64.wrapping_neg(), u64::from(lanes).wrapping_neg());
    }

    /// So many lanes of a run sat out one of its instructions.
    #[inline(always)]
    pub(crate) fn count_idle_lanes(&mut self, pc: u32, lanes: u32) {
        self.add(pc, 0, u64::from(lanes).wrapping_neg());
        self.add(pc + 1, 0, u64::from(lanes));
    }

    /// An instruction of a run was not executed after all: it will be issued again when its lanes are complete.
    pub(crate) fn take_back(&mut self, pc: u32, lanes: u32) {
        self.add(pc, 1u64.wrapping_neg(), 0);
        self.add(pc + 1, 1, 0);
        self.count_idle_lanes(pc, lanes);
    }

    #[inline(always)]
    fn add(&mut self, pc: u32, warps: u64, lanes: u64) {
        let step = &mut self.steps[pc as usize];
        step.warps = step.warps.wrapping_add(warps);
        step.lanes = step.lanes.wrapping_add(lanes);
    }

    /// The number of warps that issued each instruction, in program order.
    pub(crate) fn warps(&self) -> impl Iterator<Item = u64> {
        let mut total = 0u64;
        let steps = &self.steps[..self.steps.len() - 1];
        steps.iter().map(move |step| {
            total = total.wrapping_add(step.warps);
            total
        })
    }

    /// The counts themselves.
    pub(crate) fn totals(&self) -> Vec<Issued> {
        let mut total = Issued::default();
        let mut totals: Vec<Issued> = self
            .steps
            .iter()
            .map(|step| {
                total.warps = total.warps.wrapping_add(step.warps);
                total.lanes = total.lanes.wrapping_add(step.lanes);
                total
            })
            .collect();
        totals.pop();
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up() {
        let mut counts = Counts::new(4);
        counts.run(0, 4, 32);
        counts.run(1, 3, 8);
        counts.run(3, 4, 24);
        counts.count_idle_lanes(2, 5);
        counts.take_back(3, 24);
        let totals: Vec<(u64, u64)> = counts
            .totals()
            .iter()
            .map(|issued| (issued.warps, issued.lanes))
            .collect();
        assert_eq!(totals, [(1, 32), (2, 40), (2, 35), (1, 32)]);
    }
}
