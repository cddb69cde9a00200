//! What was sent, what came of it, and what routers quoted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_wire::Ecn;

use crate::evidence::{Changer, Seen};
use crate::probe::{OTHER_TTL, Probe, Shape, TTL, Way};
use crate::trial::DECISIVE;

/// Probes of a prober at most; identifiers are 16 bits, and those above name no probe.
pub(crate) const MOST: usize = 20_000;

/// Arrivals of a kind that show that packets of the kind come as they were sent.
pub(crate) const ENOUGH: u32 = 3;

/// A probe that was sent or ordered.
#[derive(Clone, Copy, Debug)]
struct Shot {
    way: Way,
    probe: Probe,
    arrived: bool,
}

/// What arrivals say about a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sign {
    pub shown: u32,
    pub unchanged: u32,
    /// Of one that shows it.
    pub detail: String,
}

/// What a router quotes of a probe.
#[derive(Clone, Debug)]
pub(crate) struct Quotation {
    pub way: Way,
    pub probe: Probe,
    pub router: IpAddr,
    pub sent: Seen,
    pub quoted: Seen,
}

/// The probes of a run.
#[derive(Debug, Default)]
pub(crate) struct ProbeLog {
    shots: Vec<Shot>,
    signs: BTreeMap<(Way, Changer), Sign>,
    others: BTreeMap<(Way, &'static str), u32>,
    arrivals: Vec<(Way, Probe)>,
    /// Packets of each way that a queue may mark, and those that came with CE.
    marks: [[u32; 2]; 2],
    /// What CE is called in their version of IP.
    ce: &'static str,
    /// Whether a box sets the hops that packets of each way have left.
    sets_ttl: [bool; 2],
    pub quotations: Vec<Quotation>,
    hops: [Option<u8>; 2],
}

/// Whether a packet has another number of hops left than routers can have left it: more than it was sent
/// with, or so few that it met as many routers as others may meet at most.
fn has_foreign_ttl(sent: u8, came: u8) -> bool {
    came > sent || sent == OTHER_TTL && came <= OTHER_TTL - TTL
}

impl ProbeLog {
    /// Enters a probe; its identifier, or nothing when there have been too many.
    pub(crate) fn enter(&mut self, way: Way, probe: Probe) -> Option<u16> {
        if self.shots.len() == MOST {
            return None;
        }
        self.shots.push(Shot {
            way,
            probe,
            arrived: false,
        });
        Some(self.shots.len() as u16)
    }

    /// The last identifier.
    pub(crate) fn last(&self) -> u16 {
        self.shots.len() as u16
    }

    /// The way and probe of an identifier.
    pub(crate) fn shot(&self, id: u16) -> Option<(Way, Probe)> {
        let shot = self.shots.get(usize::from(id).checked_sub(1)?)?;
        Some((shot.way, shot.probe))
    }

    pub(crate) fn arrived(&self, id: u16) -> bool {
        let at = usize::from(id).checked_sub(1);
        at.and_then(|at| self.shots.get(at))
            .is_some_and(|shot| shot.arrived)
    }

    /// Enters that a probe came: as it was sent, as it came, and whether its payload is as it
    /// was. Only the first copy counts.
    pub(crate) fn came(&mut self, id: u16, sent: &[u8], came: &[u8], intact: bool) {
        let shot = self.shots.get_mut(usize::from(id).wrapping_sub(1));
        let Some(shot) = shot.filter(|shot| !shot.arrived) else {
            return;
        };
        let (Some(sent), Some(came)) = (Seen::of(sent), Seen::of(came)) else {
            return;
        };
        shot.arrived = true;
        let (way, probe) = (shot.way, shot.probe);
        self.arrivals.push((way, probe));
        if probe.goes_all_the_way() {
            self.hops[way.index()] = probe.ttl.checked_sub(came.ip.ttl);
        }
        if sent.ip.ecn().is_capable() && sent.ip.ecn() != Ecn::Ce && came.ip.ecn().is_capable() {
            self.ce = sent.field("ip-ce", "ip6-ce");
            let [all, marked] = &mut self.marks[way.index()];
            *all += 1;
            *marked += u32::from(came.ip.ecn() == Ecn::Ce);
        }
        for changer in Changer::ALL {
            let Some(shown) = changer.shows(&sent, &came) else {
                continue;
            };
            let sign = self.signs.entry((way, changer)).or_default();
            match shown {
                false => sign.unchanged += 1,
                true => {
                    if sign.shown == 0 {
                        sign.detail = changer.detail(&sent, &came);
                    }
                    sign.shown += 1;
                }
            }
        }
        let altered = (!intact).then_some("payload");
        let ttl = (probe.goes_all_the_way() && has_foreign_ttl(probe.ttl, came.ip.ttl))
            .then(|| sent.field("ip-ttl", "ip6-hop-limit"));
        self.sets_ttl[way.index()] |= ttl.is_some();
        let further = altered.into_iter().chain(ttl);
        for field in sent.other_changes(&came).into_iter().chain(further) {
            *self.others.entry((way, field)).or_default() += 1;
        }
    }

    /// Enters what a router quotes of a probe.
    pub(crate) fn quoted(&mut self, id: u16, router: IpAddr, sent: &[u8], quoted: &[u8]) {
        let Some((way, probe)) = self.shot(id) else {
            return;
        };
        if let (Some(sent), Some(quoted)) = (Seen::of(sent), Seen::of(quoted)) {
            self.quotations.push(Quotation {
                way,
                probe,
                router,
                sent,
                quoted,
            });
        }
    }

    pub(crate) fn sign(&self, way: Way, changer: Changer) -> Sign {
        self.signs.get(&(way, changer)).cloned().unwrap_or_default()
    }

    /// Routers on a way, where they can be counted.
    pub(crate) fn hops(&self, way: Way) -> Option<u8> {
        self.hops[way.index()].filter(|_| !self.sets_ttl(way))
    }

    /// Whether a box sets the hops that packets of a way have left.
    pub(crate) fn sets_ttl(&self, way: Way) -> bool {
        self.sets_ttl[way.index()]
    }

    /// Fields that no box of the catalogue changes, with how many packets came so. Marks of a queue are none:
    /// one that marks half of all packets marks [`DECISIVE`] of them, and no fewer, once in a million times.
    pub(crate) fn others(&self) -> impl Iterator<Item = (Way, &'static str, u32)> {
        let others = self.others.iter();
        let others = others.map(|((way, field), packets)| (*way, *field, *packets));
        let marks = Way::BOTH.into_iter().filter_map(|way| {
            let [all, marked] = self.marks[way.index()];
            (marked == all && all as usize >= DECISIVE).then_some((way, self.ce, marked))
        });
        others.chain(marks)
    }

    /// How many probes were to go all of `way`, and how many came.
    pub(crate) fn counts(&self, way: Way) -> (u32, u32) {
        let whole = |shot: &&Shot| shot.way == way && shot.probe.goes_all_the_way();
        let came = self.shots.iter().filter(whole).filter(|shot| shot.arrived);
        let sent = self.shots.iter().filter(whole).count();
        (sent as u32, came.count() as u32)
    }

    /// Whether of some kind too few have come to say that they come as they were sent.
    pub(crate) fn lacks(&self, way: Way, udp: bool) -> bool {
        let few = |of: &dyn Fn(&Probe) -> bool| {
            let came = self.arrivals.iter();
            let came = came.filter(|(other, probe)| *other == way && of(probe));
            (came.count() as u32) < ENOUGH
        };
        let data = |probe: &Probe| matches!(probe.shape, Shape::Udp | Shape::Segment);
        [Ecn::Ect1, Ecn::Ect0, Ecn::Ce]
            .iter()
            .any(|ecn| few(&|probe| data(probe) && probe.ecn == *ecn))
            || few(&|probe| probe.shape == Shape::Segment)
            || few(&|probe| matches!(probe.shape, Shape::Syn | Shape::SynData))
            || udp && few(&|probe| probe.shape == Shape::Udp)
    }
}
