//! A link whose rate follows a recording of rates.

use std::sync::Arc;

use narrows_core::{Change, Element, ElementCounters, EventSink, Outlet, Packet, Port};
use narrows_units::{Instant, Rate, WordError};

use crate::rate::{RateChange, RateLink, RateSpec};
use crate::recording::Rates;
use crate::site::Site;
use crate::trace::no_rate;
use crate::waiting::earliest;

/// A link of limited rate ([`RateSpec`]), and the rates that it has in turn. At a rate of
/// zero a packet under way stays there, and goes on when the rate does.
pub struct RecordedLink {
    link: RateLink,
    rates: Arc<Rates>,
    /// The step that is next.
    next: usize,
}

impl RecordedLink {
    /// One at `site` that has `rates` in turn; without any its rate is zero.
    pub(crate) fn new(spec: &RateSpec, rates: Arc<Rates>, site: &Site<'_>) -> Self {
        let first = rates.steps().first().map_or(Rate::default(), |s| s.1);
        let spec = RateSpec {
            rate: first,
            ..spec.clone()
        };
        Self {
            link: spec.link(site),
            rates,
            next: 1,
        }
    }

    fn next_step(&self) -> Option<(Instant, Rate)> {
        self.rates.steps().get(self.next).copied()
    }

    /// Takes the steps that are due, at their own times.
    fn catch_up(&mut self, now: Instant) {
        while let Some((at, rate)) = self.next_step().filter(|(at, _)| *at <= now) {
            self.link.set_rate(at, rate);
            self.next += 1;
        }
    }
}

impl Element for RecordedLink {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.catch_up(now);
        self.link.push(now, port, packet, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        earliest(self.next_step().map(|s| s.0), self.link.next_wake())
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.catch_up(now);
        self.link.wake(now, out);
    }

    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        match RateChange::parse(&change.words)?.rate {
            Some(_) => Err(no_rate(&change.words)),
            None => self.link.change(now, change),
        }
    }

    fn counters(&self) -> ElementCounters {
        self.link.counters()
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        self.link.sample(now, events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementSpec;
    use crate::recording::Recording;
    use crate::testing::{Bench, ms};

    fn bench(recording: &str, words: &str) -> Bench {
        let mut spec = ElementSpec::parse(&format!("rate trace a.csv {words}")).unwrap();
        let ElementSpec::Trace(inner) = &mut spec else {
            panic!("no recording: {spec}");
        };
        let scale = inner.scale;
        inner.recording = Recording::parse("a.csv", scale, recording.as_bytes()).unwrap();
        Bench::with(&spec, 1)
    }

    fn leaving_us(bench: &Bench) -> Vec<u64> {
        let left = bench.left.iter();
        left.map(|(_, at, _)| at.as_micros()).collect()
    }

    #[test]
    fn packets_leave_at_the_rate_of_their_time_and_none_at_a_rate_of_zero() {
        // 1514 bytes take 1 ms at 12.112 Mbit/s and 500 us at twice that.
        let rates = "time_s,rate_mbit\n0,12.112\n0.0015,0\n1,12.112\n1.0005,24.224\n";
        let mut bench = bench(rates, "queue pfifo limit 100");
        for _ in 0..4 {
            bench.offer(ms(0), 1500, 0);
        }
        bench.run_until(ms(2000));
        // The second is half out when the rate becomes zero.
        assert_eq!(leaving_us(&bench), [1_000, 1_000_500, 1_001_000, 1_001_500]);
        bench.check_conservation();
    }

    #[test]
    fn what_leaves_is_the_integral_of_the_rates() {
        let rates = "time_s,rate_mbit\n0,10\n0.2,3\n0.5,0\n0.9,25\n1.1,1\n1.4,40\n";
        let mut bench = bench(rates, "overhead 0 queue pfifo limit 100000");
        for _ in 0..4_000 {
            bench.offer(ms(0), 1500, 0);
        }
        let integral = Rates::parse(rates.as_bytes()).unwrap();
        for to in [150, 450, 700, 1000, 1350, 1600] {
            bench.run_until(ms(to));
            let bits = bench.left.len() as f64 * 12_000.0;
            let most = integral.bits_between(ms(0), ms(to));
            assert!(
                bits <= most + 1.0 && bits > most - 12_000.0,
                "{to}: {bits} of {most}"
            );
        }
    }

    #[test]
    fn it_may_begin_with_no_rate_and_scaled_words_print_back() {
        let mut begins = bench("time_s,rate_mbit\n0,0\n1,121.12\n", "scale 10%");
        begins.offer(ms(0), 1500, 0);
        begins.run_until(ms(2000));
        assert_eq!(leaving_us(&begins), [1_001_000]);
        for words in [
            "rate trace a.csv scale 10% queue pfifo",
            "rate trace b/c.csv overhead 4 queue fq_codel",
        ] {
            let spec = ElementSpec::parse(words).unwrap();
            assert!(spec.to_string().starts_with(words), "{spec}");
            assert_eq!(ElementSpec::parse(&spec.to_string()).unwrap(), spec);
        }
    }

    #[test]
    fn words_that_mean_nothing_to_it_are_refused() {
        for (words, at) in [
            ("rate trace a.csv scale 0%", "0%"),
            ("rate trace a.csv scale 101%", "101%"),
            ("rate trace a.trace scale 10%", "scale"),
        ] {
            let error = ElementSpec::parse(words).unwrap_err();
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
        let spec = ElementSpec::parse("rate trace a.csv").unwrap();
        assert!(spec.check_change("rate 5Mbit").is_err());
        assert!(spec.check_change("queue limit 5").is_ok());
    }
}
