//! Boxes one after the other.

use narrows_core::{Change, Element, Outlet, Packet, Port};
use narrows_units::{Instant, WordError};

/// A one-way chain of elements: what the first lets out, the second takes.
/// Empty, it is a plain wire.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) elements: Vec<Box<dyn Element>>,
    /// What the stage just run has let out, and what it had been given; kept
    /// so that a packet costs no allocation.
    given: Vec<(Port, Box<Packet>)>,
    passed: Vec<(Port, Box<Packet>)>,
}

impl Chain {
    /// The chain of `elements` in the order of travel.
    pub(crate) fn new(elements: Vec<Box<dyn Element>>) -> Self {
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
        out.sent.append(&mut self.passed);
    }

    /// Takes a packet into the first element.
    #[inline]
    pub(crate) fn push(
        &mut self,
        now: Instant,
        port: Port,
        packet: Box<Packet>,
        out: &mut Outlet<'_>,
    ) {
        if let [only] = &mut self.elements[..] {
            only.push(now, port, packet, out);
            return;
        }
        self.passed.push((port, packet));
        self.run_from(now, 0, out);
    }

    /// When the first of the elements wants to be woken.
    #[inline]
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        match &self.elements[..] {
            [only] => only.next_wake(),
            all => all.iter().filter_map(|e| e.next_wake()).min(),
        }
    }

    /// Wakes the elements that are due.
    #[inline]
    pub(crate) fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if let [only] = &mut self.elements[..] {
            only.wake(now, out);
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
    pub(crate) fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
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
                    .change(now, &Change { words, port: 0 })
                    .map_err(|e| e.shifted(start))?;
            }
        }
        Ok(())
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
