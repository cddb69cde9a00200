//! What is said of each box, from what came.
//!
//! A change counts as found when [`TWICE`] packets came with it: their checksums held, so that
//! neither loss nor damage can be the cause. It counts as absent when [`ENOUGH`] came
//! without it and none with it. A block is what a [`Trial`] says.

use narrows_mmb::READY;

use crate::evidence::Changer;
use crate::finding::{Finding, Verdict};
use crate::probe::Way;
use crate::probe_log::{ENOUGH, ProbeLog, Sign};
use crate::trial::{Outcome, Question, Trial};

/// Packets that show a change.
const TWICE: u32 = 2;

/// The findings from what came, each box of the catalogue in each way.
pub(crate) fn judge(log: &ProbeLog, trials: &[Trial]) -> Vec<Finding> {
    let pairs = READY
        .iter()
        .flat_map(|ready| Way::BOTH.map(|way| (ready.name, way)));
    pairs
        .map(|(name, way)| {
            let (verdict, evidence) = match Changer::ALL.iter().find(|c| c.name() == name) {
                Some(changer) => change(log, way, *changer),
                None => block(log, trials, way, name),
            };
            Finding {
                name,
                way,
                verdict,
                evidence,
                place: None,
            }
        })
        .collect()
}

fn said(sign: &Sign) -> Verdict {
    match (sign.shown, sign.unchanged) {
        (TWICE.., _) => Verdict::Found,
        (0, ENOUGH..) => Verdict::NotFound,
        _ => Verdict::Unknown,
    }
}

fn change(log: &ProbeLog, way: Way, changer: Changer) -> (Verdict, String) {
    let sign = log.sign(way, changer);
    let is_found = |other| said(&log.sign(way, other)) == Verdict::Found;
    let hidden = |by: &str| (Verdict::Unknown, format!("{by} hides it"));
    let verdict = said(&sign);
    match changer {
        Changer::Ect1ToEct0 | Changer::CeStrip if is_found(Changer::EcnBleach) => {
            return hidden("the box that clears ECN");
        }
        Changer::AccEcnOptionStrip if verdict == Verdict::Found => {
            match said(&log.sign(way, Changer::OptionAllowList)) {
                Verdict::Found => return hidden("the list of options"),
                Verdict::NotFound => {}
                Verdict::Unknown => {
                    let why = "the option is gone; whether others are too is not known";
                    return (Verdict::Unknown, why.to_owned());
                }
            }
        }
        Changer::OptionAllowList
            if verdict == Verdict::Found && !is_found(Changer::AccEcnOptionStrip) =>
        {
            let why = "the Fast Open option is gone, that of AccECN is not";
            return (Verdict::NotFound, why.to_owned());
        }
        _ => {}
    }
    let all = sign.shown + sign.unchanged;
    let evidence = match verdict {
        Verdict::Found => format!("{}, in {} of {all} packets", sign.detail, sign.shown),
        Verdict::NotFound => format!("as sent in {all} packets"),
        Verdict::Unknown => format!("only {all} packets came that could show it"),
    };
    (verdict, evidence)
}

fn block(log: &ProbeLog, trials: &[Trial], way: Way, name: &str) -> (Verdict, String) {
    let questions: &[Question] = match name {
        "udp-block" => &[Question::Udp],
        "syn-data-drop" => &[Question::SynData],
        _ => &[Question::FreshUdp, Question::FreshSyn],
    };
    let asked = |trial: &&Trial| trial.way == way && questions.contains(&trial.question);
    let outcomes: Vec<_> = trials
        .iter()
        .filter(asked)
        .map(|trial| {
            let arrived = |id| log.arrived(id);
            (
                trial.outcome(arrived),
                trial.question,
                trial.counts(arrived),
            )
        })
        .collect();
    let of = |wanted| outcomes.iter().find(|(outcome, ..)| *outcome == wanted);
    if let Some((_, question, [_, controls, pairs])) = of(Outcome::Blocked) {
        let (tests, others) = words(*question);
        let other_way = Way::BOTH[1 - way.index()];
        let translated = said(&log.sign(other_way, Changer::Snat)) == Verdict::Found;
        if name == "reflexive-firewall" && translated {
            let why = format!("none of {pairs} {tests} came, as behind any translation");
            return (Verdict::Unknown, why);
        }
        let why = format!("none of {pairs} {tests} came, {controls} of {pairs} {others} did");
        return (Verdict::Found, why);
    }
    if let Some((_, question, [came, _, pairs])) = of(Outcome::Passes) {
        let why = format!("{came} of {pairs} {} came", words(*question).0);
        return (Verdict::NotFound, why);
    }
    let why = match outcomes.first() {
        Some((_, question, [_, controls, pairs])) => {
            let (tests, others) = words(*question);
            format!("none of {pairs} {tests} came, but of {pairs} {others} only {controls} did")
        }
        None => "not tried".to_owned(),
    };
    (Verdict::Unknown, why)
}

/// What tests and controls are called.
fn words(question: Question) -> (&'static str, &'static str) {
    match question {
        Question::Udp => ("UDP datagrams", "TCP segments"),
        Question::SynData => ("SYNs with data", "without"),
        Question::FreshUdp => ("datagrams from new ports", "from known ones"),
        Question::FreshSyn => ("SYNs from new ports", "from known ones"),
    }
}
