//! What is known of a path.

use std::fmt;
use std::net::IpAddr;

use crate::probe::Way;

/// What can be said of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stands on the path, or one that does the same.
    Found,
    /// What it would do did not happen.
    NotFound,
    /// Neither can be said.
    Unknown,
}

/// A place on a path, by hops from the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// 0 is the sender; one more than there are routers, the receiver.
    pub number: u8,
    /// The router's address, where it answered.
    pub address: Option<IpAddr>,
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "hop {} ({address})", self.number),
            None => write!(f, "hop {}", self.number),
        }
    }
}

/// Between which hops a box stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The last one at which packets were as they had been sent.
    pub after: Hop,
    /// The first one at which they were not.
    pub before: Hop,
}

/// What is said of one box and one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The box's name in the catalogue.
    pub name: &'static str,
    /// Of the packets that it changes or drops.
    pub way: Way,
    /// Whether it is there.
    pub verdict: Verdict,
    /// Why that is said.
    pub evidence: String,
    /// Where it is, if it was found and routers answered.
    pub place: Option<Place>,
}

/// A change that no box of the catalogue makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherChange {
    /// Which way.
    pub way: Way,
    /// The field, in the words of rules; `payload` where a message was altered.
    pub field: &'static str,
    /// Packets that came so.
    pub packets: u32,
}

/// What was found out about a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// Whether a responder answered. Without one there are only quotations.
    pub responder: bool,
    /// Routers on the way there and back, where known.
    pub hops: [Option<u8>; 2],
    /// Probes sent that were to go all the way, there and back.
    pub sent: [u32; 2],
    /// Of these, those that came.
    pub came: [u32; 2],
    /// Each box in each way, in the order of the catalogue.
    pub findings: Vec<Finding>,
    /// What else was changed.
    pub others: Vec<OtherChange>,
    /// Why not all was done that was to be.
    pub cut_short: Option<&'static str>,
}
