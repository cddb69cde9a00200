//! The rates of links over a run.

use narrows_path::Rates;
use narrows_units::{Rate, Words};

use crate::plan::{LegPlan, Plan};

impl Plan {
    /// The rates that the element of this full name has, as they are recorded and as timed
    /// changes make them; `None` if it has none, or opportunities in their place.
    pub fn rates_of(&self, name: &str) -> Option<Rates> {
        let element = self.elements().find(|e| e.name == name)?;
        let mut steps = element.spec.rates()?.steps().to_vec();
        let changes = self.changes.iter().filter(|c| c.target == name);
        steps.extend(changes.filter_map(|c| Some((c.at, rate_in(&c.words)?))));
        Some(Rates::new(steps))
    }

    /// The rates that the control of a leg is given, each from its time on; none without a hint.
    pub fn given_rates(&self, leg: &LegPlan) -> Rates {
        let hint = leg.hint.as_deref();
        hint.and_then(|name| self.rates_of(name))
            .unwrap_or_default()
    }
}

/// The rate in the words of an element's change: `rate 50Mbit …`.
fn rate_in(words: &str) -> Option<Rate> {
    let mut words = Words::new(words);
    words.take_if("rate").then(|| words.value().ok())?
}
