//! One of Flent's tests: what does not fit in its table. Its flows and probes are checked with the
//! others.

use narrows_units::{Duration, Value as _};

use super::{Check, or};
use crate::flent::{DELAY, FLENT_TESTS, NAMES, times};
use crate::refusal::{Refusal, one_of};

impl Check<'_> {
    /// Checks `[test]`, and puts its name into the plan.
    pub(super) fn test(&mut self) -> Result<(), Refusal> {
        let (places, Some(test)) = (self.places, &self.scenario.test) else {
            return Ok(());
        };
        let names = one_of(NAMES);
        let name = places.required(test, "flent", &test.flent, &names)?;
        self.ends(test, &test.from, &test.to)?;
        let named = FLENT_TESTS.iter().find(|test| test.name == name.0);
        self.plan.test = named.map(|test| test.name);
        if let Some(streams) = &test.streams {
            if named.is_some_and(|test| test.parameters.is_empty()) {
                let counted = FLENT_TESTS
                    .iter()
                    .filter(|test| !test.parameters.is_empty());
                let allowed = format!("nothing, or {}", one_of(counted.map(|test| test.name)));
                let found = format!("{} beside `{}`", streams.0, name.0);
                return Err(places.found(streams, found, allowed));
            }
        }
        let usual = Duration::parse(DELAY).unwrap_or(Duration::ZERO);
        let (delay, duration) = (or(&test.delay, usual), self.plan.duration);
        if times(duration, delay).is_none() {
            let refusal = match (&test.delay, &*self.scenario.duration) {
                (None, Some(at)) => {
                    places.refuse(at, format!("more than twice {delay} beside [test]"))
                }
                (Some(at), _) => {
                    places.refuse(at, format!("less than half of the run's {duration}"))
                }
                (None, None) => places.missing(test, "delay", "less than half of the run"),
            };
            let help = "its flows begin after `delay`, and end so long before the run does";
            return Err(refusal.with_help(help));
        }
        Ok(())
    }
}
