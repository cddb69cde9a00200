//! The meaning of a command's words.

use crate::plan::{CommandPlan, HostIndex, Plan};

/// A part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Letters that are taken literally.
    Text(&'a str),
    /// The address of a host.
    Address {
        /// Which host.
        host: HostIndex,
        /// Whether its IPv6 address is meant.
        ipv6: bool,
    },
}

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault<'a> {
    /// A `{` without `}`, or the other way round.
    Lone,
    /// The word in braces is no host, and no host's address.
    Unknown(&'a str),
}

/// Parts the argument `text` of a command of `plan`.
pub(crate) fn parts<'a>(text: &'a str, plan: &Plan) -> Result<Vec<Part<'a>>, Fault<'a>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let brace = &rest[at..at + 1];
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix(brace) {
            parts.push(Part::Text(&rest[..at + 1]));
            rest = after;
            continue;
        }
        let end = after
            .find('}')
            .filter(|_| brace == "{")
            .ok_or(Fault::Lone)?;
        parts.push(Part::Text(&rest[..at]));
        let name = &after[..end];
        let (host, kind) = name.split_once('/').unwrap_or((name, "ipv4"));
        let host = plan.host_named(host).ok_or(Fault::Unknown(name))?;
        let ipv6 = match kind {
            "ipv4" => false,
            "ipv6" => true,
            _ => return Err(Fault::Unknown(name)),
        };
        parts.push(Part::Address { host, ipv6 });
        rest = &after[end + 1..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

impl CommandPlan {
    /// The program and its arguments, with the addresses of `plan`'s hosts
    /// filled in.
    pub fn arguments(&self, plan: &Plan) -> Vec<String> {
        let spell = |part: Part<'_>| match part {
            Part::Text(text) => text.to_owned(),
            Part::Address { host, ipv6: false } => plan.host(host).ipv4.to_string(),
            Part::Address { host, ipv6: true } => plan.host(host).ipv6.to_string(),
        };
        self.run
            .iter()
            .map(|text| match parts(text, plan) {
                Ok(parts) => parts.into_iter().map(spell).collect(),
                // The check refuses such words.
                Err(_) => text.clone(),
            })
            .collect()
    }

    /// The command as a person would type it.
    pub fn line(&self, plan: &Plan) -> String {
        let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
        let quote = |word: String| match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', r"'\''")),
        };
        let words: Vec<_> = self.arguments(plan).into_iter().map(quote).collect();
        words.join(" ")
    }
}
