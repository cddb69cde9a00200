//! What carries a flow: refusals of what the one or the other cannot have.

use narrows_quic::{LEAST_PAYLOAD, model};

use super::{Check, needed_ecn};
use crate::document::{
    At, EcnRequest, Flow, HostModel as HostModelKeys, Optional, Words as Given, no_such,
};
use crate::parts::{Control, EcnMode, HostModel};
use crate::plan::{HostIndex, IpVersion};
use crate::refusal::{Refusal, one_of};
use crate::transport::{QuicOptions, SpinUse, TcpOptions, Transport, TransportName};

/// The keys of a table that say what carries what it sends.
#[derive(Clone, Copy)]
pub(super) struct TransportKeys<'d> {
    pub transport: &'d Optional<Given<TransportName>>,
    pub cc: &'d Optional<Given<Control>>,
    pub ecn: &'d Optional<Given<EcnRequest>>,
    pub spin: &'d Optional<Given<SpinUse>>,
    pub fast_open: &'d Optional<bool>,
    pub host_model: &'d Optional<HostModelKeys>,
    /// The congestion control of TCP where none is given.
    pub usual: Option<&'static str>,
}

impl<'d> From<&'d Flow> for TransportKeys<'d> {
    fn from(flow: &'d Flow) -> Self {
        Self {
            transport: &flow.transport,
            cc: &flow.cc,
            ecn: &flow.ecn,
            spin: &flow.spin,
            fast_open: &flow.fast_open,
            host_model: &flow.host_model,
            usual: None,
        }
    }
}

/// Between whom packets go, and how hosts treat segments where the table does not say.
#[derive(Clone, Copy)]
pub(super) struct Between {
    pub ends: (HostIndex, HostIndex),
    pub ip: IpVersion,
    pub model: HostModel,
}

impl Check<'_> {
    /// Which transport a table names, or else what its `cc` is made for.
    pub(super) fn transport_name(&self, keys: TransportKeys<'_>) -> Result<TransportName, Refusal> {
        let cc = self.places.parsed(keys.cc)?;
        let quinns = cc.is_some_and(|cc| cc.quic().is_some());
        let Some(given) = keys.transport else {
            return Ok(if quinns {
                TransportName::Quic
            } else {
                TransportName::Tcp
            });
        };
        let name = *self.places.words(given)?;
        match (name, keys.cc) {
            (TransportName::Quic, Some(cc)) if !quinns => Err(self
                .places
                .refuse(cc, "quic:cubic, quic:newreno or quic:bbr")
                .with_help("a flow over QUIC runs one of quinn's own controls")),
            (TransportName::Tcp, Some(_)) if quinns => Err(self
                .places
                .refuse(given, "\"quic\", for its control is quinn's")
                .with_help("without `transport` the control decides")),
            _ => Ok(name),
        }
    }

    /// What carries the connections of a table, with its options.
    pub(super) fn connections<T>(
        &self,
        table: &At<T>,
        keys: TransportKeys<'_>,
        name: TransportName,
        between: Between,
    ) -> Result<Transport, Refusal> {
        let cc = self.places.parsed(keys.cc)?;
        self.fits(table, keys, name, between)?;
        let fast_open = keys.fast_open.as_ref().is_some_and(|at| **at);
        match name {
            TransportName::Tcp => {
                let cc = match (cc, keys.usual) {
                    (Some(cc), _) => cc.clone(),
                    (None, Some(usual)) => Control::parse(usual)
                        .map_err(|error| self.places.refused_words(table, error))?,
                    (None, None) => {
                        let allowed = "a congestion control, such as \"cubic\"";
                        return Err(self.places.missing(table, "cc", allowed));
                    }
                };
                if let Some(given) = keys.spin {
                    return Err(self
                        .places
                        .refuse(given, "a flow over QUIC")
                        .with_help("TCP has a spin bit only where `mark` puts one"));
                }
                Ok(Transport::Tcp(TcpOptions {
                    ecn: self.ecn(keys, name, needed_ecn(&cc))?,
                    fast_open,
                    host: match keys.host_model {
                        Some(given) => super::model::read(self.places, given, between.model)?,
                        None => between.model,
                    },
                    cc,
                }))
            }
            TransportName::Quic => Ok(Transport::Quic(QuicOptions {
                cc: cc.and_then(Control::quic).unwrap_or_default(),
                // There is one way of feedback and nothing to negotiate; quinn has it on.
                ecn: self.ecn(keys, name, EcnMode::Classic)? != EcnMode::Off,
                spin: self.places.parsed(keys.spin)?.copied().unwrap_or_default(),
            })),
            TransportName::Modelled(spec) => Ok(Transport::Modelled(spec)),
        }
    }

    /// Checks options of connections beside plain datagrams, where they are of no use: a file
    /// that sets the traffic of a flow may leave them as they are.
    pub(super) fn without_use(
        &self,
        keys: TransportKeys<'_>,
        model: HostModel,
    ) -> Result<(), Refusal> {
        self.ecn(keys, TransportName::Tcp, EcnMode::Off)?;
        self.places.parsed(keys.spin)?;
        if let Some(given) = keys.host_model {
            super::model::read(self.places, given, model)?;
        }
        Ok(())
    }

    /// What the handshake asks for: what the file says, or else what the control
    /// needs. `true` is the plainest form that serves the control.
    fn ecn(
        &self,
        keys: TransportKeys<'_>,
        name: TransportName,
        needed: EcnMode,
    ) -> Result<EcnMode, Refusal> {
        let Some(given) = keys.ecn else {
            return Ok(needed);
        };
        match (*self.places.words(given)?, needed) {
            (EcnRequest::On, EcnMode::Off) => Ok(EcnMode::Classic),
            (EcnRequest::On, needed) => Ok(needed),
            (EcnRequest::Mode(EcnMode::AccEcn), _) if name == TransportName::Quic => Err(self
                .places
                .refuse(given, "`true` or `false`")
                .with_help("QUIC counts every mark in its acknowledgements; packets carry ECT(0)")),
            (EcnRequest::Mode(mode), _) => Ok(mode),
        }
    }

    /// Refuses what the transport has no place for.
    fn fits<T>(
        &self,
        table: &At<T>,
        keys: TransportKeys<'_>,
        name: TransportName,
        between: Between,
    ) -> Result<(), Refusal> {
        let places = self.places;
        let (payload, allowed, path) = match name {
            TransportName::Tcp => return Ok(()),
            TransportName::Quic => (
                LEAST_PAYLOAD,
                "a flow over TCP",
                "every path of QUIC must carry datagrams of 1200 bytes",
            ),
            TransportName::Modelled(spec) => (
                spec.size(),
                "nothing beside a modelled transport",
                "give the flow a smaller `size`, a word of `transport`",
            ),
        };
        let refused = |refusal: Refusal, why: &str| Err(refusal.with_help(why));
        if let TransportName::Modelled(_) = name {
            if let Some(given) = keys.cc {
                let why = "a modelled flow has a `window` or a `rate`, words of `transport`";
                return refused(places.refuse(given, allowed), why);
            }
            if let Some(given) = keys.spin {
                let why = "a modelled flow says it in `transport`: `spin greased`";
                return refused(places.refuse(given, allowed), why);
            }
            if let Some(given) = keys.ecn {
                let why = "the packets of a modelled flow are not ECN-capable";
                return refused(places.refuse(given, allowed), why);
            }
        }
        if let Some(given) = keys.fast_open {
            let why = "such a flow sends nothing before its handshake";
            return refused(places.refuse(given, allowed), why);
        }
        if let Some(given) = keys.host_model {
            let why = "it says how a host treats the segments of TCP";
            return refused(places.refuse(given, allowed), why);
        }
        self.carries(table, between, payload, path)
    }

    /// Refuses links between two hosts, there and back, that do not carry datagrams
    /// with so many bytes of payload.
    fn carries<T>(
        &self,
        table: &At<T>,
        between: Between,
        payload: u32,
        help: &str,
    ) -> Result<(), Refusal> {
        let (from, to) = between.ends;
        let needed = payload
            + match between.ip {
                IpVersion::V4 => 28,
                IpVersion::V6 => 48,
            };
        let routes = self.plan.routes();
        let hops = [routes.path(from.0, to.0), routes.path(to.0, from.0)];
        let small = hops
            .into_iter()
            .flatten()
            .flatten()
            .map(|hop| &self.plan.links[hop.link])
            .find(|link| link.mtu < needed);
        match small {
            None => Ok(()),
            Some(link) => {
                let found = format!(
                    "QUIC over the link `{}` with an MTU of {}",
                    link.name, link.mtu
                );
                let allowed = format!("an MTU of at least {needed}");
                let missing = self.places.missing(table, "transport", allowed);
                Err(missing.with_found(found).with_help(help))
            }
        }
    }
}

/// The words of `transport`: those of a modelled flow, or one of these.
fn names() -> String {
    let modelled = [model::Shape::Quic, model::Shape::Plus].map(model::Shape::name);
    let others = TransportName::ALL.map(|(word, _)| word);
    one_of(others.into_iter().chain(modelled))
}

impl crate::document::Grammar for TransportName {
    const ALLOWED: &'static str = "a transport, such as \"quic\"";

    fn read(line: &str) -> Result<Self, narrows_units::WordError> {
        if model::ModelSpec::begins(line) {
            return model::ModelSpec::parse(line).map(Self::Modelled);
        }
        let found = Self::ALL.into_iter().find(|(word, _)| *word == line);
        let name = found.map(|(_, name)| name);
        name.ok_or_else(|| no_such(line, &names()))
    }
}

impl crate::document::Grammar for SpinUse {
    const ALLOWED: &'static str = "`seed`, `on` or `greased`";
    const BESIDES: crate::document::Besides = crate::document::Besides::Flag;

    fn read(line: &str) -> Result<Self, narrows_units::WordError> {
        match line {
            "true" => Ok(Self::On),
            "false" => Ok(Self::Greased),
            _ => {
                let found = Self::WORDS.iter().find(|(word, _)| *word == line);
                let spin = found.map(|(_, spin)| *spin);
                spin.ok_or_else(|| no_such(line, Self::ALLOWED))
            }
        }
    }

    fn pattern() -> Option<String> {
        Some("^(seed|on|true|false|greased)$".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Draft, Refusal, SpinUse};

    const LINK: &str = "version = 1\nname = \"x\"\nduration = \"9s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nmtu = 1300\n\
        [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n";

    fn check(flow: &str) -> Result<crate::Plan, Refusal> {
        Draft::read("x.toml", format!("{LINK}{flow}").as_bytes()).and_then(|d| d.check())
    }

    #[test]
    fn a_spin_bit_is_a_word_or_a_flag() {
        for (value, spin) in [
            ("\"seed\"", SpinUse::Seed),
            ("\"on\"", SpinUse::On),
            ("true", SpinUse::On),
            ("\"greased\"", SpinUse::Greased),
            ("false", SpinUse::Greased),
        ] {
            let plan = check(&format!("cc = \"quic:cubic\"\nspin = {value}\n")).expect(value);
            let quic = plan.flows[0].transport.quic().expect("QUIC");
            assert_eq!(quic.spin, spin, "{value}");
        }
    }

    #[test]
    fn datagrams_of_a_constant_rate_need_no_transport_and_what_else_is_written_is_checked() {
        let cbr = "traffic = \"cbr rate 1Mbit\"\n";
        for (keys, key, help) in [
            (
                "transport = \"quic-model\"",
                "flow/f/traffic",
                "a word of `transport`: `rate 20Mbit`",
            ),
            (
                "transport = \"quic\"",
                "flow/f/traffic",
                "leave `transport` out",
            ),
            ("ecn = \"acecn\"", "flow/f/ecn", "accecn"),
            ("spin = \"of\"", "flow/f/spin", "`greased`"),
            (
                "host_model = { pacing = \"sometimes\" }",
                "flow/f/host_model/pacing",
                "`never`",
            ),
        ] {
            let refusal = check(&format!("{cbr}{keys}\n")).expect_err(keys);
            let line = refusal.to_line();
            assert_eq!(refusal.key(), key, "{line}");
            assert!(line.contains(help), "{keys}: {line}");
        }
        let of_no_use = "ecn = true\nspin = \"on\"\nhost_model = { pacing = \"never\" }\n";
        let plan = check(&format!("{cbr}{of_no_use}")).expect("a plan");
        assert_eq!(plan.flows[0].transport, crate::Transport::Datagrams);
    }

    #[test]
    fn a_modelled_flow_is_written_as_it_was_read() {
        for words in [
            "quic-model",
            "plus window 9",
            "quic-model signals s+vec+q+l rate 9Mbit",
        ] {
            let more = "opens = \"b\"\nbytes = 9000\nip = 6\ndscp = 8\n";
            let plan = check(&format!("transport = \"{words}\"\n{more}")).expect("a plan");
            assert_eq!(plan.flows[0].transport.control_words(), words);
            let text = plan.to_toml();
            let again = Draft::read("y.toml", text.as_bytes()).and_then(|d| d.check());
            assert_eq!(again.expect("what was written"), plan, "{text}");
        }
    }

    #[test]
    fn what_a_modelled_flow_has_no_place_for_is_refused() {
        for (more, key) in [
            ("cc = \"cubic\"", "cc"),
            ("cc = \"quic:cubic\"", "cc"),
            ("spin = \"on\"", "spin"),
            ("ecn = true", "ecn"),
            ("fast_open = true", "fast_open"),
            ("host_model = { tick = \"1ms\" }", "host_model"),
            ("mark = \"s\"", "mark"),
            ("traffic = \"cbr rate 1Mbit\"", "traffic"),
        ] {
            let refusal = check(&format!("transport = \"quic-model\"\n{more}\n")).unwrap_err();
            let text = refusal.to_string();
            assert!(text.contains(&format!("flow/f/{key}")), "{text}");
        }
        for words in [
            "quic-modl",
            "quic-model window 0",
            "plus signals q",
            "quic-model size 1400",
        ] {
            let refusal = check(&format!("transport = \"{words}\"\n")).unwrap_err();
            let text = refusal.to_string();
            assert!(text.contains("flow/f/transport"), "{words}: {text}");
        }
    }
}
