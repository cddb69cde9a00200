//! Frames that are not IP: rules about them name their type.

use narrows_core::{DropCause, Port};

use super::Middlebox;
use crate::constraint::Names;
use crate::field::{Layer, Place};
use crate::rule::{Constraint, Rule};

impl Middlebox {
    /// A frame of that EtherType and of so many bytes, which is not IP, travels as `port` says; why it is
    /// dropped, if it is.
    pub fn process_frame(
        &mut self,
        port: Port,
        ether_type: u16,
        bytes: usize,
    ) -> Option<DropCause> {
        self.counters.frames += 1;
        self.matched.clear();
        self.applied.clear();
        self.belongs = None;
        if !self.enabled[usize::from(port)] {
            return None;
        }
        let names = self.settings.names();
        let rules = (0..).zip(&self.rules);
        let matches = |rule: &Rule| rule.is_about_frames() && holds(rule, &names, port, ether_type);
        let matched = rules.filter(|(_, rule)| matches(rule));
        let matched: Vec<u32> = matched.map(|(number, _)| number).collect();
        for rule in &matched {
            let [packets, counted, _] = &mut self.counted[*rule as usize];
            *packets += 1;
            *counted += bytes as u64;
        }
        self.applied.clone_from(&matched);
        self.matched = matched;
        let cause = self.verdict();
        self.counters.frames_dropped += u64::from(cause.is_some());
        cause
    }
}

fn holds(rule: &Rule, names: &Names<'_>, port: Port, ether_type: u16) -> bool {
    rule.constraints()
        .all(|constraint| constraint.negated != positive(&constraint, names, port, ether_type))
}

/// Whether what the constraint asks for is there and so; a frame has its type and the interfaces only.
fn positive(constraint: &Constraint, names: &Names<'_>, port: Port, ether_type: u16) -> bool {
    let field = constraint.named.field;
    let number = match (field.layer(), field.row().place) {
        (Layer::Frame, _) => u128::from(ether_type),
        (Layer::Meta, Place::In | Place::Out) => u128::from(port) + 1,
        _ => return false,
    };
    let Some((condition, value)) = constraint.comparison() else {
        return true;
    };
    // A name that the box does not know was refused before.
    let wanted = names.number(field, &value);
    wanted.is_ok_and(|wanted| condition.holds(number.cmp(&wanted)))
}
