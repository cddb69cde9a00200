//! What rules do to packets that match them.

use std::sync::Arc;

use crate::action::Action;
use crate::constraint::{Names, UnknownInterface};
use crate::rule::Rule;
use crate::shape::Shape;

/// What rules of one kind do.
#[derive(Clone, Debug)]
pub(crate) struct RuleAction {
    pub action: Action,
    pub stateful: bool,
}

/// The rules as packets need them, apart from how they are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleActions {
    /// Which of `kinds` a rule is, by its number.
    of: Vec<u32>,
    kinds: Vec<RuleAction>,
}

impl RuleActions {
    /// Of `rules` at a box with these names.
    pub(crate) fn of<'a>(
        rules: impl ExactSizeIterator<Item = &'a Rule>,
        names: &Names<'_>,
    ) -> Result<Self, UnknownInterface> {
        let mut rule_actions = Self {
            of: Vec::with_capacity(rules.len()),
            kinds: Vec::new(),
        };
        let mut last: Option<&Arc<Shape>> = None;
        for rule in rules {
            let shape = rule.shape();
            // Long lists say the same of many packets.
            if !last.is_some_and(|last| Arc::ptr_eq(last, shape)) {
                let action = Action::of(rule, names)?;
                let stateful = rule.is_stateful();
                let same =
                    |before: &RuleAction| before.action == action && before.stateful == stateful;
                if !rule_actions.kinds.last().is_some_and(same) {
                    rule_actions.kinds.push(RuleAction { action, stateful });
                }
                last = Some(shape);
            }
            rule_actions.of.push(rule_actions.kinds.len() as u32 - 1);
        }
        Ok(rule_actions)
    }

    /// What that rule does.
    pub(crate) fn get(&self, rule: u32) -> &RuleAction {
        &self.kinds[self.of[rule as usize] as usize]
    }

    /// What each rule does, in their order.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        let action = |kind: &u32| &self.kinds[*kind as usize].action;
        self.of.iter().map(action)
    }

    /// Whether a rule is stateful.
    pub(crate) fn any_stateful(&self) -> bool {
        self.kinds.iter().any(|kind| kind.stateful)
    }

    /// Whether a rule needs TCP options to do what it does.
    pub(crate) fn reads_options(&self) -> bool {
        self.kinds.iter().any(|kind| kind.action.reads_options())
    }

    /// Whether packets of a connection may get other addresses, ports or numbers.
    pub(crate) fn translate(&self) -> bool {
        let maps = |rule: &RuleAction| !rule.action.mappings.is_empty();
        self.kinds.iter().any(maps)
    }
}
