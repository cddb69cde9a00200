//! Boxes that are ready to use, by name.

/// A box: its name, what it is, and its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyBox {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Its commands.
    pub rules: &'static str,
}

macro_rules! ready {
    ($($name:literal: $about:literal),* $(,)?) => {
        &[$(ReadyBox {
            name: $name,
            about: $about,
            rules: include_str!(concat!("../boxes/", $name, ".mmb")),
        }),*]
    };
}

/// All ready boxes.
pub const READY: &[ReadyBox] = ready![
    "ecn-bleach": "clears the ECN field",
    "ect1-to-ect0": "turns ECT(1) into ECT(0)",
    "ce-strip": "turns CE back into ECT(0)",
    "accecn-option-strip": "removes the AccECN option",
    "reserved-clear": "clears the TCP bits that were reserved before AccECN",
    "mss-clamp": "limits the MSS option to 1400",
    "option-allow-list": "removes TCP options other than those of 1996: MSS, window scale, SACK, timestamps",
    "snat": "gives packets from inside its own address and a drawn port",
    "sequence-shuffle": "shifts TCP sequence numbers of both directions",
    "reflexive-firewall": "lets in only what answers what went out, and what IPv6 needs on a link",
    "udp-block": "drops UDP",
    "syn-data-drop": "drops a SYN that carries data",
    "spin-clear": "clears the spin bit of QUIC's short headers",
];

impl ReadyBox {
    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        READY.iter().copied().find(|ready| ready.name == name)
    }
}
