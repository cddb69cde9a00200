//! What is asked of the flows of a mix between hosts by label or kind: code points, ECN and congestion
//! control; and what became of marks.

use std::fmt;
use std::str::FromStr;

use narrows_quic::QuicControl;
use narrows_results::Error;
use narrows_traffic::{DSCP, FlowSet, Mix, Sends, dscp};
use narrows_wire::Ecn;
use serde::Serialize;

/// What is asked of all flows, or of those of one label or kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark<T> {
    /// The label or kind; `None` of all.
    pub of: Option<String>,
    /// What they bear or have.
    pub value: T,
}

/// A code point, 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePoint(pub u8);

/// The congestion control of connections: by the kernel's name, or one of QUIC's, which makes them QUIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlName(pub String);

/// Whether flows are capable of ECN: the codepoint of datagrams. Connections ask for ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capable {
    /// ECT(0), RFC 3168.
    Ect0,
    /// ECT(1), RFC 9331; of datagrams alone.
    Ect1,
}

impl FromStr for CodePoint {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        dscp(word)
            .map(Self)
            .ok_or_else(|| format!("allowed: {DSCP}"))
    }
}

impl fmt::Display for CodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ControlName {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word.starts_with("quic") {
            QuicControl::parse(word).map_err(|error| error.to_string())?;
        }
        Ok(Self(word.to_owned()))
    }
}

impl fmt::Display for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Capable {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "ect0" => Ok(Self::Ect0),
            "ect1" => Ok(Self::Ect1),
            _ => Err("allowed: ect0 or ect1".to_owned()),
        }
    }
}

impl fmt::Display for Capable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ect0 => "ect0",
            Self::Ect1 => "ect1",
        })
    }
}

impl Capable {
    /// The ECN field.
    pub(super) const fn ecn(self) -> Ecn {
        match self {
            Self::Ect0 => Ecn::Ect0,
            Self::Ect1 => Ecn::Ect1,
        }
    }
}

/// `VALUE` or `LABEL=VALUE`.
impl<T: FromStr<Err = String>> FromStr for Mark<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of, value) = match text.rsplit_once('=') {
            Some((of, value)) => (Some(of.to_owned()), value),
            None => (None, text),
        };
        Ok(Self {
            of,
            value: value.parse()?,
        })
    }
}

impl<T: Clone + fmt::Display> Mark<T> {
    fn names(&self, set: &FlowSet) -> bool {
        let of = self.of.as_deref();
        of.is_none_or(|of| of == set.label || of == set.kind)
    }

    /// What `marks` ask of a set: the last that names it goes before the last of all.
    pub(super) fn of_set(marks: &[Self], set: &FlowSet) -> Option<T> {
        let mut fitting = marks.iter().rev().filter(|mark| mark.names(set));
        let named = fitting.clone().find(|mark| mark.of.is_some());
        named
            .or_else(|| fitting.next())
            .map(|mark| mark.value.clone())
    }

    /// Refuses a mark of `option` that names none of the `sets` of the mix that it is for: its `what`.
    pub(super) fn check<'m>(
        marks: &[Self],
        option: &str,
        what: &str,
        sets: impl Iterator<Item = &'m FlowSet> + Clone,
    ) -> Result<(), Error> {
        let nowhere = |mark: &&Self| mark.of.is_some() && !sets.clone().any(|set| mark.names(set));
        let Some(mark) = marks.iter().find(nowhere) else {
            return Ok(());
        };
        let of = mark.of.as_deref().unwrap_or_default();
        let mut there: Vec<_> = sets.clone().map(|set| set.label.as_str()).collect();
        there.dedup();
        if there.is_empty() {
            there.push("none");
        }
        Err(Error::Refused(format!(
            "`{option} {of}={}`: the mix has no {what} `{of}`, but {}",
            mark.value,
            there.join(", ")
        )))
    }
}

/// Refuses what cannot be carried: ECT(1) of connections, and ECN where this host does not ask for it.
pub(super) fn check(
    mix: &Mix,
    asked: impl Fn(&FlowSet) -> Option<Capable>,
    by_quic: impl Fn(&FlowSet) -> bool,
    host_asks: impl FnOnce() -> bool,
) -> Result<(), Error> {
    let connections = |set: &&FlowSet| !matches!(set.sends, Sends::Datagrams { .. });
    let asking = || mix.sets.iter().filter(connections);
    if let Some(set) = asking().find(|set| asked(set) == Some(Capable::Ect1)) {
        if by_quic(set) {
            return Err(Error::Refused(format!(
                "`--ecn ect1` of `{0}`, whose flows are QUIC: its packets have ECT(0) \
                 (say `--ecn {0}=ect0`, or name flows of datagrams)",
                set.label
            )));
        }
        return Err(Error::Refused(format!(
            "`--ecn ect1` of `{0}`, whose flows are connections: the kernel chooses their codepoint \
             by the congestion control (say `--ecn {0}=ect0`, which asks for ECN, or name flows of datagrams)",
            set.label
        )));
    }
    let mut of_kernel = asking().filter(|set| !by_quic(set));
    if let Some(set) = of_kernel.find(|set| asked(set).is_some()) {
        if !host_asks() {
            return Err(Error::Refused(format!(
                "`--ecn` of `{}`, whose flows are connections: this host does not ask for ECN \
                 (`sysctl -w net.ipv4.tcp_ecn=1` has it ask, or name flows of datagrams alone)",
                set.label
            )));
        }
    }
    Ok(())
}

/// What datagrams bore when they arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArrivedMarks {
    /// With CE: marked by a queue.
    pub ce: u64,
    /// Sent as capable of ECN, and arrived as not capable, or with the other codepoint.
    pub ecn_changed: u64,
    /// With another code point than they were sent with.
    pub dscp_changed: u64,
}

impl ArrivedMarks {
    /// Notes a datagram that was `sent` with a traffic class and `arrived` with another.
    pub(super) fn note(&mut self, sent: u8, arrived: u8) {
        let ecn = Ecn::from_bits(arrived);
        self.ce += u64::from(ecn == Ecn::Ce);
        self.ecn_changed += u64::from(ecn != Ecn::Ce && ecn != Ecn::from_bits(sent));
        self.dscp_changed += u64::from(arrived >> 2 != sent >> 2);
    }

    /// Adds those of another flow.
    pub(super) fn add(&mut self, other: Self) {
        self.ce += other.ce;
        self.ecn_changed += other.ecn_changed;
        self.dscp_changed += other.dscp_changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIX: &str = "total-bandwidth: 12.5MB\ntotal-time: 10s\nflows:
  - {kind: realtime-audio, percent-bandwidth: 5%, ports-range: 5000-5999, props: {label: voice}}
  - {kind: web-page, percent-bandwidth: 25%, ports-range: 6000-6999, props: {label: page}}
";

    fn mix() -> Mix {
        Mix::read("mix.yaml", MIX).unwrap()
    }

    fn marks<T: FromStr<Err = String>>(texts: &[&str]) -> Vec<Mark<T>> {
        let marks = texts.iter().map(|text| text.parse());
        marks.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_mark_of_a_label_or_kind_goes_before_that_of_all() {
        let mix = mix();
        let of = |texts: &[&str]| -> Vec<_> {
            let marks: Vec<Mark<CodePoint>> = marks(texts);
            let of = |set| Mark::of_set(&marks, set).map(|point| point.0);
            mix.sets.iter().map(of).collect()
        };
        assert_eq!(of(&["ef"]), [Some(46), Some(46)]);
        assert_eq!(of(&["voice=ef", "10"]), [Some(46), Some(10)]);
        assert_eq!(
            of(&["realtime-audio=46", "page=cs1", "page=af11"]),
            [Some(46), Some(10)]
        );
        assert_eq!(of(&["page=0"]), [None, Some(0)]);
        for wrong in ["64", "voice=", "voice=ff", "=", "-1"] {
            assert!(wrong.parse::<Mark<CodePoint>>().is_err(), "{wrong}");
        }
        assert!("voice=ce".parse::<Mark<Capable>>().is_err());
    }

    #[test]
    fn a_mark_of_flows_that_are_not_there_is_refused() {
        let check = |texts: &[&str]| {
            let marks: Vec<Mark<CodePoint>> = marks(texts);
            let checked = Mark::check(&marks, "--dscp", "flows", mix().sets.iter());
            checked.map_err(|e| e.to_string())
        };
        assert_eq!(check(&["5", "voice=5", "web-page=5"]), Ok(()));
        let why = check(&["voice=5", "pages=ef"]).unwrap_err();
        let said = "`--dscp pages=46`: the mix has no flows `pages`, but voice, page";
        assert!(why.contains(said), "{why}");
        // Datagrams have no congestion control.
        let cc: Vec<Mark<ControlName>> = marks(&["voice=cubic"]);
        let (mix, is_page) = (mix(), |set: &&FlowSet| set.label == "page");
        let pages = mix.sets.iter().filter(is_page);
        let why = Mark::check(&cc, "--cc", "connections", pages).unwrap_err();
        let said = "`--cc voice=cubic`: the mix has no connections `voice`, but page";
        assert!(why.to_string().contains(said), "{why}");
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        let refusal = |texts: &[&str], by_quic: bool, host_asks: bool| {
            let marks: Vec<Mark<Capable>> = marks(texts);
            let asked = |set: &FlowSet| Mark::of_set(&marks, set);
            match check(&mix(), asked, |_| by_quic, || host_asks) {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(refusal(&[], false, false), "");
        assert_eq!(refusal(&["voice=ect1"], false, false), "");
        assert_eq!(refusal(&["ect0", "voice=ect1"], false, true), "");
        assert!(refusal(&["ect1"], false, true).contains("`--ecn page=ect0`"));
        assert!(refusal(&["ect0"], false, false).contains("tcp_ecn=1"));
        // QUIC asks no kernel for ECN, and has ECT(0) alone.
        assert_eq!(refusal(&["ect0"], true, false), "");
        let refused = refusal(&["ect1"], true, true);
        assert!(refused.contains("whose flows are QUIC"), "{refused}");
    }

    #[test]
    fn a_control_of_quic_is_one_that_there_is() {
        let read = |text: &str| text.parse::<Mark<ControlName>>();
        let mark = read("page=quic:newreno").unwrap();
        assert_eq!(mark.of.as_deref(), Some("page"));
        assert_eq!(mark.value.0, "quic:newreno");
        assert_eq!(read("dctcp").unwrap().of, None);
        for unknown in ["quic:reno", "quic", "page=quic:"] {
            let refused = read(unknown).unwrap_err();
            assert!(refused.contains("quic:newreno"), "{refused}");
        }
        assert!(read("quic:cubic x").is_err());
    }

    #[test]
    fn what_a_path_did_to_marks_is_counted() {
        let mut arrived = ArrivedMarks::default();
        // As it was sent, marked, bleached, with the other codepoint, and with another DSCP.
        for class in [0xba, 0xbb, 0xb8, 0xb9, 0x02] {
            arrived.note(0xba, class);
        }
        let wanted = ArrivedMarks {
            ce: 1,
            ecn_changed: 2,
            dscp_changed: 1,
        };
        assert_eq!(arrived, wanted);
        arrived.add(wanted);
        assert_eq!(arrived.ecn_changed, 4);
    }
}
