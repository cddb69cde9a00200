//! What was compared, and what differed.

use std::collections::BTreeMap;
use std::fmt;

use narrows_bpf::Record;
use narrows_cc::{Call, Facts, Flags};
use narrows_tcp::testkit::Timer;
use narrows_units::Instant;

/// Most lateness of a timer that is due within two seconds, µs: a tick of at
/// most 10 ms (HZ 100), eight of them where it is 63 or more away, and the one
/// under way.
const LATEST_US: i64 = 90_000;

/// One fact over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls at which it was compared.
    pub compared: u64,
    /// Of these, the equal ones.
    pub equal: u64,
    /// The largest difference.
    pub largest: u64,
}

impl Tally {
    fn add(&mut self, kernel: i64, own: i64) {
        let by = kernel.abs_diff(own);
        self.compared += 1;
        self.equal += u64::from(by == 0);
        self.largest = self.largest.max(by);
    }
}

/// A connection's comparison.
#[derive(Clone, Debug)]
pub struct Held {
    pub name: String,
    /// By fact.
    pub facts: BTreeMap<&'static str, Tally>,
    /// Calls that both made.
    pub calls: u64,
    /// One line for each difference, in order.
    pub differences: Vec<String>,
    /// How much later than ours the kernel's timers fired, µs: least, most.
    pub timers: BTreeMap<Timer, (i64, i64)>,
}

fn flag(name: &'static str, f: &Facts, bit: u16) -> (&'static str, i64) {
    (name, i64::from(f.flags & bit != 0))
}

fn facts(f: &Facts) -> Vec<(&'static str, i64)> {
    let number = |n: u32| i64::from(n);
    vec![
        ("snd_una", number(f.snd_una)),
        ("snd_nxt", number(f.snd_nxt)),
        ("high_seq", number(f.high_seq)),
        ("packets_out", number(f.packets_out)),
        ("in_flight", number(f.in_flight)),
        ("delivered", number(f.delivered)),
        ("delivered_ce", number(f.delivered_ce)),
        ("lost", number(f.lost)),
        ("ca_state", i64::from(f.ca_state)),
        ("srtt_us", number(f.srtt_us)),
        ("min_rtt_us", number(f.min_rtt_us)),
        ("cwnd", number(f.cwnd)),
        ("ssthresh", number(f.ssthresh)),
        ("prior_cwnd", number(f.prior_cwnd)),
        ("mss", number(f.mss)),
        flag("in_slow_start", f, Flags::IN_SLOW_START),
    ]
}

/// What an ACK gave: the other hooks do not receive it.
fn of_ack(f: &Facts) -> Vec<(&'static str, i64)> {
    vec![
        ("acked_sacked", i64::from(f.acked_sacked)),
        ("rtt_us", i64::from(f.rtt_us)),
    ]
}

/// Only `cong_control` receives these.
fn sample(f: &Facts) -> Vec<(&'static str, i64)> {
    let number = |n: u32| i64::from(n);
    vec![
        ("rs_delivered", i64::from(f.rs_delivered)),
        ("rs_interval_us", number(f.rs_interval_us)),
        ("rs_prior_delivered", number(f.rs_prior_delivered)),
        ("rs_prior_in_flight", number(f.rs_prior_in_flight)),
        ("rs_losses", number(f.rs_losses)),
        flag("ack_ece", f, Flags::ACK_ECE),
    ]
}

impl Held {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            facts: BTreeMap::new(),
            calls: 0,
            differences: Vec::new(),
            timers: BTreeMap::new(),
        }
    }

    /// Adds another connection's figures.
    pub fn join(&mut self, other: &Self) {
        self.calls += other.calls;
        for (fact, t) in &other.facts {
            let own = self.facts.entry(fact).or_default();
            own.compared += t.compared;
            own.equal += t.equal;
            own.largest = own.largest.max(t.largest);
        }
        for (timer, range) in &other.timers {
            let own = self.timers.entry(*timer).or_insert(*range);
            *own = (own.0.min(range.0), own.1.max(range.1));
        }
    }

    /// No timer of the kernel fired before ours would have, or later than its
    /// wheel's steps explain.
    pub fn timers_in_time(&self) -> bool {
        self.timers
            .values()
            .all(|(least, most)| *least >= 0 && *most <= LATEST_US)
    }

    /// The figures as a table of the documentation.
    pub fn table(&self) -> String {
        let mut text =
            String::from("| Fact | Compared | Equal | Largest difference |\n|---|---|---|---|\n");
        for (fact, t) in &self.facts {
            text += &format!(
                "| `{fact}` | {} | {} | {} |\n",
                t.compared, t.equal, t.largest
            );
        }
        text
    }

    fn note(&mut self, record: &Record, what: &str) {
        let ms = record.facts.now_ns as f64 / 1e6;
        self.differences.push(format!("{ms:.3} ms: {what}"));
    }

    /// Both made a call.
    pub fn call(&mut self, record: &Record, theirs: &Call, own: &Call, own_facts: &Facts) {
        self.calls += 1;
        let kernel = &record.facts;
        let mut pairs: Vec<_> = facts(kernel).into_iter().zip(facts(own_facts)).collect();
        if matches!(theirs, Call::PktsAcked | Call::CongControl) {
            pairs.extend(of_ack(kernel).into_iter().zip(of_ack(own_facts)));
        }
        if *theirs == Call::CongControl {
            pairs.extend(sample(kernel).into_iter().zip(sample(own_facts)));
        }
        let mut wrong = Vec::new();
        if theirs != own {
            wrong.push(format!("{own:?}"));
        }
        self.facts
            .entry("call")
            .or_default()
            .add(0, i64::from(theirs != own));
        for ((fact, kernel), (_, own)) in pairs {
            self.facts.entry(fact).or_default().add(kernel, own);
            if kernel != own {
                wrong.push(format!("{fact} {kernel} here {own}"));
            }
        }
        if !wrong.is_empty() {
            self.note(record, &format!("{theirs:?}: {}", wrong.join(", ")));
        }
    }

    /// The kernel made a call that we did not.
    pub fn missing(&mut self, record: &Record, call: &Call) {
        self.facts.entry("call").or_default().add(0, 1);
        self.note(record, &format!("{call:?} is missing here"));
    }

    /// The kernel made a call in the course of an ACK that is not there.
    pub fn unexplained(&mut self, record: &Record) {
        self.facts.entry("call").or_default().add(0, 1);
        self.note(record, &format!("{}: no such ACK", record.hook.name()));
    }

    /// We made one that the kernel did not.
    pub fn extra(&mut self, record: &Record, call: &(Call, Facts)) {
        self.facts.entry("call").or_default().add(0, 1);
        self.note(record, &format!("before it {:?} here only", call.0));
    }

    /// The same, after all of the kernel's.
    pub fn stray(&mut self, call: &(Call, Facts)) {
        self.facts.entry("call").or_default().add(0, 1);
        let ms = call.1.now_ns as f64 / 1e6;
        self.differences
            .push(format!("{ms:.3} ms: {:?} here only", call.0));
    }

    /// The kernel's timer fired `now`; ours would have as `own` says.
    pub fn timer(&mut self, timer: Timer, now: Instant, own: Option<(Timer, Instant)>) {
        let line = match own {
            Some((kind, due)) if kind == timer => {
                let late = now.as_nanos() as i64 - due.as_nanos() as i64;
                let late = late.div_euclid(1000);
                let range = self.timers.entry(timer).or_insert((late, late));
                *range = (range.0.min(late), range.1.max(late));
                return;
            }
            other => format!("{timer:?} fired, here {other:?}"),
        };
        let ms = now.as_nanos() as f64 / 1e6;
        self.facts.entry("timer").or_default().add(0, 1);
        self.differences.push(format!("{ms:.3} ms: {line}"));
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} calls", self.name, self.calls)?;
        for (fact, t) in &self.facts {
            writeln!(
                f,
                "  {fact:<20} {:>6} {:>6} {:>8}",
                t.compared, t.equal, t.largest
            )?;
        }
        for (timer, (least, most)) in &self.timers {
            writeln!(f, "  {timer:?} fired {least} to {most} µs later")?;
        }
        for line in self.differences.iter().take(40) {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}
