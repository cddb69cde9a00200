//! `tbf`: a queue that lets packets go by a bucket of tokens, and by a second, smaller one at
//! a peak rate.
//!
//! Sources: Linux net/sched/sch_tbf.c v6.17; iproute2 tc/q_tbf.c. It shapes within the link
//! that it is a queue of, which has a rate of its own. `linklayer` and `mpu` are not here:
//! frames count what the link counts. A bucket that holds less than a frame drops all frames,
//! as in Linux.

use narrows_core::{DropCause, EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rate, Rng, Word, WordError, Words,
};

use crate::QueueSpec;
use crate::fifo::FifoConfig;
use crate::leaf::{self, Leaf};
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading::{self, Holds, Parameters, is, maybe, place_of};

/// Rates that tc hands over: whole bytes a second.
const RATE_ALLOWED: &str = "a rate of at least 8bit";
const SIZE_ALLOWED: &str = "a size from 1b to 4095Mb";

/// Parameters of `tbf`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TbfConfig {
    /// Rate at which tokens come; has to be given.
    pub rate: Rate,
    /// Bytes of tokens that the bucket holds; has to be given.
    pub burst: u32,
    /// Bytes that may wait; this or `latency` has to be given.
    pub limit: Option<u32>,
    /// How long a packet may wait for tokens.
    pub latency: Option<Duration>,
    /// Rate of the second bucket.
    pub peakrate: Option<Rate>,
    /// Bytes of the second bucket; has to be given with `peakrate`.
    pub mtu: Option<u32>,
    /// What waits for tokens; unset: a bfifo of `limit`.
    pub queue: Option<Box<QueueSpec>>,
}

impl TbfConfig {
    /// Bytes that may wait, as tc works them out.
    pub fn limit_bytes(&self) -> u64 {
        let of_latency = |rate: Rate, bucket: u32| {
            let latency = self.latency.unwrap_or_default();
            rate.bytes_in(latency) + u64::from(bucket)
        };
        match (self.limit, self.peakrate, self.mtu) {
            (Some(limit), ..) => u64::from(limit),
            (None, Some(peak), Some(mtu)) => {
                of_latency(self.rate, self.burst).min(of_latency(peak, mtu))
            }
            _ => of_latency(self.rate, self.burst),
        }
    }

    /// Greatest packet that passes.
    fn greatest(&self) -> u32 {
        match self.peakrate {
            Some(_) => self.burst.min(self.mtu.unwrap_or(u32::MAX)),
            None => self.burst,
        }
    }

    fn leaf(&self) -> QueueSpec {
        match &self.queue {
            Some(queue) => (**queue).clone(),
            None => QueueSpec::Bfifo(FifoConfig {
                limit: Some(Bytes::new(self.limit_bytes().clamp(1, u64::from(u32::MAX)))),
            }),
        }
    }
}

fn rate(words: &mut Words<'_>) -> Result<Rate, WordError> {
    words.value_where(RATE_ALLOWED, |rate: &Rate| rate.as_bytes() > 0)
}

fn size(words: &mut Words<'_>) -> Result<u32, WordError> {
    let size = words.value_where(SIZE_ALLOWED, |n: &Bytes| (1..1 << 32).contains(&n.get()))?;
    Ok(size.get() as u32)
}

const fn sized(usage: &'static str, default: &'static str, about: &'static str) -> Parameter {
    Parameter::new(usage, ParameterKind::Size, SIZE_ALLOWED, default, about)
}

impl Parameters for TbfConfig {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "rate RATE",
            ParameterKind::Rate,
            RATE_ALLOWED,
            "",
            "Rate at which tokens come",
        ),
        sized(
            "burst BYTES",
            "",
            "Bytes of tokens that the bucket holds; no greater packet passes",
        ),
        sized("limit BYTES", "that of latency", "Bytes that may wait"),
        Parameter::new(
            "latency TIME",
            ParameterKind::Time,
            crate::codel::TIME_ALLOWED,
            "that of limit",
            "How long a packet may wait for tokens",
        ),
        Parameter::new(
            "peakrate RATE",
            ParameterKind::Rate,
            RATE_ALLOWED,
            "none",
            "Rate of a second bucket, above the first",
        ),
        sized(
            "mtu BYTES",
            "none",
            "Bytes of the second bucket; no greater packet passes",
        ),
        Parameter::new(
            "queue (…)",
            ParameterKind::Words,
            leaf::ALLOWED,
            "a bfifo of limit bytes",
            "What waits for tokens, which a running queue keeps",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.rate),
            is(self.burst),
            maybe(self.limit),
            maybe(self.latency),
            maybe(self.peakrate),
            maybe(self.mtu),
            maybe(self.queue.as_ref().map(|queue| format!("({queue})"))),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "rate" => self.rate = rate(words)?,
            "burst" | "buffer" | "maxburst" => self.burst = size(words)?,
            "limit" => {
                self.limit = Some(size(words)?);
                self.latency = None;
            }
            "latency" => {
                self.latency = Some(crate::codel::time(words)?);
                self.limit = None;
            }
            "peakrate" => self.peakrate = Some(rate(words)?),
            "mtu" | "minburst" => self.mtu = Some(size(words)?),
            "queue" => self.queue = Some(Box::new(leaf::read(words)?)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What tc says is mandatory, each at most once, `limit` or `latency`, `mtu` beside a
    /// peak rate that is above the rate.
    fn check(&mut self, line: &str) -> Result<(), WordError> {
        let end = line.len();
        let missing = |what: &str| {
            let found = "the end of the line";
            Err(WordError::new(
                end..end,
                found,
                format!("tbf has `{what}` in any case"),
            ))
        };
        let keys = ["rate", "burst", "limit", "latency", "peakrate", "mtu"];
        for key in keys {
            reading::once(line, key)?;
        }
        let both = [place_of(line, "limit"), place_of(line, "latency")];
        if both.iter().all(|place| !place.is_empty()) {
            let [_, latency] = both;
            return Err(WordError::new(
                latency,
                "`latency` beside `limit`",
                "one of the two",
            ));
        }
        if self.rate.as_bits() == 0 {
            return missing("rate RATE");
        }
        if self.burst == 0 {
            return missing("burst BYTES");
        }
        if self.limit.is_none() && self.latency.is_none() {
            return missing("limit BYTES, or latency TIME");
        }
        match (self.peakrate, self.mtu) {
            (Some(_), None) => missing("mtu BYTES beside peakrate"),
            (Some(peak), _) if peak <= self.rate => Err(WordError::new(
                place_of(line, "peakrate"),
                format!("a peak rate of {peak}"),
                format!("one above the rate of {}", self.rate),
            )),
            _ => Ok(()),
        }
    }

    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        match old.leaf() == self.leaf() {
            true => Ok(()),
            false if old.queue != self.queue => Err(reading::kept(line, "queue", "as it is")),
            false => Err(reading::kept(line, "limit", old.limit_bytes())),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn shaped_to(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

/// How long `bytes` take at `rate`, in ns, rounded down as by `psched_l2t_ns`.
pub(crate) fn time_of(rate: Rate, bytes: u32) -> i64 {
    (u64::from(bytes) * 1_000_000_000 / rate.as_bytes().max(1)) as i64
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// The bucket fills beyond its size.
    Bottomless,
    /// A packet needs tokens for one byte alone, and owes the rest.
    Owes,
    /// The second bucket is not asked.
    NoPeak,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Tbf {
    config: TbfConfig,
    leaf: Leaf,
    /// Tokens of both buckets in ns of their rates, as of `checked`.
    tokens: i64,
    peak_tokens: i64,
    checked: Instant,
    /// Drops of packets that are greater than a bucket.
    meter: Meter,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Tbf {
    pub fn new(config: TbfConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let mut queue = Self {
            leaf: Leaf::new(&config.leaf(), entity, link, &mut rng),
            config,
            tokens: 0,
            peak_tokens: 0,
            checked: Instant::ZERO,
            meter: Meter::new(entity, link),
            #[cfg(test)]
            mutant: None,
        };
        queue.fill();
        queue
    }

    /// Fills both buckets.
    fn fill(&mut self) {
        self.tokens = self.depth();
        self.peak_tokens = self.peak().map_or(0, |(_, depth)| depth);
    }

    /// Tokens of the full first bucket.
    fn depth(&self) -> i64 {
        time_of(self.config.rate, self.config.burst)
    }

    /// The second bucket's rate and the tokens that it holds.
    fn peak(&self) -> Option<(Rate, i64)> {
        #[cfg(test)]
        if self.mutant == Some(Mutant::NoPeak) {
            return None;
        }
        let rate = self.config.peakrate?;
        Some((rate, time_of(rate, self.config.mtu.unwrap_or_default())))
    }

    /// What would be left in the buckets if a packet of `length` left now; less than nothing
    /// says how long it has to wait.
    fn left_after(&self, now: Instant, length: u32) -> (i64, i64) {
        let depth = self.depth();
        let passed = (now.since(self.checked).as_nanos() as i64).min(depth);
        let filled = (self.tokens + passed).min(depth);
        #[cfg(test)]
        let filled = match self.mutant {
            Some(Mutant::Bottomless) => self.tokens + now.since(self.checked).as_nanos() as i64,
            _ => filled,
        };
        #[cfg(test)]
        let length = match self.mutant {
            Some(Mutant::Owes) => 1,
            _ => length,
        };
        let first = filled - time_of(self.config.rate, length);
        let second = self.peak().map_or(0, |(rate, depth)| {
            (self.peak_tokens + passed).min(depth) - time_of(rate, length)
        });
        (first, second)
    }
}

impl Queue for Tbf {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if self.meter.length(&packet) > self.config.greatest() {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        self.leaf.enqueue(now, packet, out)
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        let length = self.leaf.peek(now, out)?;
        let (first, second) = self.left_after(now, length);
        if first < 0 || second < 0 {
            return None;
        }
        (self.tokens, self.peak_tokens) = (first, second);
        self.checked = now;
        self.leaf.dequeue(now, out)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        let at = self.leaf.next_dequeue(now)?;
        let Some(length) = self.leaf.peeked() else {
            return Some(at);
        };
        let (first, second) = self.left_after(now, length);
        let wait = (-first).max(-second).max(0);
        Some(at + Duration::from_nanos(wait as u64))
    }

    fn next_tick(&self) -> Option<Instant> {
        self.leaf.next_tick()
    }

    fn tick(&mut self, now: Instant) {
        self.leaf.tick(now);
    }

    fn counts(&self) -> QueueCounts {
        let mut counts = self.leaf.counts();
        counts.dropped += self.meter.counts.dropped;
        counts
    }

    fn link_rate_changed(&mut self, rate: Rate) {
        self.leaf.link_rate_changed(rate);
    }

    /// A change fills the buckets, as in Linux.
    fn change(&mut self, now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "tbf", words)?;
        self.checked = now;
        self.fill();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Ecn::NotEct;

    use super::*;
    use crate::testing::{Bench, ETHERNET, ms};

    fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
        let mut b = Bench::new(words);
        let words = words.strip_prefix("tbf").unwrap();
        let config = reading::fresh::<TbfConfig>(Words::new(words)).unwrap();
        let mut queue = Tbf::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        queue.mutant = mutant;
        queue.fill();
        b.queue = Box::new(queue);
        b
    }

    /// When each of the packets that waits leaves, from `now` on, in µs.
    fn leaves(b: &mut Bench, mut now: Instant) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            while b.take(now).is_some() {
                all.push(now.as_nanos() / 1_000);
            }
            match b.queue.next_dequeue(now) {
                Some(at) if at > now && all.len() < 100 => now = at,
                _ => return all,
            }
        }
    }

    /// 1 Mbit/s are 125 bytes in a millisecond.
    fn spends_its_bucket(mutant: Option<Mutant>) -> bool {
        let mut b = queue("tbf rate 1Mbit burst 2000 limit 1Mb", mutant);
        // The bucket is full however long nothing has come: 2000 bytes go, then 8 ms for 1000.
        (0..4).for_each(|_| assert!(b.offer(ms(1_000), 1, NotEct, 1_000).1));
        leaves(&mut b, ms(1_000)) == [1_000_000, 1_000_000, 1_008_000, 1_016_000]
    }

    #[test]
    fn a_full_bucket_goes_at_once_and_the_rest_at_the_rate() {
        assert!(spends_its_bucket(None));
        assert!(!spends_its_bucket(Some(Mutant::Bottomless)));
        assert!(!spends_its_bucket(Some(Mutant::Owes)));
    }

    fn keeps_its_peak(mutant: Option<Mutant>) -> bool {
        let mut b = queue(
            "tbf rate 1Mbit burst 4000 limit 1Mb peakrate 2Mbit mtu 1000",
            mutant,
        );
        (0..6).for_each(|_| assert!(b.offer(ms(100), 1, NotEct, 1_000).1));
        // At 250 bytes in a millisecond until the first bucket has no more; it has gained 1500
        // by then, so that seven could go.
        let at = leaves(&mut b, ms(100));
        at == [100_000, 104_000, 108_000, 112_000, 116_000, 120_000]
    }

    #[test]
    fn the_peak_rate_spreads_a_burst() {
        assert!(keeps_its_peak(None));
        assert!(!keeps_its_peak(Some(Mutant::NoPeak)));
    }

    #[test]
    fn a_packet_greater_than_a_bucket_is_dropped() {
        let mut b = queue("tbf rate 1Mbit burst 1000 limit 1Mb", None);
        assert!(!b.offer(ms(1), 1, NotEct, 1_001).1);
        assert!(b.offer(ms(1), 1, NotEct, 1_000).1);
        let mut b = queue(
            "tbf rate 1Mbit burst 4000 limit 1Mb peakrate 2Mbit mtu 999",
            None,
        );
        assert!(!b.offer(ms(1), 1, NotEct, 1_000).1);
        assert_eq!(b.queue.counts().dropped, 1);
    }

    #[test]
    fn latency_is_a_limit_and_a_leaf_replaces_the_bfifo() {
        let limit = |words: &str| {
            let config = reading::fresh::<TbfConfig>(Words::new(words)).unwrap();
            config.limit_bytes()
        };
        // 125000 bytes a second for 50 ms, and the bucket.
        assert_eq!(limit("rate 1Mbit burst 2000 latency 50ms"), 8_250);
        let peak = "rate 1Mbit burst 9000 latency 50ms peakrate 1.1Mbit mtu 1500";
        assert_eq!(limit(peak), 6_875 + 1_500);
        let words = "tbf rate 1Mbit burst 2000 limit 3000 queue (pfifo limit 2)";
        let mut b = queue(words, None);
        let taken = (0..4).filter(|_| b.offer(ms(1), 1, NotEct, 1_000).1);
        assert_eq!(taken.count(), 2);
    }

    #[test]
    fn what_tc_and_the_kernel_refuse_is_refused() {
        let refused = |words: &str| {
            let e = QueueSpec::parse(words).unwrap_err();
            (words[e.span].to_owned(), e.allowed)
        };
        assert!(refused("tbf burst 2000 limit 3000").1.contains("rate"));
        assert!(refused("tbf rate 1Mbit limit 3000").1.contains("burst"));
        assert!(refused("tbf rate 1Mbit burst 2000").1.contains("latency"));
        assert_eq!(
            refused("tbf rate 1Mbit burst 2000 limit 9 latency 1s").0,
            "latency"
        );
        assert_eq!(
            refused("tbf rate 1Mbit rate 2Mbit burst 2000 limit 9").0,
            "rate"
        );
        assert!(
            refused("tbf rate 1Mbit burst 9 limit 9 peakrate 2Mbit")
                .1
                .contains("mtu")
        );
        let low = "tbf rate 1Mbit burst 9 limit 9 peakrate 1Mbit mtu 9";
        assert_eq!(refused(low).0, "peakrate");
    }

    #[test]
    fn a_change_fills_the_bucket_and_keeps_what_waits() {
        let mut b = queue("tbf rate 1Mbit burst 2000 limit 1Mb", None);
        (0..4).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, 1_000).1));
        (0..2).for_each(|_| assert!(b.take(ms(1)).is_some()));
        assert!(b.take(ms(1)).is_none());
        b.queue.change(ms(1), "tbf rate 2Mbit").unwrap();
        assert_eq!(leaves(&mut b, ms(1)), [1_000, 1_000]);
        for (words, key) in [
            ("limit 5", "limit"),
            ("queue (codel)", "queue"),
            ("limit 5 queue (codel)", "queue"),
        ] {
            let e = b.queue.change(ms(1), words).unwrap_err();
            assert_eq!(&words[e.span], key, "{words}");
        }
    }

    #[test]
    fn a_packet_that_was_looked_at_counts_and_a_better_band_overtakes_it() {
        // 86 bytes of tokens are left after the first frame, so that the second one waits.
        let words = "tbf rate 1Mbit burst 1600 limit 1Mb queue";
        let taken = |leaf: &str| {
            let mut b = queue(&format!("{words} ({leaf})"), None);
            let take = |b: &mut Bench| b.take(ms(1)).is_some();
            assert!(b.offer(ms(1), 1, NotEct, 1_514).1 && take(&mut b));
            assert!(b.offer(ms(1), 1, NotEct, 1_514).1 && !take(&mut b));
            (0..4)
                .filter(|_| b.offer(ms(1), 1, NotEct, 1_514).1)
                .count()
        };
        for leaf in [
            "pfifo limit 3",
            "codel limit 3",
            "sfq limit 3",
            "pie limit 3",
            "fq_pie limit 3",
            "pi2 limit 3",
            "dualpi2 limit 3",
            "red limit 4542 min 3000 max 4500 avpkt 1000 burst 50",
        ] {
            assert_eq!(taken(leaf), 2, "{leaf}");
        }
        let mut b = queue(&format!("{words} (prio)"), None);
        b.offer_class(ms(1), 1, 0, 1_514);
        assert_eq!(b.take(ms(1)).map(|t| t.flow), Some(1));
        b.offer_class(ms(1), 2, 0, 1_514);
        assert!(b.take(ms(1)).is_none());
        b.offer_class(ms(1), 3, 0x10, 1_514);
        assert_eq!(b.take(ms(20)).map(|t| t.flow), Some(3));
        assert_eq!(b.take(ms(40)).map(|t| t.flow), Some(2));
    }
}
