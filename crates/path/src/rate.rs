//! A link of limited rate with a queue in front of it: the bottleneck.

use std::fmt;

use narrows_aqm::QueueSpec;
use narrows_core::{Change, Element, ElementCounters, EventSink, Outlet, Packet, Port};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rate, WordError, WordWriter, Words,
};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, LimitedLink, LinkRate, NamesFile, Reports, require_end, usages};
use crate::serialise::Serialiser;
use crate::site::Site;
use crate::waiting::{Waiting, earliest, read_queue};

/// Bytes that a link counts for each IP packet unless configured otherwise: an
/// Ethernet header, as tc counts on an Ethernet device.
pub const DEFAULT_OVERHEAD: u32 = 14;

/// The queue of a rate element that names none: what a Linux device has.
pub(crate) const DEFAULT_QUEUE: &str = "pfifo limit 1000";

/// The largest overhead that makes sense, in bytes.
const MAX_OVERHEAD: u32 = 1_000;

/// `rate RATE [overhead BYTES] [shaper] [queue …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RateSpec {
    /// The rate, counted over IP bytes plus overhead.
    pub rate: Rate,
    /// Bytes counted for each packet above its IP length.
    pub overhead: u32,
    /// Whether the element is a token shaper with a bucket of one packet: a
    /// packet leaves when its turn comes and the shaper then waits out its
    /// time (HTB, TBF). A wire, the default, hands a packet over when its last
    /// bit is out.
    pub shaper: bool,
    /// The queueing discipline.
    pub queue: QueueSpec,
}

impl RateSpec {
    /// Nothing said but the queue.
    pub(crate) fn with_queue(queue: QueueSpec) -> Self {
        Self {
            rate: Rate::default(),
            overhead: DEFAULT_OVERHEAD,
            shaper: false,
            queue,
        }
    }

    /// Lays what follows `rate` over what is there: what the words do not name
    /// stays. A queue is named with all of its parameters.
    pub(crate) fn apply(&mut self, words: &mut Words<'_>) -> Result<(), WordError> {
        self.rate = read_rate(words)?;
        while let Some(word) = words.take() {
            match word.text {
                "overhead" => self.overhead = read_overhead(words)?,
                "shaper" => self.shaper = true,
                "queue" => {
                    self.queue = read_queue(words)?;
                    return Ok(());
                }
                _ => return Err(word.refused(usages(Self::PARAMETERS))),
            }
        }
        Ok(())
    }

    /// The link at `site`.
    pub(crate) fn link(&self, site: &Site<'_>) -> RateLink {
        RateLink {
            waiting: Waiting::new(&self.queue, site, self.rate, self.overhead),
            shaper: self.shaper,
            clock: Serialiser::new(self.rate),
            on_wire: None,
            busy_until: None,
            retry: None,
        }
    }
}

/// The overhead of a link, of which `default` is the guide's text.
pub(crate) const fn overhead_parameter(default: &'static str) -> Parameter {
    Parameter::new(
        "overhead BYTES",
        ParameterKind::Number("bytes"),
        "at most 1000 bytes",
        default,
        "Bytes counted for each packet above its IP length",
    )
}

/// The queue of a link.
pub(crate) const QUEUE_PARAMETER: Parameter = Parameter::new(
    "queue QUEUE …",
    ParameterKind::Words,
    "a queue and its parameters",
    "pfifo limit 1000",
    "The queue and its parameters, up to the end of the element",
);

impl Kind for RateSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "RATE",
            ParameterKind::Rate,
            "a rate above zero",
            "",
            "The rate, counted over IP bytes plus overhead",
        ),
        overhead_parameter("14"),
        Parameter::flag(
            "shaper",
            "a wire",
            "Whether a packet leaves when its turn comes, as from HTB, instead of when its last bit is out",
        ),
        QUEUE_PARAMETER,
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self::with_queue(QueueSpec::parse(DEFAULT_QUEUE)?);
        spec.apply(words)?;
        Ok(spec)
    }

    /// A rate in place of a recording keeps the queue.
    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = match (before, before.facts().link) {
            (ElementSpec::Rate(old), _) => old.clone(),
            (_, Some(link)) => Self::with_queue(link.queue.clone()),
            (_, None) => return Self::parse(words),
        };
        spec.apply(words)?;
        Ok(spec)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(self.link(site))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: Some(LimitedLink {
                // A queue that shapes to less is what limits.
                rate: LinkRate::Constant(
                    self.queue
                        .shaped_to()
                        .map_or(self.rate, |shaped| shaped.min(self.rate)),
                ),
                overhead: self.overhead,
                queue: &self.queue,
                shared: false,
            }),
            holds_back: true,
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Queue,
        }
    }

    fn base_delay(&self, _: u8, mtu: u32) -> Duration {
        self.rate.time_for(u64::from(mtu + self.overhead))
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate {}", self.rate)?;
        WordWriter::new(f)
            .stated("overhead", self.overhead, DEFAULT_OVERHEAD)
            .word_if(self.shaper, "shaper")
            .pair("queue", &self.queue)
            .finish()
    }
}

pub(crate) fn read_rate(words: &mut Words<'_>) -> Result<Rate, WordError> {
    words.checked_value("a rate above zero", |rate: &Rate| rate.as_bits() > 0)
}

pub(crate) fn read_overhead(words: &mut Words<'_>) -> Result<u32, WordError> {
    words.checked_value(format!("at most {MAX_OVERHEAD} bytes"), |bytes| {
        *bytes <= MAX_OVERHEAD
    })
}

/// The running element: a queue, and a wire that takes one packet at a time.
pub struct RateLink {
    waiting: Waiting,
    shaper: bool,
    clock: Serialiser,
    /// The packet whose bits are going out; a shaper keeps none.
    on_wire: Option<Box<Packet>>,
    /// When the wire is free again, while it is not.
    busy_until: Option<Instant>,
    /// When a queue that holds packets back may give one.
    retry: Option<Instant>,
}

impl RateLink {
    /// Has the rate `rate`, which may be zero, from `now` on.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.clock.change_rate(now, rate);
        if self.busy_until.is_some() {
            self.busy_until = Some(self.clock.end().max(now));
        }
        self.waiting.queue.link_rate_changed(rate);
    }

    /// Starts sending if the wire is free and the queue gives a packet.
    #[inline]
    fn start(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if self.busy_until.is_some() {
            return;
        }
        let Some((packet, wire_bytes)) = self.waiting.pull(now, out) else {
            // A queue that shapes by itself says when; never now again.
            let soonest = now + Duration::from_nanos(1);
            let next = self.waiting.queue.next_dequeue(now);
            self.retry = next.map(|t| t.max(soonest));
            return;
        };
        self.retry = None;
        self.busy_until = Some(self.clock.send(now, wire_bytes));
        if self.shaper {
            self.waiting.let_out(packet, out);
        } else {
            self.on_wire = Some(packet);
        }
    }
}

impl RateLink {
    /// Bytes that wait or whose last bit is not out yet, as the link counts them.
    pub(crate) fn held_bytes(&self) -> u64 {
        let on_wire = self
            .on_wire
            .as_ref()
            .map_or(0, |packet| u64::from(packet.len() + self.waiting.overhead));
        self.waiting.queue.backlog().bytes + on_wire
    }
}

impl Element for RateLink {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.waiting.push(now, packet, out);
        // A queue with a shaper of its own may let this packet go at once.
        self.start(now, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        let tick = self.waiting.queue.next_tick();
        earliest(earliest(self.busy_until, self.retry), tick)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.waiting.tick(now);
        if self.busy_until.is_some_and(|t| t <= now) {
            self.busy_until = None;
            if let Some(packet) = self.on_wire.take() {
                self.waiting.let_out(packet, out);
            }
            self.start(now, out);
        } else if self.retry.is_some_and(|t| t <= now) {
            self.start(now, out);
        }
    }

    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let parsed = RateChange::parse(&change.words)?;
        self.waiting.change(now, parsed.queue)?;
        if let Some(rate) = parsed.rate {
            self.set_rate(now, rate);
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.waiting.counters()
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        self.waiting.sample(now, events);
    }
}

/// New parameters of a rate element: `rate RATE` and `queue …`, either or both.
pub(crate) struct RateChange<'a> {
    pub(crate) rate: Option<Rate>,
    pub(crate) queue: Option<(&'a str, usize)>,
}

impl<'a> RateChange<'a> {
    pub(crate) fn parse(line: &'a str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let mut change = Self {
            rate: None,
            queue: None,
        };
        loop {
            match words.take() {
                Some(w) if w.text == "rate" => change.rate = Some(read_rate(&mut words)?),
                Some(w) if w.text == "queue" => {
                    let rest = words.rest();
                    if rest.text.is_empty() {
                        return Err(words.ended("new words for the queue"));
                    }
                    change.queue = Some((rest.text, rest.start));
                    return Ok(change);
                }
                Some(w) => return Err(w.refused("rate RATE or queue …")),
                None if change.rate.is_none() => {
                    return Err(words.ended("rate RATE or queue …"));
                }
                None => {
                    require_end(words)?;
                    return Ok(change);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementSpec;
    use crate::testing::{Bench, Seen, ms};

    fn leaving_ns(bench: &Bench) -> Vec<u64> {
        bench.left.iter().map(|(_, t, _)| t.as_nanos()).collect()
    }

    #[test]
    fn a_wire_hands_over_after_the_last_bit_and_counts_the_frame() {
        let mut bench = Bench::new("rate 50Mbit queue pfifo limit 10");
        bench.offer(ms(0), 1500, 0);
        bench.offer(ms(0), 1500, 0);
        bench.run_until(Instant::MAX);
        // 1514 × 8 bits / 50 Mbit/s.
        assert_eq!(leaving_ns(&bench), [242_240, 484_480]);
        let dequeued: Vec<_> = bench
            .record
            .0
            .iter()
            .filter_map(|(at, e)| match e {
                Seen::Dequeued {
                    sojourn,
                    wire_bytes,
                } => Some((at.as_nanos(), sojourn.as_nanos(), *wire_bytes)),
                _ => None,
            })
            .collect();
        assert_eq!(dequeued, [(0, 0, 1514), (242_240, 242_240, 1514)]);
    }

    #[test]
    fn a_shaper_hands_over_at_its_turn_and_then_waits() {
        let mut bench = Bench::new("rate 50Mbit shaper queue pfifo limit 10");
        for _ in 0..3 {
            bench.offer(ms(1), 1500, 0);
        }
        bench.run_until(Instant::MAX);
        assert_eq!(leaving_ns(&bench), [1_000_000, 1_242_240, 1_484_480]);
    }

    #[test]
    fn overhead_is_what_the_words_say() {
        let mut bench = Bench::new("rate 8Mbit overhead 38");
        bench.offer(ms(0), 962, 0);
        bench.run_until(Instant::MAX);
        assert_eq!(leaving_ns(&bench), [1_000_000]);
    }

    #[test]
    fn backlog_of_the_record_is_that_after_the_packet() {
        let mut bench = Bench::new("rate 1Mbit queue pfifo limit 2");
        for _ in 0..4 {
            bench.offer(ms(0), 1500, 0);
        }
        let backlogs: Vec<_> = bench
            .record
            .0
            .iter()
            .filter_map(|(_, e)| match e {
                Seen::Enqueued(n) => Some(*n),
                _ => None,
            })
            .collect();
        // The first goes to the wire at once; the fourth finds two waiting.
        assert_eq!(backlogs, [1, 1, 2]);
        assert_eq!(bench.element.counters().dropped, 1);
        bench.check_conservation();
    }

    #[test]
    fn a_new_rate_holds_from_its_instant_on() {
        let mut bench = Bench::new("rate 12112Kbit queue pfifo limit 9");
        for _ in 0..3 {
            bench.offer(ms(0), 1500, 0);
        }
        // A frame takes 1 ms; at 1.5 ms half of the second is left, which
        // takes 5 ms at a tenth of the rate.
        bench.change(Instant::from_nanos(1_500_000), "rate 1211200bit");
        bench.run_until(Instant::MAX);
        assert_eq!(leaving_ns(&bench), [1_000_000, 6_500_000, 16_500_000]);
    }

    #[test]
    fn a_queue_that_shapes_by_itself_lets_each_packet_go_at_its_time() {
        let mut bench = Bench::new("rate 1Gbit overhead 0 queue cake bandwidth 8mbit raw");
        for _ in 0..5 {
            bench.offer(ms(1), 1000, 0);
        }
        bench.run_until(ms(1000));
        // 1000 bytes take a millisecond, and 8 us on the wire.
        let left = leaving_ns(&bench);
        let first = left[0];
        let after: Vec<u64> = left.iter().map(|at| (at - first) / 1_000_000).collect();
        assert_eq!(after, [0, 1, 2, 3, 4], "{left:?}");
    }

    #[test]
    fn a_queue_with_a_clock_of_its_own_marks_and_the_link_counts_it() {
        let mut bench = Bench::new("rate 1Mbit queue dualpi2");
        for i in 0..300 {
            bench.offer(ms(2 * i), 1000, 1);
        }
        bench.run_until(ms(700));
        let marks = bench.record.0.iter();
        let marks = marks.filter(|(_, seen)| *seen == Seen::Marked).count();
        assert!(marks > 0);
        assert_eq!(bench.element.counters().marked, marks as u64);
    }

    #[test]
    fn words_print_back() {
        for (words, printed) in [
            ("rate 50Mbit", "rate 50Mbit queue pfifo"),
            (
                "rate 10Mbit overhead 38 shaper queue bfifo limit 3000",
                "rate 10Mbit overhead 38 shaper queue bfifo limit 3000b",
            ),
        ] {
            let spec = ElementSpec::parse(words).unwrap();
            assert_eq!(ElementSpec::parse(&spec.to_string()).unwrap(), spec);
            assert!(spec.to_string().starts_with(&printed[..printed.len() - 1]));
        }
    }

    #[test]
    fn wrong_words_are_refused_at_their_place() {
        for (words, at) in [
            ("rate", ""),
            ("rate 0Mbit", "0Mbit"),
            ("rate -5Mbit", "-5Mbit"),
            ("rate 50", "50"),
            ("rate 50Mbit queue", ""),
            ("rate 50Mbit queue leaky_bucket", "leaky_bucket"),
            ("rate 50Mbit queue pfifo limit x", "x"),
            ("rate 50Mbit overhead 5000", "5000"),
            ("rate 50Mbit pfifo", "pfifo"),
            ("rat 50Mbit", "rat"),
            ("", ""),
        ] {
            let error = ElementSpec::parse(words).unwrap_err();
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
    }

    #[test]
    fn wrong_changes_are_found_before_the_run() {
        let spec = ElementSpec::parse("rate 50Mbit queue pfifo").unwrap();
        assert_eq!(spec.check_change("rate 10Mbit"), Ok(()));
        assert_eq!(spec.check_change("queue limit 5"), Ok(()));
        for words in ["", "rate 0bit", "delay 5ms", "queue", "queue target 5ms"] {
            assert!(spec.check_change(words).is_err(), "{words}");
        }
    }
}
