//! A look at the machine code itself, before a promotion: what the assembler made of the PTX that
//! the policy was applied to.

use std::collections::BTreeSet;

use domain::evaluation::MachineCode;
use domain::policy::{self, Review};
use domain::role::{Compiled, Contents, DisassembleJob, Disassembly};

use super::build::SOURCE_NAME;
use super::roles::Roles;
use super::stages::{Course, Stop};
use super::{COMPILE_DEADLINE, EvaluateError};
use crate::host::Role;
use crate::supervise;

impl Course<'_> {
    /// What the policy says of the machine code beyond what it said of the PTX, and what it holds.
    pub(super) fn read_back(
        &self,
        text: &str,
        compiled: &Compiled,
    ) -> Result<(MachineCode, Review), Stop> {
        let disassembly = match self.roles.disassemble(compiled)? {
            Ok(disassembly) => disassembly,
            Err(reason) => return Ok((MachineCode::NotRun { reason }, Review::default())),
        };
        let known = compiled.contents.uses.iter().map(|found| found.feature);
        let known = known.collect::<BTreeSet<_>>();
        let mut uses = disassembly.uses;
        uses.retain(|found| !known.contains(&found.feature));
        let contents = Contents {
            uses,
            ..Contents::default()
        };
        let (file, policy) = (&self.request.file, &self.task.policy);
        let review = policy::review_image(file, text, &contents, &BTreeSet::new(), policy);
        let code = MachineCode::Read {
            tool: disassembly.tool,
            kernels: disassembly.kernels,
        };
        Ok((code, review))
    }
}

impl Roles<'_> {
    /// The instructions of an image, or why nobody can say.
    fn disassemble(
        &self,
        compiled: &Compiled,
    ) -> Result<Result<Disassembly, String>, EvaluateError> {
        let program = match self.host.disassembler() {
            Ok(program) => program.to_owned(),
            Err(missing) => return Ok(Err(missing.to_string())),
        };
        let job = DisassembleJob {
            program,
            cubin: compiled.image.cubin.clone(),
            source: SOURCE_NAME.to_owned(),
        };
        let role = self.host.program(Role::Disassemble, self.scratch);
        let bounds = self.host.bounds(Role::Disassemble, COMPILE_DEADLINE);
        let answer = supervise::ask::<_, Disassembly>(&role, &job, bounds, self.cancellation)?;
        Ok(answer.reply.map_err(|exit| {
            let said = answer.stderr.last_line();
            let said = said.map(|line| format!(": {line}")).unwrap_or_default();
            format!("the disassembler {exit}{said}")
        }))
    }
}
