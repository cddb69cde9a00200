//! What carries a flow: refusals of what the one or the other cannot have.

use narrows_quic::{LEAST_PAYLOAD, model};

use super::Check;
use crate::document::{At, Flow};
use crate::parts::{Control, Traffic};
use crate::plan::{HostIndex, IpVersion};
use crate::refusal::{Refusal, one_of};
use crate::transport::{SpinUse, Transport};

impl Check<'_> {
    /// The transport of a flow: what the file says, or else what `cc` is made for.
    pub(super) fn transport(
        &self,
        flow: &Flow,
        cc: Option<&Control>,
    ) -> Result<Transport, Refusal> {
        let quinns = cc.is_some_and(|cc| cc.quic().is_some());
        let Some(given) = &flow.transport else {
            return Ok(if quinns {
                Transport::Quic
            } else {
                Transport::Tcp
            });
        };
        let transport = *self.places.words(given)?;
        match (transport, &flow.cc) {
            (Transport::Quic, Some(cc)) if !quinns => Err(self
                .places
                .refuse(cc, "quic:cubic, quic:newreno or quic:bbr")
                .with_help("a flow over QUIC runs one of quinn's own controls")),
            (Transport::Tcp, Some(_)) if quinns => Err(self
                .places
                .refuse(given, "\"quic\", for its control is quinn's")
                .with_help("without `transport` the control decides")),
            _ => Ok(transport),
        }
    }

    /// What a file says of the spin bit.
    pub(super) fn spin(&self, flow: &Flow, transport: Transport) -> Result<SpinUse, Refusal> {
        match &flow.spin {
            Some(given) if transport != Transport::Quic => Err(self
                .places
                .refuse(given, "a flow over QUIC")
                .with_help("TCP has a spin bit only where `mark` puts one")),
            given => Ok(self.places.parsed(given)?.copied().unwrap_or_default()),
        }
    }

    /// Refuses what the transport of `flow` has no place for.
    pub(super) fn fits(
        &self,
        flow: &At<Flow>,
        ends: (HostIndex, HostIndex),
        transport: Transport,
        traffic: &Traffic,
        version: IpVersion,
    ) -> Result<(), Refusal> {
        let places = self.places;
        let (payload, allowed, constant, path) = match transport {
            Transport::Tcp => return Ok(()),
            Transport::Quic => (
                LEAST_PAYLOAD,
                "a flow over TCP",
                "a constant bit rate goes as plain datagrams: leave `transport` out",
                "every path of QUIC must carry datagrams of 1200 bytes",
            ),
            Transport::Modelled(spec) => (
                spec.size(),
                "nothing beside a modelled transport",
                "a constant rate is a word of `transport`: `rate 20Mbit`",
                "give the flow a smaller `size`, a word of `transport`",
            ),
        };
        if let Some(given) = flow.traffic.as_ref().filter(|_| traffic.is_datagram()) {
            return Err(places
                .refuse(given, "`bulk` or `bytes N`")
                .with_help(constant));
        }
        let refused = |refusal: Refusal, why: &str| Err(refusal.with_help(why));
        if transport.modelled().is_some() {
            if let Some(given) = &flow.cc {
                let why = "a modelled flow has a `window` or a `rate`, words of `transport`";
                return refused(places.refuse(given, allowed), why);
            }
            if let Some(given) = &flow.spin {
                let why = "a modelled flow says it in `transport`: `spin greased`";
                return refused(places.refuse(given, allowed), why);
            }
            if let Some(given) = &flow.ecn {
                let why = "the packets of a modelled flow are not ECN-capable";
                return refused(places.refuse(given, allowed), why);
            }
        }
        if let Some(given) = &flow.fast_open {
            let why = "such a flow sends nothing before its handshake";
            return refused(places.refuse(given, allowed), why);
        }
        if let Some(given) = &flow.host_model {
            let why = "it says how a host treats the segments of TCP";
            return refused(places.refuse(given, allowed), why);
        }
        self.carries(flow, ends, version, payload, path)
    }

    /// Refuses links between two hosts, there and back, that do not carry datagrams
    /// with so many bytes of payload.
    fn carries(
        &self,
        flow: &At<Flow>,
        (from, to): (HostIndex, HostIndex),
        version: IpVersion,
        payload: u32,
        help: &str,
    ) -> Result<(), Refusal> {
        let needed = payload
            + match version {
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
                let missing = self.places.missing(flow, "transport", allowed);
                Err(missing.with_found(found).with_help(help))
            }
        }
    }
}

/// The words of `transport`: those of a modelled flow, or one of these.
fn names() -> String {
    let modelled = [model::Shape::Quic, model::Shape::Plus].map(model::Shape::name);
    one_of(
        Transport::ALL
            .map(Transport::name)
            .into_iter()
            .chain(modelled),
    )
}

impl crate::document::Grammar for Transport {
    const ALLOWED: &'static str = "a transport, such as \"quic\"";

    fn read(line: &str) -> Result<Self, narrows_units::WordError> {
        if model::ModelSpec::begins(line) {
            return model::ModelSpec::parse(line).map(Self::Modelled);
        }
        let found = Self::ALL.into_iter().find(|t| t.name() == line);
        found.ok_or_else(|| crate::document::no_such(line, &names()))
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
                spin.ok_or_else(|| crate::document::no_such(line, Self::ALLOWED))
            }
        }
    }

    fn pattern() -> Option<String> {
        Some("^(seed|on|true|false|greased)$".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Draft, Refusal};

    const LINK: &str = "version = 1\nname = \"x\"\nduration = \"9s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nmtu = 1300\n\
        [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n";

    fn check(flow: &str) -> Result<crate::Plan, Refusal> {
        Draft::read("x.toml", format!("{LINK}{flow}").as_bytes()).and_then(|d| d.check())
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
            assert_eq!(plan.flows[0].control_words(), words);
            assert!(!plan.flows[0].is_tcp());
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
