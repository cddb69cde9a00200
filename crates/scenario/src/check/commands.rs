//! Programs that run in hosts.

use super::{Check, Names};
use crate::command::{Fault, parts};
use crate::document::{At, Scalar};
use crate::plan::CommandPlan;
use crate::refusal::Refusal;
use crate::tree::clipped;

const RUN: &str = "a program and its arguments, such as [\"iperf3\", \"-c\", \"{server}\"]";

impl Check<'_> {
    /// Reads the commands.
    pub(super) fn commands(&mut self) -> Result<(), Refusal> {
        let mut names = Names::default();
        for command in &self.scenario.command {
            let name = names.required(self.places, command, &command.name)?;
            let host = self.required_host(command, "host", &command.host)?;
            let (start, stop) = self.times(&command.start, &command.stop)?;
            let run = self.places.required(command, "run", &command.run, RUN)?;
            let words = run.iter().enumerate();
            let words = words.map(|(number, word)| self.word(number == 0, word));
            let words: Vec<String> = words.collect::<Result<_, _>>()?;
            if words.is_empty() {
                return Err(self.places.refuse(run, RUN));
            }
            self.plan.commands.push(CommandPlan {
                name,
                host,
                run: words,
                start,
                stop,
            });
        }
        Ok(())
    }

    fn word(&self, first: bool, at: &At<Scalar>) -> Result<String, Refusal> {
        const BRACE: &str = "write `{{` and `}}` for braces that the program shall see";
        let word = at
            .text()
            .filter(|word| !(word.contains('\0') || first && word.is_empty()));
        let word = word.ok_or_else(|| self.places.refuse(at, RUN))?;
        match parts(word, &self.plan) {
            Ok(_) => Ok(word.to_owned()),
            Err(Fault::Lone) => Err(self
                .places
                .refuse(at, "a `}` for each `{`")
                .with_help(BRACE)),
            Err(Fault::Unknown(name)) => {
                let hosts = self.plan.hosts.iter().map(|h| h.name.as_str());
                let found = format!("the unknown address `{{{}}}`", clipped(name));
                let allowed = "`{HOST}`, `{HOST/ipv4}` or `{HOST/ipv6}` with the name of a host";
                let refusal = self.places.found(at, found, allowed).with_help(BRACE);
                Err(refusal.did_you_mean(name.split('/').next().unwrap_or(name), hosts))
            }
        }
    }
}
