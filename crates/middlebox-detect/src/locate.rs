//! Between which hops a box stands: probes whose hop limit ends at each router, and what the
//! router's ICMP error quotes of them, as in tracebox (G. Detal et al., IMC 2013).

use std::net::IpAddr;

use narrows_wire::Ecn;

use crate::evidence::Changer;
use crate::finding::{Finding, Hop, Place, Verdict};
use crate::probe::{Probe, Shape, Way};
use crate::probe_log::{ProbeLog, Quotation};
use crate::trial::Question;

/// Probes of a kind for each hop.
const TRIES: usize = 4;

/// Routers on a way at most that are asked.
pub(crate) const MOST_HOPS: u8 = 30;

/// What shows a box: a test, and a control where the box drops it.
fn signs(name: &str, udp: bool) -> Vec<Probe> {
    let data = match udp {
        true => Shape::Udp,
        false => Shape::Segment,
    };
    let syn = Probe::new(Shape::Syn, Ecn::NotEct);
    let segment = Probe::new(Shape::Segment, Ecn::NotEct);
    match name {
        "ecn-bleach" => vec![Probe::new(data, Ecn::Ect0)],
        "ect1-to-ect0" => vec![Probe::new(data, Ecn::Ect1)],
        "ce-strip" => vec![Probe::new(data, Ecn::Ce)],
        "accecn-option-strip" | "reserved-clear" => vec![segment],
        "mss-clamp" | "option-allow-list" | "sequence-shuffle" => vec![syn],
        "snat" => vec![Probe::new(data, Ecn::NotEct)],
        "spin-clear" => vec![Probe::new(Shape::Udp, Ecn::NotEct)],
        _ => blocked(name, udp).map_or_else(Vec::new, |q| q.pair(Ecn::NotEct).to_vec()),
    }
}

fn blocked(name: &str, udp: bool) -> Option<Question> {
    match name {
        "udp-block" => Some(Question::Udp),
        "syn-data-drop" => Some(Question::SynData),
        "reflexive-firewall" if udp => Some(Question::FreshUdp),
        "reflexive-firewall" => Some(Question::FreshSyn),
        _ => None,
    }
}

/// Whether UDP passes, by the findings.
fn udp_passes(findings: &[Finding], way: Way) -> bool {
    let passes = |f: &&Finding| f.name == "udp-block" && f.way == way;
    let udp = findings.iter().find(passes);
    udp.is_some_and(|f| f.verdict == Verdict::NotFound)
}

/// The probes that tell where the boxes that were found stand.
pub(crate) fn plan(findings: &[Finding], log: &ProbeLog) -> Vec<(Way, Probe)> {
    let mut plan: Vec<(Way, Probe)> = Vec::new();
    for finding in findings.iter().filter(|f| f.verdict == Verdict::Found) {
        let way = finding.way;
        // Where a box sets the hops that are left, their number is not known.
        let unknown = if log.sets_ttl(way) { MOST_HOPS } else { 0 };
        let hops = log.hops(way).unwrap_or(unknown).min(MOST_HOPS);
        for sign in signs(finding.name, udp_passes(findings, way)) {
            for ttl in 1..=hops {
                let probe = Probe { ttl, ..sign };
                if !plan.contains(&(way, probe)) {
                    plan.push((way, probe));
                }
            }
        }
    }
    // All before the same again: routers answer only so often.
    let tries = std::iter::repeat_n(&plan, TRIES);
    tries.flatten().copied().collect()
}

/// Where the box of `finding` stands, if it can be said.
pub(crate) fn place(finding: &Finding, findings: &[Finding], log: &ProbeLog) -> Option<Place> {
    if finding.verdict != Verdict::Found {
        return None;
    }
    let way = finding.way;
    let hops = log.hops(way);
    let of_way: Vec<&Quotation> = log.quotations.iter().filter(|q| q.way == way).collect();
    let changer = Changer::ALL.iter().find(|c| c.name() == finding.name);
    let (after, before) = match changer {
        Some(changer) => change(*changer, &of_way),
        None => {
            let question = blocked(finding.name, udp_passes(findings, way))?;
            block(question, &of_way)
        }
    };
    if before.is_none() && changer.is_some_and(|c| c.repairs_quotations()) {
        return None;
    }
    let hop = |number: u8| Hop {
        number,
        address: of_way
            .iter()
            .find(|q| q.probe.ttl == number)
            .map(|q| q.router),
    };
    Some(Place {
        after: hop(after),
        before: hop(before.or(hops.map(|hops| hops + 1))?),
    })
}

/// The last hop with packets as sent before the first one with the change.
fn change(changer: Changer, quotations: &[&Quotation]) -> (u8, Option<u8>) {
    let shows = |wanted: bool| {
        let said = quotations.iter();
        said.filter(move |q| changer.shows(&q.sent, &q.quoted) == Some(wanted))
            .map(|q| q.probe.ttl)
    };
    let before = shows(true).min();
    let after = match changer.repairs_quotations() {
        true => 0,
        false => shows(false)
            .filter(|ttl| before.is_none_or(|before| *ttl < before))
            .max()
            .unwrap_or(0),
    };
    (after, before)
}

/// The last hop that tests reach, and the first one behind it that controls reach.
fn block(question: Question, quotations: &[&Quotation]) -> (u8, Option<u8>) {
    let [test, control] = question.pair(Ecn::NotEct);
    let reached = |sign: Probe| {
        let alike = move |q: &&&Quotation| {
            let Probe { ttl, .. } = q.probe;
            q.probe == Probe { ttl, ..sign }
        };
        quotations.iter().filter(alike).map(|q| q.probe.ttl)
    };
    let after = reached(test).max().unwrap_or(0);
    let before = reached(control).filter(|ttl| *ttl > after).min();
    (after, before)
}

/// What is said without a responder, of hops up to the one that was reached.
pub(crate) fn judge_quotations(log: &ProbeLog, target: IpAddr) -> Vec<Finding> {
    let pairs = narrows_mmb::READY
        .iter()
        .flat_map(|ready| Way::BOTH.map(|way| (ready.name, way)));
    pairs
        .map(|(name, way)| {
            let changer = Changer::ALL.iter().find(|c| c.name() == name);
            let said = match (way, changer) {
                (Way::Back, _) => Err("what comes back needs a responder".to_owned()),
                (_, None) => Err("loss and a block are alike without a responder".to_owned()),
                (Way::Forward, Some(changer)) => Ok(*changer),
            };
            let (verdict, evidence, place) = match said {
                Err(why) => (Verdict::Unknown, why, None),
                Ok(changer) => quoted_change(changer, log, target),
            };
            Finding {
                name,
                way,
                verdict,
                evidence,
                place,
            }
        })
        .collect()
}

fn quoted_change(
    changer: Changer,
    log: &ProbeLog,
    target: IpAddr,
) -> (Verdict, String, Option<Place>) {
    let all: Vec<&Quotation> = log.quotations.iter().collect();
    let address = |number: u8| {
        let at = all.iter().find(|q| q.probe.ttl == number);
        at.map(|q| q.router)
    };
    let hop = |number| Hop {
        number,
        address: address(number),
    };
    let (after, before) = change(changer, &all);
    if let Some(number) = before {
        let shown = all
            .iter()
            .find(|q| changer.shows(&q.sent, &q.quoted) == Some(true));
        let detail = shown.map(|q| changer.detail(&q.sent, &q.quoted));
        let evidence = format!("{}, {} quotes", detail.unwrap_or_default(), hop(number));
        let place = Place {
            after: hop(after),
            before: hop(number),
        };
        return (Verdict::Found, evidence, Some(place));
    }
    if after > 0 && address(after) == Some(target) {
        let evidence = "the host itself quotes it as it was sent".to_owned();
        return (Verdict::NotFound, evidence, None);
    }
    let evidence = match after {
        _ if changer.repairs_quotations() => "such a box repairs what is quoted".to_owned(),
        0 => "no router quotes enough of it".to_owned(),
        _ => format!("as sent as far as {}", hop(after)),
    };
    (Verdict::Unknown, evidence, None)
}
