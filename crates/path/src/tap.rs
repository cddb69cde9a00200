//! An observation point.

use std::fmt;

use narrows_core::{Change, Element, ElementCounters, EntityId, Event, Outlet, Packet, Port};
use narrows_units::{Duration, Instant, Parameter, ParameterKind, WordError, Words};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports, require_end};
use crate::site::Site;

/// `tap NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSpec {
    /// The observation point's name.
    pub name: String,
}

const NAME: &str = "a name for the observation point: letters, digits, `-`, `_`, `.`";

impl Kind for TapSpec {
    const PARAMETERS: &'static [Parameter] = &[Parameter::new(
        "NAME",
        ParameterKind::Words,
        NAME,
        "",
        "The name of the observation point",
    )];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let name = words.needed(NAME)?;
        let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        if !name.text.chars().all(fits) {
            return Err(name.refused(NAME));
        }
        require_end(words.clone())?;
        Ok(Self {
            name: name.text.to_owned(),
        })
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(Tap::new(site.entity, site.forward))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: false,
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: Some(&self.name),
            reports: Reports::Nothing,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        Duration::ZERO
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for TapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tap {}", self.name)
    }
}

/// Reports each packet and lets it pass at once. The taps of one name in both
/// directions are one observation point and report by one entity.
#[derive(Clone, Debug)]
pub struct Tap {
    entity: EntityId,
    forward: bool,
    counters: ElementCounters,
}

impl Tap {
    /// A tap that reports as `entity`, in the link's up direction or not.
    pub fn new(entity: EntityId, forward: bool) -> Self {
        Self {
            entity,
            forward,
            counters: ElementCounters::default(),
        }
    }
}

impl Element for Tap {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        pass(&mut self.counters, &packet);
        out.events.record(
            now,
            Event::Tapped {
                tap: self.entity,
                forward: self.forward,
                packet: &packet,
            },
        );
        out.send(0, packet);
    }

    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        Err(nothing_to_change(&change.words, "a tap"))
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

/// Counts a packet in and out of an element that never holds one.
pub(crate) fn pass(counters: &mut ElementCounters, packet: &Packet) {
    let bytes = u64::from(packet.len());
    counters.packets_in += 1;
    counters.bytes_in += bytes;
    counters.packets_out += 1;
    counters.bytes_out += bytes;
}

pub(crate) fn nothing_to_change(words: &str, what: &str) -> WordError {
    WordError::new(
        0..words.len(),
        format!("`{words}`"),
        format!("no change: {what} has no parameters"),
    )
}

#[cfg(test)]
mod tests {
    use crate::ElementSpec;
    use crate::testing::{Bench, Seen, ms};

    #[test]
    fn what_passes_is_reported_with_its_direction_and_leaves_at_once() {
        let mut bench = Bench::new("tap mid");
        bench.offer(ms(3), 100, 0);
        assert_eq!(bench.left, [(0, ms(3), 0)]);
        assert_eq!(bench.record.0, [(ms(3), Seen::Tapped(true))]);
        bench.check_conservation();
    }

    #[test]
    fn its_name_has_letters_digits_and_three_signs() {
        for (words, fits) in [
            ("tap a-b_c.1", true),
            ("tap a/b", false),
            ("tap", false),
            ("tap a b", false),
        ] {
            assert_eq!(ElementSpec::parse(words).is_ok(), fits, "{words}");
        }
    }
}
