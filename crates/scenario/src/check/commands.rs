//! Programs that run in hosts.

use std::collections::BTreeMap;

use super::flows;
use crate::command::{Fault, parts};
use crate::fields::Fields;
use crate::plan::{CommandPlan, Plan};
use crate::refusal::Refusal;
use crate::tree::{Node, clipped};

/// What a `[[command]]` may have.
pub(crate) const COMMAND: &[&str] = &["name", "host", "run", "start", "stop"];

const RUN: &str = "a program and its arguments, such as [\"iperf3\", \"-c\", \"{server}\"]";

/// Reads the commands.
pub(super) fn read(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let mut names = BTreeMap::new();
    for node in top.tables("command")? {
        let fields = Fields::of(node, "command", COMMAND)?;
        let name = fields.needed_name("name")?;
        let fields = fields.called(format!("command/{name}"));
        super::unique(&mut names, name, &fields)?;
        let host = flows::host(&fields, "host", plan)?.ok_or_else(|| {
            let hosts = flows::hosts(plan);
            fields.missing("host", format!("the name of a host: {hosts}"))
        })?;
        let (start, stop) = flows::times(&fields, plan)?;
        plan.commands.push(CommandPlan {
            name: name.to_owned(),
            host,
            run: run(&fields, plan)?,
            start,
            stop,
        });
    }
    Ok(())
}

fn run(fields: &Fields<'_>, plan: &Plan) -> Result<Vec<String>, Refusal> {
    let key = fields.name_of("run");
    let mut words = Vec::new();
    for node in fields.list("run") {
        let wrong = || Refusal::at(&node.spot, key.as_str(), node.describe(), RUN);
        let word = node.as_text().ok_or_else(wrong)?;
        if word.contains('\0') || words.is_empty() && word.is_empty() {
            return Err(wrong());
        }
        if let Err(fault) = parts(word, plan) {
            return Err(refused(&key, node, &fault, plan));
        }
        words.push(word.to_owned());
    }
    if words.is_empty() {
        return Err(fields.refuse("run", RUN));
    }
    Ok(words)
}

fn refused(key: &str, node: &Node, fault: &Fault<'_>, plan: &Plan) -> Refusal {
    const BRACE: &str = "write `{{` and `}}` for braces that the program shall see";
    match fault {
        Fault::Lone => {
            Refusal::at(&node.spot, key, node.describe(), "a `}` for each `{`").with_help(BRACE)
        }
        Fault::Unknown(name) => {
            let hosts = plan.hosts.iter().map(|h| h.name.as_str());
            let found = format!("the unknown address `{{{}}}`", clipped(name));
            let allowed = "`{HOST}`, `{HOST/ipv4}` or `{HOST/ipv6}` with the name of a host";
            let refusal = Refusal::at(&node.spot, key, found, allowed).with_help(BRACE);
            refusal.did_you_mean(name.split('/').next().unwrap_or(name), hosts)
        }
    }
}
