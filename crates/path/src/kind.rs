//! What each kind of element answers of itself: how its words are read, how it is built,
//! and what it does that others decide by.

use std::fmt;

use narrows_aqm::QueueSpec;
use narrows_core::Element;
use narrows_units::{Duration, Parameter, Rate, WordError, Words};

use crate::ElementSpec;
use crate::mtu::MtuSpec;
use crate::recording::Recording;
use crate::site::Site;

/// A kind of element: its parameters, as its words give them. No method has a default, so
/// that a new kind answers each question.
pub(crate) trait Kind: Clone + PartialEq + fmt::Debug + fmt::Display + Sized {
    /// All that may follow the kind's own words, in the order in which lists have it.
    const PARAMETERS: &'static [Parameter];

    /// Reads what follows the kind's own words.
    ///
    /// # Errors
    /// When they are not this kind's; the span is that in the element's line.
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError>;

    /// What the same words make of the element `before`, over which they are laid: what they
    /// do not name stays, where the kind keeps anything.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError>;

    /// The box itself, at its place.
    fn build(&self, site: &Site<'_>) -> Box<dyn Element>;

    /// What it is to those who do not know its kind.
    fn facts(&self) -> Facts<'_>;

    /// How long a packet of `mtu` bytes of IP with the code point `dscp` takes through it
    /// while it is empty, jitter left out.
    fn base_delay(&self, dscp: u8, mtu: u32) -> Duration;

    /// The file that it takes something from, if it names one.
    fn file(&mut self) -> Option<&mut dyn NamesFile>;
}

/// How those of `parameters` that have a name are written, for a refusal.
pub(crate) fn usages<'a>(parameters: impl IntoIterator<Item = &'a Parameter>) -> String {
    let usages: Vec<_> = Parameter::usages(parameters).collect();
    match usages.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{}, or {last}", others.join(", "))
        }
        _ => usages.concat(),
    }
}

/// What an element is to those who do not know its kind. Each kind answers every field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts<'a> {
    /// The link that it is, if its rate is limited.
    pub link: Option<LimitedLink<'a>>,
    /// Whether it ever lets a packet out later than it came, or takes only so many in a
    /// time.
    pub holds_back: bool,
    /// Whether the one in `up` and the one of the same name in `down` are one box, which
    /// sees both directions.
    pub two_way: bool,
    /// Whether it is a node of its own, with a port for each link that begins there.
    pub node: bool,
    /// Whether it gives packets other addresses, and so has to be in both directions.
    pub translates: bool,
    /// Whether it is an end of a tunnel, so that what is behind it sees other headers.
    pub wraps: bool,
    /// Whether it changes ECN codepoints without being congested.
    pub sets_ecn: bool,
    /// Whether it sends packets more than once.
    pub duplicates: bool,
    /// Whether it changes bits of packets that no checksum knows of.
    pub corrupts: bool,
    /// The longest packet that it passes, if that is what it is for.
    pub mtu: Option<MtuSpec>,
    /// The observation point that it is, by name.
    pub tap: Option<&'a str>,
    /// Which counters it reports.
    pub reports: Reports,
}

impl Facts<'_> {
    /// Whether it may be one of several for a class of packets, without a name or a queue
    /// of its own in reports.
    pub(crate) fn nests(&self) -> bool {
        self.link.is_none() && self.tap.is_none() && !self.two_way && !self.node
    }
}

/// A link of limited rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitedLink<'a> {
    /// The rate when a run begins.
    pub rate: LinkRate<'a>,
    /// Bytes that it counts for each packet above its IP length.
    pub overhead: u32,
    /// The queue in front of it.
    pub queue: &'a QueueSpec,
    /// Whether others take of the rate, so that it may be full while it is little used.
    pub shared: bool,
}

/// Which rate a link has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkRate<'a> {
    /// This one, until it is changed.
    Constant(Rate),
    /// What a recording says.
    Recorded(&'a Recording),
}

/// Which counters an element reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Those of a queue.
    Queue,
    /// Packets in and out, marks, drops.
    Packets,
    /// None: what it sees is reported otherwise.
    Nothing,
}

/// A kind of element that takes something from a file, which a scenario's check reads.
pub trait NamesFile {
    /// The file's name, as it is written.
    fn name(&self) -> &str;

    /// What such a file is called in a refusal.
    fn what(&self) -> &'static str;

    /// What is allowed there, for a refusal.
    fn allowed(&self) -> &'static str;

    /// Takes the contents.
    ///
    /// # Errors
    /// What is wrong in it, with its line.
    fn read(&mut self, text: &str) -> Result<(), String>;
}

/// Refuses words after the last one.
pub(crate) fn require_end(words: Words<'_>) -> Result<(), WordError> {
    words.finish("the end of the element")
}

#[cfg(test)]
mod tests {
    use narrows_units::{Declared, Parameter, ParameterKind};

    use super::usages;
    use crate::{ELEMENT_KINDS, ELEMENTS, ElementSpec};

    /// Words that make an element of this kind.
    fn smallest(kind: &str) -> &'static str {
        match kind {
            "rate" => "rate 1Mbit",
            "rate trace" => "rate trace a.csv",
            "netem" => "netem delay 10ms 1ms reorder 1%",
            "wifi" => "wifi mcs 7",
            "wifi ap" => "wifi ap mcs 7",
            "netem trace" => "netem trace a.csv",
            "remark" => "remark",
            "by" => "by dscp cs1 ()",
            "police" => "police rate 1Mbit burst 10kb",
            "mtu" => "mtu 1400",
            "mmb" => "mmb snat",
            "nat" => "nat",
            "tunnel" => "tunnel wireguard",
            "switch" => "switch buffer 1mb",
            "cell" => "cell blocks 6 cqi 15",
            "tap" => "tap mid",
            _ => panic!("{kind} has no example here"),
        }
    }

    /// What is refused somewhere: no value, too small, too large.
    const WRONG: [&str; 5] = ["@", "0bit", "0%", "0", "4294967295"];

    #[test]
    fn usages_are_a_list_of_any_length() {
        let named = |usage| Parameter::new(usage, ParameterKind::Words, "", "", "");
        let [a, b, c] = ["a X", "b Y", "c Z"].map(named);
        assert_eq!(usages([]), "");
        assert_eq!(usages([&a]), "a X");
        assert_eq!(usages([&a, &b, &c]), "a X, b Y, or c Z");
    }

    #[test]
    fn each_kind_declares_what_it_reads() {
        for Declared {
            name,
            about,
            parameters,
        } in ELEMENT_KINDS
        {
            assert!(ELEMENTS.iter().any(|word| name.starts_with(word)), "{name}");
            assert!(about.ends_with('.'), "{name}: {about}");
            for p in *parameters {
                let line = format!("{} {}", smallest(name), p.usage);
                assert!(!p.about.is_empty() && !p.about.ends_with('.'), "{line}");
                if p.kind == ParameterKind::Flag {
                    assert!(ElementSpec::parse(&line).is_ok(), "{line}");
                    continue;
                }
                // Queues and classes have parameters of their own, and a file may have any name.
                let first = p.names().next();
                let open = first == Some("queue") || first == Some("trace");
                if first.is_none() || open || *name == "by" {
                    continue;
                }
                let words = p
                    .usage
                    .split(' ')
                    .take_while(|w| w.starts_with(|c: char| c.is_ascii_lowercase()));
                let words = words.collect::<Vec<_>>().join(" ");
                let refusals: Vec<_> = WRONG
                    .iter()
                    .filter_map(|wrong| {
                        let line = format!("{} {words} {wrong}", smallest(name));
                        ElementSpec::parse(&line).err().map(|e| e.allowed)
                    })
                    .collect();
                assert!(
                    refusals.iter().any(|allowed| allowed == p.allowed),
                    "{line}: {refusals:?}"
                );
            }
        }
    }

    #[test]
    fn a_refusal_names_what_is_declared() {
        for (words, allowed) in [
            ("police x", "rate RATE, burst BYTES, overhead BYTES, or ecn"),
            ("remark x", "if dscp D, if ecn E, dscp D, or ecn E"),
            ("rate 1Mbit x", "overhead BYTES, shaper, or queue QUEUE …"),
            ("rate trace a x", "overhead BYTES, or queue QUEUE …"),
            (
                "rate trace a.csv x",
                "scale PERCENT, overhead BYTES, or queue QUEUE …",
            ),
            (
                "netem x",
                "delay, distribution, ordered, loss, ecn, duplicate, corrupt, reorder, gap, slot or limit",
            ),
        ] {
            assert_eq!(
                ElementSpec::parse(words).unwrap_err().allowed,
                allowed,
                "{words}"
            );
        }
    }

    #[test]
    fn a_line_over_another_kind_keeps_what_both_have() {
        let over = |before: &str, words: &str| {
            let before = ElementSpec::parse(before).unwrap();
            before.overlaid(words).unwrap().to_string()
        };
        let trace = over("rate 1Mbit overhead 38 queue codel", "rate trace a.csv");
        assert_eq!(trace, "rate trace a.csv queue codel");
        assert_eq!(over(&trace, "rate 2Mbit"), "rate 2Mbit queue codel");
        assert_eq!(
            over("netem delay 5ms loss 1%", "netem delay 6ms"),
            "netem delay 6ms loss random 1%"
        );
        assert_eq!(over("netem delay 5ms", "mtu 1400"), "mtu 1400");
    }
}
