//! The rates of links over a run.

use narrows_path::Rates;

use crate::plan::{LegPlan, Plan};

impl Plan {
    /// The rates that the element of this full name has, as they are recorded and as timed
    /// changes make them; `None` if it has none, or opportunities in their place.
    pub fn rates_of(&self, name: &str) -> Option<Rates> {
        let element = self.elements().find(|e| e.name == name)?;
        let mut present = element.spec.rates()?;
        let mut steps = present.steps().to_vec();
        let mut changes: Vec<_> = self.changes.iter().filter(|c| c.target == name).collect();
        changes.sort_by_key(|change| change.at);
        let mut spec = element.spec.clone();
        for change in changes {
            // The queue's parameters, which a change need not give in full, change no rate.
            let words = change.words.split_whitespace();
            let words: Vec<&str> = words.take_while(|word| *word != "queue").collect();
            let Ok(changed) = spec.overlaid(&words.join(" ")) else {
                continue;
            };
            spec = changed;
            let rates = spec.rates()?;
            if rates == present {
                continue;
            }
            let later = rates.steps().partition_point(|step| step.0 <= change.at);
            let (before, after) = rates.steps().split_at(later);
            steps.truncate(steps.partition_point(|step| step.0 < change.at));
            steps.extend(before.last().map(|(_, rate)| (change.at, *rate)));
            steps.extend_from_slice(after);
            present = rates;
        }
        Some(Rates::new(steps))
    }

    /// The rates that the control of a leg is given, each from its time on; none without a hint.
    pub fn given_rates(&self, leg: &LegPlan) -> Rates {
        let hint = leg.hint.as_deref();
        hint.and_then(|name| self.rates_of(name))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Instant;

    use crate::Draft;

    /// The steps of an element of these words with changes at 1 s, 2 s and so on.
    fn steps(words: &str, changes: &[&str]) -> Vec<(u64, u64)> {
        let mut text = format!(
            "version = 1\nname = \"n\"\nduration = \"10s\"\n[[link]]\nname = \"l\"\n\
             ends = [\"a\", \"b\"]\nup = [\"e: {words}\"]\n[[flow]]\nname = \"f\"\n\
             from = \"a\"\nto = \"b\"\ncc = \"cubic\"\n"
        );
        for (place, change) in changes.iter().enumerate() {
            let at = place + 1;
            text += &format!(
                "[[change]]\nat = \"{at}s\"\ntarget = \"link/l/up/e\"\nto = \"{change}\"\n"
            );
        }
        let draft = Draft::read("n.toml", text.as_bytes()).expect("a scenario");
        let plan = draft.check().expect("a plan");
        let rates = plan.rates_of("link/l/up/e").expect("rates");
        let seconds = |at: Instant| at.since(Instant::ZERO).as_nanos() / 1_000_000_000;
        let steps = rates.steps().iter();
        steps
            .map(|(at, rate)| (seconds(*at), rate.as_bits()))
            .collect()
    }

    #[test]
    fn changes_of_whatever_a_rate_follows_from_change_the_rate() {
        let wifi = |mcs: u8| steps(&format!("wifi mcs {mcs}"), &[])[0].1;
        assert_eq!(
            steps("wifi mcs 5", &["wifi mcs 0", "wifi mcs 3"]),
            [(0, wifi(5)), (1, wifi(0)), (2, wifi(3))]
        );
        assert!(wifi(0) < wifi(3) && wifi(3) < wifi(5));
        let with_queue = ["wifi mcs 0 queue limit 50", "wifi queue limit 40"];
        assert_eq!(
            steps("wifi mcs 5", &with_queue),
            [(0, wifi(5)), (1, wifi(0))]
        );
    }

    #[test]
    fn changes_of_the_queue_alone_leave_the_rate() {
        let changes = [
            "rate 10Mbit queue fq_codel target 2ms",
            "rate 5Mbit queue limit 100",
            // As at the beginning, which is a change again.
            "rate 10Mbit",
        ];
        assert_eq!(
            steps("rate 10Mbit queue fq_codel", &changes),
            [(0, 10_000_000), (2, 5_000_000), (3, 10_000_000)]
        );
    }
}
