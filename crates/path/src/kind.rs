//! What each kind of element answers of itself: how its words are read, how it is built,
//! and what it does that others decide by.

use std::fmt;

use narrows_aqm::QueueSpec;
use narrows_core::Element;
use narrows_units::{Duration, Rate, WordError, Words};

use crate::ElementSpec;
use crate::mtu::MtuSpec;
use crate::recording::Recording;
use crate::spec::Site;

/// A kind of element: its parameters, as its words give them. No method has a default, so
/// that a new kind answers each question.
pub(crate) trait Kind: Clone + PartialEq + fmt::Debug + fmt::Display + Sized {
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
    /// Whether it gives packets other addresses, and so has to be in both directions.
    pub translates: bool,
    /// Whether it changes ECN codepoints without being congested.
    pub sets_ecn: bool,
    /// Whether it sends packets more than once.
    pub duplicates: bool,
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
        self.link.is_none() && self.tap.is_none() && !self.two_way
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
