//! Middleboxes that rewrite DSCP or ECN.

use std::fmt;

use narrows_core::{Change, Element, ElementCounters, Outlet, Packet, Port};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Value, WordError, WordWriter, Words,
};
use narrows_wire::ip;

use crate::ElementSpec;
use crate::codepoint::{Dscp, EcnWord};
use crate::kind::{Facts, Kind, NamesFile, Reports, usages};
use crate::site::Site;
use crate::tap::pass;

/// `remark [if dscp D] [if ecn E] [dscp D] [ecn E]`: packets for which every
/// `if` holds get the DSCP, the ECN codepoint or both. Without an `if` all
/// packets do.
///
/// `remark ecn not-ect` bleaches ECN; `remark if dscp cs1 ecn not-ect` that of
/// one class; `remark dscp be` bleaches DSCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemarkSpec {
    /// Only packets with this DSCP.
    pub if_dscp: Option<Dscp>,
    /// Only packets with this ECN codepoint.
    pub if_ecn: Option<EcnWord>,
    /// The DSCP to set.
    pub dscp: Option<Dscp>,
    /// The ECN codepoint to set.
    pub ecn: Option<EcnWord>,
}

impl Kind for RemarkSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "if dscp D",
            ParameterKind::Words,
            Dscp::ALLOWED,
            "any packet",
            "Only packets with this DSCP",
        ),
        Parameter::new(
            "if ecn E",
            ParameterKind::Choice,
            EcnWord::ALLOWED,
            "any packet",
            "Only packets with this ECN codepoint",
        ),
        Parameter::new(
            "dscp D",
            ParameterKind::Words,
            Dscp::ALLOWED,
            "as it was",
            "The DSCP to set",
        ),
        Parameter::new(
            "ecn E",
            ParameterKind::Choice,
            EcnWord::ALLOWED,
            "as it was",
            "The ECN codepoint to set",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self::default();
        while let Some(word) = words.take() {
            let repeated = match word.text {
                "dscp" => spec.dscp.replace(words.value()?).is_some(),
                "ecn" => spec.ecn.replace(words.value()?).is_some(),
                "if" => match words.take() {
                    Some(w) if w.text == "dscp" => spec.if_dscp.replace(words.value()?).is_some(),
                    Some(w) if w.text == "ecn" => spec.if_ecn.replace(words.value()?).is_some(),
                    Some(w) => return Err(w.refused("dscp D or ecn E")),
                    None => return Err(words.ended("dscp D or ecn E")),
                },
                _ => return Err(word.refused(usages(Self::PARAMETERS))),
            };
            if repeated {
                let found = format!("`{}` a second time", word.text);
                return Err(WordError::new(word.span(), found, "each of them once"));
            }
        }
        if spec.dscp.is_none() && spec.ecn.is_none() {
            return Err(words.ended("what to set: dscp D or ecn E"));
        }
        Ok(spec)
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Element> {
        Box::new(Remark {
            spec: *self,
            counters: ElementCounters::default(),
        })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: false,
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: self.ecn.is_some(),
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Packets,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        Duration::ZERO
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for RemarkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("remark")?;
        WordWriter::new(f)
            .some("if dscp", self.if_dscp)
            .some("if ecn", self.if_ecn)
            .some("dscp", self.dscp)
            .some("ecn", self.ecn)
            .finish()
    }
}

/// The running re-marker. It holds nothing.
#[derive(Clone, Debug)]
pub struct Remark {
    spec: RemarkSpec,
    counters: ElementCounters,
}

impl Element for Remark {
    fn push(&mut self, _: Instant, _: Port, mut packet: Box<Packet>, out: &mut Outlet<'_>) {
        pass(&mut self.counters, &packet);
        let class = ip::traffic_class(&packet.bytes);
        let spec = &self.spec;
        let hit = spec.if_dscp.is_none_or(|d| d.0 == class >> 2)
            && spec.if_ecn.is_none_or(|e| e.0 as u8 == class & 3);
        if hit {
            let dscp = spec.dscp.map_or(class >> 2, |d| d.0);
            let ecn = spec.ecn.map_or(class & 3, |e| e.0 as u8);
            let new = dscp << 2 | ecn;
            if new != class {
                ip::set_traffic_class(&mut packet.bytes, new);
            }
        }
        out.send(0, packet);
    }

    /// All of the words of a `remark`, which replace the old ones.
    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        let mut words = Words::new(&change.words);
        words.take_if("remark");
        self.spec = RemarkSpec::parse(&mut words)?;
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use crate::ElementSpec;
    use crate::testing::{Bench, ms};

    fn after(words: &str, class: u8) -> u8 {
        let mut bench = Bench::new(words);
        bench.offer(ms(0), 100, class);
        bench.left[0].2
    }

    #[test]
    fn bleaching_clears_ecn_and_leaves_the_dscp() {
        assert_eq!(after("remark ecn not-ect", 46 << 2 | 2), 46 << 2);
        assert_eq!(after("remark dscp be", 46 << 2 | 1), 1);
    }

    #[test]
    fn only_packets_for_which_all_conditions_hold_change() {
        let words = "remark if dscp cs1 if ecn ect0 dscp af41 ecn ect1";
        assert_eq!(after(words, 8 << 2 | 2), 34 << 2 | 1);
        assert_eq!(after(words, 8 << 2 | 1), 8 << 2 | 1);
        assert_eq!(after(words, 2), 2);
        assert_eq!(ElementSpec::parse(words).unwrap().to_string(), words);
    }

    #[test]
    fn wrong_words_are_refused_at_their_place() {
        for (words, at) in [
            ("remark", ""),
            ("remark if dscp 8", ""),
            ("remark if", ""),
            ("remark if ttl 8 ecn ce", "ttl"),
            ("remark dscp 64", "64"),
            ("remark ecn ect2", "ect2"),
            ("remark ecn ce ecn ce", "ecn"),
            ("remark ecn ce and more", "and"),
        ] {
            let error = ElementSpec::parse(words).unwrap_err();
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
    }
}
