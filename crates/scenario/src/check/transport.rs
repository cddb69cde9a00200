//! What carries a flow: refusals of what the one or the other cannot have.

use narrows_quic::LEAST_PAYLOAD;

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
    let known = || Transport::ALL.map(Transport::name);
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
    let headers = match version {
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
        .find(|link| link.mtu < LEAST_PAYLOAD + headers);
    match small {
        None => Ok(()),
        Some(link) => {
            let found = format!(
                "QUIC over the link `{}` with an MTU of {}",
                link.name, link.mtu
            );
            let allowed = format!("an MTU of at least {}", LEAST_PAYLOAD + headers);
            Err(
                Refusal::at(fields.spot(), fields.name_of("transport"), found, allowed)
                    .with_help("every path of QUIC must carry datagrams of 1200 bytes"),
            )
        }
    }
}
