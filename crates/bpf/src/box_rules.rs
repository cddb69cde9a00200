//! The programs of a box with its rules, loaded, and others in their place.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};
use narrows_mmb::{Program, ProgramRule, RuleCounters};

use crate::BoxConnection;
use crate::box_connections::connections;
use crate::box_tables::{fill, prepare, take_over};
use crate::error::BpfError;
use crate::grace::wait_for_programs;
use crate::libbpf::{self, refused};

/// The program that forgets old connections; it is at no device.
const SWEEP: &str = "nw_mmb_sweep";
/// The one that has connections forget rules that are gone.
const RENUMBER: &str = "nw_mmb_renumber";

pub(crate) const PROGRAMS: &str = "the programs of the box";
const READING: &str = "read the counters of the box";

/// Loaded programs with their rules.
pub(crate) struct BoxRules {
    pub object: Object,
    /// By what connections know each rule: of those with state.
    idents: Vec<u32>,
    /// What each rule had counted before these were loaded.
    counted: Vec<RuleCounters>,
    /// Whether there is room for connections.
    room: bool,
}

impl BoxRules {
    /// Loads the programs with their rules for devices with `net_at` bytes before the network header.
    pub(crate) fn load(program: &Program, net_at: u32) -> Result<Self, BpfError> {
        Self::loaded(program, net_at, None, &vec![None; program.rules.len()])
    }

    /// Loads the programs with other rules, of which each had the number of `kept` among these, if it was
    /// there: they have the connections of these. Until [`follow`](Self::follow) nothing else differs.
    pub(crate) fn beside(
        &self,
        program: &Program,
        net_at: u32,
        kept: &[Option<u32>],
    ) -> Result<Self, BpfError> {
        Self::loaded(program, net_at, Some(self), kept)
    }

    fn loaded(
        program: &Program,
        net_at: u32,
        before: Option<&Self>,
        kept: &[Option<u32>],
    ) -> Result<Self, BpfError> {
        let idents = idents(program, before.map_or(&[], |before| &before.idents), kept);
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/mmb.bpf.o"));
        let mut object = libbpf::open("mmb", bytes)?;
        let setting_up = |e| refused("set up the box", &e);
        prepare(&mut object, program, &idents, net_at).map_err(setting_up)?;
        let mut room = program.stateful;
        if let Some(before) = before {
            let connections = before.room;
            take_over(&mut object, &before.object, connections).map_err(setting_up)?;
            room |= connections;
        }
        let object = libbpf::load(object, &format!("load {PROGRAMS}"))?;
        let filled = fill(&object, program, &idents, before.is_some());
        filled.map_err(|e| refused("give the box its rules", &e))?;
        Ok(Self {
            object,
            idents,
            counted: vec![RuleCounters::default(); program.rules.len()],
            room,
        })
    }

    /// These run in the place of `before`, of which each had the number of `kept`: they have what it
    /// counted, and its connections forget the rules that are gone.
    pub(crate) fn follow(&mut self, before: &Self, kept: &[Option<u32>]) -> Result<(), BpfError> {
        let numbers = kept.iter().flatten().map(|number| *number as usize);
        let mut stays = vec![false; before.idents.len()];
        numbers.for_each(|number| stays[number] = true);
        // What runs on another processor may still be of the old ones.
        wait_for_programs();
        let stateful = before.idents.iter().map(|i| *i != ProgramRule::LAST);
        if stateful
            .zip(stays)
            .any(|(stateful, stays)| stateful && !stays)
        {
            self.run(RENUMBER, "have connections forget rules")?;
        }
        let old = before.counters()?;
        for (counted, number) in self.counted.iter_mut().zip(kept) {
            if let Some(number) = number {
                *counted = old[*number as usize];
            }
        }
        Ok(())
    }

    /// What each rule has counted, in their order.
    pub(crate) fn counters(&self) -> Result<Vec<RuleCounters>, BpfError> {
        let Some(map) = self.object.maps().find(|m| m.name() == "nw_mmb_counts") else {
            return Ok(Vec::new());
        };
        let count = |(rule, before): (u32, &RuleCounters)| {
            let value = map.lookup(&rule.to_ne_bytes(), MapFlags::ANY);
            let value = value.map_err(|e| refused(READING, &e))?.unwrap_or_default();
            let mut numbers = words(&value);
            let mut next = || numbers.next().unwrap_or(0);
            Ok(RuleCounters {
                packets: before.packets + next(),
                bytes: before.bytes + next(),
            })
        };
        (0..).zip(&self.counted).map(count).collect()
    }

    /// The connections that are tracked, in no order, without those that were idle for too long.
    pub(crate) fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        let mut all = connections(&self.object)?;
        let known = self.idents.iter().zip(1..);
        let numbers: BTreeMap<usize, usize> = known
            .filter(|(i, _)| **i != ProgramRule::LAST)
            .map(|(i, n)| (*i as usize, n))
            .collect();
        for connection in &mut all {
            let rules = connection.rules.iter();
            connection.rules = rules.filter_map(|i| numbers.get(i).copied()).collect();
        }
        Ok(all)
    }

    /// Forgets connections that were idle for too long.
    pub(crate) fn sweep(&self) -> Result<(), BpfError> {
        self.run(SWEEP, "forget old connections")
    }

    fn run(&self, name: &str, what: &str) -> Result<(), BpfError> {
        let Some(program) = self.object.progs_mut().find(|p| p.name() == name) else {
            return Ok(());
        };
        let run = program.test_run(ProgramInput::default());
        run.map_err(|e| refused(what, &e))?;
        Ok(())
    }
}

/// By what connections know the rules with state: those that stay as before, others by numbers that no
/// rule had before, so that the old programs do not take one rule for another while both run.
fn idents(program: &Program, before: &[u32], kept: &[Option<u32>]) -> Vec<u32> {
    let mut taken: Vec<u32> = before.to_vec();
    taken.sort_unstable();
    let mut taken = taken.into_iter().peekable();
    let mut free = (0..).filter(|number| {
        while taken.next_if(|t| t < number).is_some() {}
        taken.peek() != Some(number)
    });
    let stays = |number: &Option<u32>| number.and_then(|n| before.get(n as usize).copied());
    let rules = program.rules.iter().zip(kept);
    rules
        .map(|(rule, number)| match rule.stateful {
            false => ProgramRule::LAST,
            true => stays(number).or_else(|| free.next()).unwrap_or(0),
        })
        .collect()
}

/// The 64-bit words in `bytes`.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let word = |chunk: &[u8]| <[u8; 8]>::try_from(chunk).map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(stateful: &[bool]) -> Program {
        let rule = |stateful: &bool| ProgramRule {
            next: ProgramRule::LAST,
            action: 0,
            test: 0,
            tests: 0,
            stateful: *stateful,
            frames: false,
        };
        Program {
            rules: stateful.iter().map(rule).collect(),
            ..Program::default()
        }
    }

    #[test]
    fn a_rule_that_stays_keeps_its_identifier_and_no_other_gets_one_that_was_taken() {
        const NONE: u32 = ProgramRule::LAST;
        let first = idents(&program(&[true, false, true, true]), &[], &[None; 4]);
        assert_eq!(first, [0, NONE, 1, 2]);
        // The third goes, one comes before the first, one behind the last.
        let kept = [None, Some(0), Some(1), Some(3), None];
        let program = program(&[true, true, false, true, true]);
        assert_eq!(idents(&program, &first, &kept), [3, 0, NONE, 2, 4]);
        // What is free again is given away.
        let again = idents(
            &program,
            &[3, 0, NONE, 2, 4],
            &[None, None, None, Some(0), None],
        );
        assert_eq!(again, [1, 5, NONE, 3, 6]);
    }
}
