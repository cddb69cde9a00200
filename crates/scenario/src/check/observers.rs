//! Observers of measurement signals.

use super::{Check, Names, window};
use crate::document::Mode;
use crate::plan::ObserverPlan;
use crate::refusal::{Refusal, one_of};

impl Check<'_> {
    /// Reads the observers.
    pub(super) fn observers(&mut self) -> Result<(), Refusal> {
        let places = self.places;
        let mut names = Names::default();
        for table in &self.scenario.observe {
            let name = names.required(places, table, &table.name)?;
            if let Some(at) = table.t_max.as_ref().filter(|at| at.0.is_zero()) {
                return Err(places.refuse(at, "a time above zero"));
            }
            let known = || self.plan.taps.iter().map(|t| t.name.as_str());
            let Some(tap) = &*table.tap else {
                return Err(places.missing(table, "tap", one_of(known())));
            };
            if !known().any(|t| t == tap.as_str()) {
                let refusal = places.refuse(tap, one_of(known()));
                return Err(refusal.did_you_mean(tap, known()));
            }
            let measure = match &table.measure {
                Some(measure) => window(places, measure, self.plan.duration)?,
                None => self.plan.measure,
            };
            self.plan.observers.push(ObserverPlan {
                name,
                tap: tap.to_string(),
                measure,
                thesis: table.mode.as_deref() == Some(&Mode::Thesis),
                profile: table.profile.as_ref().map(|at| at.0),
                negotiated: table.negotiated.as_ref().is_some_and(|at| **at),
                t_max: table.t_max.as_ref().map(|at| at.0),
                block: table.block.as_ref().map(|at| at.0 as u32),
                reordering: table.reordering.as_ref().map(|at| at.0 as u32),
                techniques: table.techniques.iter().map(|t| t.0.clone()).collect(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Draft;

    const BASE: &str = "version = 1\nname = \"x\"\nduration = \"9s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nup = [\"tap mid\"]\n\
        [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n\
        [[observe]]\nname = \"o\"\n";

    #[test]
    fn an_observer_stands_at_a_tap_and_is_written_as_it_was_read() {
        let text = format!(
            "{BASE}tap = \"tap/mid\"\nmode = \"thesis\"\nt_max = \"225ms\"\nprofile = \"s+t\"\n\
             techniques = [\"delay\", \"q\"]\nmeasure = \"0s..9s\"\n"
        );
        let read = |text: &str| {
            Draft::read("x.toml", text.as_bytes())
                .and_then(|d| d.check())
                .expect("a plan")
        };
        let plan = read(&text);
        assert!(plan.observers[0].thesis && plan.observers[0].techniques == ["delay", "q"]);
        assert_eq!(plan.observers[0].measure.to_string(), "0s..9s");
        assert_eq!(plan, read(&plan.to_toml()));
        // Without one of its own it has the run's.
        let plan = read(&format!("{BASE}tap = \"tap/mid\"\n"));
        assert_eq!(plan.observers[0].measure, plan.measure);
        assert_eq!(plan, read(&plan.to_toml()));
    }

    #[test]
    fn an_observer_without_a_tap_or_of_an_unknown_technique_is_refused() {
        for more in [
            "",
            "tap = \"tap/far\"\n",
            "tap = \"tap/mid\"\ntechniques = \"dely\"\n",
            "tap = \"tap/mid\"\nmode = \"rfd\"\n",
            "tap = \"tap/mid\"\nt_max = \"0s\"\n",
            "tap = \"tap/mid\"\nmeasure = \"5s..10s\"\n",
        ] {
            let text = format!("{BASE}{more}");
            let draft = Draft::read("x.toml", text.as_bytes()).expect("TOML");
            assert!(draft.check().is_err(), "{more}");
        }
    }
}
