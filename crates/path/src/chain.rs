//! Boxes one after the other, as one box.

use narrows_packet::{Change, Element, ElementCounters, EventSink, Outlet, Packet, Port};
use narrows_units::{Instant, WordError};

/// A one-way chain of elements: what the first lets out, the second takes.
/// Empty, it is a plain wire.
#[derive(Default)]
pub struct Chain {
    elements: Vec<Box<dyn Element>>,
    /// What the stage just run has let out, and what it had been given; kept
    /// so that a packet costs no allocation.
    given: Vec<(Port, Box<Packet>)>,
    passed: Vec<(Port, Box<Packet>)>,
    taken: (u64, u64),
    let_out: (u64, u64),
}

impl Chain {
    /// The chain of `elements` in the order of travel.
    pub fn new(elements: Vec<Box<dyn Element>>) -> Self {
        Self {
            elements,
            ..Self::default()
        }
    }

    /// Runs what lies in `passed` through the stages from `from` on and lets
    /// the rest out.
    fn run_from(&mut self, now: Instant, from: usize, out: &mut Outlet<'_>) {
        for element in &mut self.elements[from..] {
            if self.passed.is_empty() {
                return;
            }
            std::mem::swap(&mut self.given, &mut self.passed);
            let mut inner = Outlet {
                pool: out.pool,
                events: out.events,
                sent: &mut self.passed,
            };
            for (port, packet) in self.given.drain(..) {
                element.push(now, port, packet, &mut inner);
            }
        }
        let before = out.sent.len();
        out.sent.append(&mut self.passed);
        self.count_out(before, out);
    }

    /// Counts what `out` has got since it held `before` packets.
    fn count_out(&mut self, before: usize, out: &Outlet<'_>) {
        for (_, packet) in &out.sent[before..] {
            self.let_out.0 += 1;
            self.let_out.1 += u64::from(packet.len());
        }
    }
}

impl Element for Chain {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.taken.0 += 1;
        self.taken.1 += u64::from(packet.len());
        if let [only] = &mut self.elements[..] {
            let before = out.sent.len();
            only.push(now, port, packet, out);
            self.count_out(before, out);
            return;
        }
        self.passed.push((port, packet));
        self.run_from(now, 0, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.elements.iter().filter_map(|e| e.next_wake()).min()
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if let [only] = &mut self.elements[..] {
            let before = out.sent.len();
            only.wake(now, out);
            self.count_out(before, out);
            return;
        }
        for i in 0..self.elements.len() {
            let element = &mut self.elements[i];
            if element.next_wake().is_none_or(|t| t > now) {
                continue;
            }
            element.wake(
                now,
                &mut Outlet {
                    pool: out.pool,
                    events: out.events,
                    sent: &mut self.passed,
                },
            );
            self.run_from(now, i + 1, out);
        }
    }

    /// A change for each element, separated by `|`; an empty one changes
    /// nothing.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let parts = split_chain(&change.words);
        if parts.len() > self.elements.len() {
            let (text, start) = parts[self.elements.len()];
            return Err(WordError::new(
                start..start + text.len(),
                format!("`{text}`"),
                format!("changes for at most {} elements", self.elements.len()),
            ));
        }
        for (element, (text, start)) in self.elements.iter_mut().zip(parts) {
            if !text.is_empty() {
                let words = text.to_owned();
                element
                    .change(now, &Change { words })
                    .map_err(|e| e.shifted(start))?;
            }
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        let mut counters = ElementCounters {
            packets_in: self.taken.0,
            bytes_in: self.taken.1,
            packets_out: self.let_out.0,
            bytes_out: self.let_out.1,
            ..ElementCounters::default()
        };
        for element in &self.elements {
            let inner = element.counters();
            counters.dropped += inner.dropped;
            counters.marked += inner.marked;
        }
        counters
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for element in &self.elements {
            element.sample(now, events);
        }
    }
}

/// The parts of `line` between the `|` that stand outside parentheses, trimmed,
/// each with its place.
pub(crate) fn split_chain(line: &str) -> Vec<(&str, usize)> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0u32, 0);
    let mut take = |from: usize, to: usize| {
        let part = &line[from..to];
        let start = from + (part.len() - part.trim_start().len());
        parts.push((part.trim(), start));
    };
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => {
                take(from, at);
                from = at + 1;
            }
            _ => {}
        }
    }
    take(from, line.len());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_splits_at_the_outer_bars_only() {
        assert_eq!(
            split_chain(" a b|c (d | e) | f"),
            vec![("a b", 1), ("c (d | e)", 5), ("f", 17)]
        );
        assert_eq!(split_chain(""), vec![("", 0)]);
    }
}
