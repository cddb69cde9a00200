//! What carries a flow: refusals of what the one or the other cannot have.

use narrows_quic::{LEAST_PAYLOAD, model};

use crate::fields::Fields;
use crate::parts::{Control, EcnMode, Traffic};
use crate::plan::{HostIndex, IpVersion, Plan};
use crate::refusal::{Refusal, one_of};
use crate::transport::{SpinUse, Transport};

/// The transport of a flow: what the file says, or else what `cc` is made for.
pub(super) fn read(fields: &Fields<'_>, cc: Option<&Control>) -> Result<Transport, Refusal> {
    let quinns = cc.is_some_and(|cc| cc.quic().is_some());
    let Some(word) = fields.text("transport")? else {
        return Ok(if quinns {
            Transport::Quic
        } else {
            Transport::Tcp
        });
    };
    if model::Spec::begins(word) {
        let spec = fields.words("transport", "a modelled flow in words", model::Spec::parse)?;
        return Ok(spec.map_or(Transport::Tcp, Transport::Modelled));
    }
    let known = || {
        let modelled = [model::Shape::Quic, model::Shape::Plus].map(model::Shape::name);
        Transport::ALL
            .map(Transport::name)
            .into_iter()
            .chain(modelled)
    };
    let found = Transport::ALL.into_iter().find(|t| t.name() == word);
    let Some(transport) = found else {
        return Err(fields
            .refuse("transport", one_of(known()))
            .did_you_mean(word, known()));
    };
    match (transport, cc) {
        (Transport::Quic, Some(_)) if !quinns => Err(fields
            .refuse("cc", "quic:cubic, quic:newreno or quic:bbr")
            .with_help("a flow over QUIC runs one of quinn's own controls")),
        (Transport::Tcp, Some(_)) if quinns => Err(fields
            .refuse("transport", "\"quic\", for its control is quinn's")
            .with_help("without `transport` the control decides")),
        _ => Ok(transport),
    }
}

/// What a file says of the spin bit.
pub(super) fn spin(fields: &Fields<'_>, transport: Transport) -> Result<SpinUse, Refusal> {
    let Some(node) = fields.get("spin") else {
        return Ok(SpinUse::default());
    };
    if transport != Transport::Quic {
        return Err(fields
            .refuse("spin", "a flow over QUIC")
            .with_help("TCP has a spin bit only where `mark` puts one"));
    }
    match (node.as_flag(), node.as_text()) {
        (Some(true), _) => Ok(SpinUse::On),
        (Some(false), _) => Ok(SpinUse::Greased),
        (None, Some(word)) => SpinUse::ALL
            .into_iter()
            .find(|s| s.name() == word)
            .ok_or_else(|| refused_spin(fields)),
        (None, None) => Err(refused_spin(fields)),
    }
}

fn refused_spin(fields: &Fields<'_>) -> Refusal {
    fields.refuse("spin", one_of(SpinUse::ALL.map(SpinUse::name)))
}

/// ECN of a flow over QUIC: there is one way of feedback and nothing to
/// negotiate, so it is on or off; quinn has it on.
pub(super) fn quic_ecn(fields: &Fields<'_>) -> Result<EcnMode, Refusal> {
    let Some(node) = fields.get("ecn") else {
        return Ok(EcnMode::Classic);
    };
    match (node.as_flag(), node.as_text()) {
        (Some(true), _) | (_, Some("classic" | "true" | "on")) => Ok(EcnMode::Classic),
        (Some(false), _) | (_, Some("false" | "off")) => Ok(EcnMode::Off),
        _ => Err(fields
            .refuse("ecn", "`true` or `false`")
            .with_help("QUIC counts every mark in its acknowledgements; packets carry ECT(0)")),
    }
}

/// Refuses what a modelled flow has no place for.
pub(super) fn fits_modelled(
    fields: &Fields<'_>,
    plan: &Plan,
    ends: (HostIndex, HostIndex),
    spec: &model::Spec,
    (traffic, version): (&Traffic, IpVersion),
) -> Result<(), Refusal> {
    if traffic.is_datagram() {
        return Err(fields
            .refuse("traffic", "`bulk` or `bytes N`")
            .with_help("a constant rate is a word of `transport`: `rate 20Mbit`"));
    }
    for (key, why) in [
        (
            "cc",
            "a modelled flow has a `window` or a `rate`, words of `transport`",
        ),
        (
            "spin",
            "a modelled flow says it in `transport`: `spin greased`",
        ),
        ("ecn", "the packets of a modelled flow are not ECN-capable"),
        (
            "fast_open",
            "a modelled flow sends nothing before its handshake",
        ),
        (
            "host_model",
            "it says how a host treats the segments of TCP",
        ),
    ] {
        if fields.get(key).is_some() {
            let allowed = "nothing beside a modelled transport";
            return Err(fields.refuse(key, allowed).with_help(why));
        }
    }
    let help = "give the flow a smaller `size`, a word of `transport`";
    carries(fields, plan, ends, version, spec.size(), help)
}

/// Refuses what QUIC has no place for.
pub(super) fn fits_quic(
    fields: &Fields<'_>,
    plan: &Plan,
    (from, to): (HostIndex, HostIndex),
    traffic: &Traffic,
    version: IpVersion,
) -> Result<(), Refusal> {
    if traffic.is_datagram() {
        return Err(fields
            .refuse("traffic", "`bulk` or `bytes N`")
            .with_help("a constant bit rate goes as plain datagrams: leave `transport` out"));
    }
    for (key, why) in [
        ("fast_open", "QUIC sends nothing before its handshake here"),
        (
            "host_model",
            "it says how a host treats the segments of TCP",
        ),
    ] {
        if fields.get(key).is_some() {
            return Err(fields.refuse(key, "a flow over TCP").with_help(why));
        }
    }
    let help = "every path of QUIC must carry datagrams of 1200 bytes";
    carries(fields, plan, (from, to), version, LEAST_PAYLOAD, help)
}

/// Refuses links between two hosts, there and back, that do not carry datagrams
/// with so many bytes of payload.
fn carries(
    fields: &Fields<'_>,
    plan: &Plan,
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
    let routes = plan.routes();
    let hops = [routes.path(from.0, to.0), routes.path(to.0, from.0)];
    let small = hops
        .into_iter()
        .flatten()
        .flatten()
        .map(|hop| &plan.links[hop.link])
        .find(|link| link.mtu < needed);
    match small {
        None => Ok(()),
        Some(link) => {
            let found = format!(
                "QUIC over the link `{}` with an MTU of {}",
                link.name, link.mtu
            );
            let allowed = format!("an MTU of at least {needed}");
            Err(
                Refusal::at(fields.spot(), fields.name_of("transport"), found, allowed)
                    .with_help(help),
            )
        }
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
