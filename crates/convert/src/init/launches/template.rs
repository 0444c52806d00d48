//! Template parameters of kernels: types become fixed, integers become tunables.

use domain::problem::Problem;

use super::Finder;
use crate::init::Work;
use crate::init::arithmetic::Arith;
use crate::init::source::{Kernel, Launch, element_type};

/// Value of a template parameter or tunable that nothing in the file tells.
const USUAL_BLOCK: i64 = 128;

impl<'s> Finder<'s, '_> {
    /// Gives every template parameter its argument.
    pub(super) fn instantiate(
        &mut self,
        work: &mut Work<'_>,
        launch: &Launch<'s>,
        kernel: &Kernel<'_>,
    ) -> Result<Vec<(String, i64)>, Problem> {
        let mut values = Vec::new();
        for (at, parameter) in kernel.template.iter().enumerate() {
            let given = launch.template.get(at).map(|node| self.source.of(*node));
            let name = &parameter.name;
            if parameter.is_type {
                let aliases = self.source.aliases();
                let given = given.map(|given| aliases.get(given).map_or(given, String::as_str));
                let known = given.filter(|given| element_type(given).is_some());
                let answered = self.answered_type(work, kernel, name);
                let chosen = answered.as_deref().or(known).unwrap_or("float").to_owned();
                let reason = if answered.is_some() {
                    "as --tensor says".to_owned()
                } else if known.is_some() {
                    "as the launch says".to_owned()
                } else {
                    "the launch leaves it open; say --tensor NAME=f16 for another type".to_owned()
                };
                work.guess(launch.line, format!("{name} is {chosen}: {reason}"));
                self.plan.types.insert(name.clone(), chosen);
                continue;
            }
            let value = launch
                .template
                .get(at)
                .map(|node| self.host.resolve(&Arith::read(*node, self.source.text)));
            let value = if let Some(Arith::Number(value)) = value {
                value
            } else {
                let text = given.unwrap_or("nothing");
                work.guess(
                    launch.line,
                    format!(
                        "{name} is {USUAL_BLOCK}: the launch gives it {text}, which is no number"
                    ),
                );
                USUAL_BLOCK
            };
            let tunable = tunable_of(name);
            match self.plan.tunables.insert(tunable.clone(), value) {
                Some(other) if other != value => {
                    let message = format!("{name} is {other} in one kernel and {value} in another");
                    let fix = "rename one of the template parameters";
                    return Err(work.problem(launch.line, message, fix));
                }
                _ => {}
            }
            work.guess(
                launch.line,
                format!("the template parameter {name} becomes the tunable {tunable} = {value}"),
            );
            values.push((tunable, value));
        }
        Ok(values)
    }

    /// The C++ type that an answer gives to a parameter of the type `name`.
    fn answered_type(&self, work: &Work<'_>, kernel: &Kernel<'_>, name: &str) -> Option<String> {
        let parameters = kernel.parameters.iter();
        parameters
            .filter(|parameter| parameter.is_pointer && parameter.type_name == name)
            .find_map(|parameter| work.request.answers.tensors.get(&parameter.name))
            .map(|answer| answer.dtype.c_type().to_owned())
    }

    /// A template argument that is also the number of threads of a block becomes its extent.
    pub(super) fn tie_block(
        &self,
        work: &mut Work<'_>,
        line: u32,
        template: &[(String, i64)],
        block: &mut [Arith; 3],
    ) {
        let found = template
            .iter()
            .find(|(_, value)| block[0] == Arith::Number(*value) && *value >= 32);
        if let Some((name, value)) = found {
            block[0] = Arith::Name(name.clone());
            work.guess(
                line,
                format!("the block has {name} threads, because both are {value} in the launch"),
            );
        }
    }
}

/// The tunable of a template parameter. Its name differs from the parameter's, because a macro would
/// replace the same word in other templates.
pub(in crate::init) fn tunable_of(parameter: &str) -> String {
    if parameter.starts_with("TUNE_") {
        return parameter.to_owned();
    }
    format!("TUNE_{}", parameter.to_uppercase())
}
