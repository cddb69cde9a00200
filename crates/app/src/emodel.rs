//! How good speech sounds: the E-model of ITU-T G.107 with its defaults, of which delay and
//! loss are left.

/// R of G.711 without delay and loss: R0 − Is with the default values of G.107.
const BEST: f64 = 93.2;

/// Delay from which it disturbs talking, in ms (Cole and Rosenbluth, 2001, as an
/// approximation of Id in G.107 §7.4).
const DISTURBS: f64 = 177.3;

/// Equipment impairment of G.711 without loss (G.113 Appendix I).
const IE: f64 = 0.0;

/// Robustness to packet loss of G.711 with its concealment (G.113 Appendix I).
const BPL: f64 = 25.1;

/// What became of the speech of a window: `delays` of its packets in the order in which they
/// were sent, in ms from being complete to being there, `None` of one that is lost.
///
/// The time at which packets are played is the one that serves best, as if the receiver
/// knew: what comes later counts as lost. `packet_ms` of speech wait until a packet is full.
/// The mean opinion score; `None` of an empty window.
pub(crate) fn mos_of_window(delays: &[Option<f64>], packet_ms: f64) -> Option<f64> {
    if delays.is_empty() {
        return None;
    }
    // From the shortest delay on, each time at which packets might be played: those that are
    // there by then are no longer lost.
    let mut arrivals: Vec<(f64, usize)> = (0..delays.len())
        .filter_map(|n| delays[n].map(|delay| (delay, n)))
        .collect();
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut losses = Losses::of_all(delays.len());
    let mut best = 0.0;
    for together in arrivals.chunk_by(|a, b| a.0 == b.0) {
        for (_, packet) in together {
            losses.arrives(*packet);
        }
        let (loss, burst) = losses.in_bursts();
        best = r(together[0].0 + packet_ms, loss, burst).max(best);
    }
    Some(mos(best))
}

/// Which packets are lost.
struct Losses {
    lost: Vec<bool>,
    losses: usize,
    /// Runs of lost packets.
    bursts: usize,
}

impl Losses {
    fn of_all(packets: usize) -> Self {
        Self {
            lost: vec![true; packets],
            losses: packets,
            bursts: 1,
        }
    }

    /// A packet that was lost is not: it ends, shortens or splits a burst.
    fn arrives(&mut self, packet: usize) {
        let is_lost = |at: Option<usize>| at.and_then(|at| self.lost.get(at)).copied();
        let before = is_lost(packet.checked_sub(1)).unwrap_or(false);
        let behind = is_lost(packet.checked_add(1)).unwrap_or(false);
        self.bursts = self.bursts + usize::from(before) + usize::from(behind) - 1;
        self.losses -= 1;
        self.lost[packet] = false;
    }

    /// Per cent of packets that are lost, and BurstR: how much longer bursts of them are than
    /// those of losses that are independent (G.107 §7.5), not below 1.
    fn in_bursts(&self) -> (f64, f64) {
        if self.losses == 0 {
            return (0.0, 1.0);
        }
        let part = self.losses as f64 / self.lost.len() as f64;
        let burst = self.losses as f64 / self.bursts as f64 * (1.0 - part);
        (100.0 * part, burst.max(1.0))
    }
}

/// The transmission rating R = 93.2 − Id − Ie,eff of G.711 (G.107 §7.1), after `delay` ms
/// from mouth to ear, with `loss` per cent of packets lost in bursts of `burst`.
fn r(delay: f64, loss: f64, burst: f64) -> f64 {
    let id = 0.024 * delay + 0.11 * (delay - DISTURBS).max(0.0);
    let ie_eff = match loss > 0.0 {
        true => IE + (95.0 - IE) * loss / (loss / burst + BPL),
        false => IE,
    };
    BEST - id - ie_eff
}

/// The mean opinion score of R (G.107 Annex B).
fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        return 1.0;
    }
    if r >= 100.0 {
        return 4.5;
    }
    1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(measured: f64, expected: f64, within: f64) {
        assert!(
            (measured - expected).abs() <= within,
            "{measured} for {expected}"
        );
    }

    fn loss_of(lost: impl Iterator<Item = bool>) -> (f64, f64) {
        let lost: Vec<bool> = lost.collect();
        let mut losses = Losses::of_all(lost.len());
        for packet in (0..lost.len()).filter(|n| !lost[*n]) {
            losses.arrives(packet);
        }
        losses.in_bursts()
    }

    #[test]
    fn opinion_scores_are_those_of_the_published_table() {
        // G.107 Table B.1 (R and MOS at the borders of its five categories), and the default. The
        // formula of the same annex gives 4.024 where the table has 4.03.
        for (r, score) in [
            (93.2, 4.41),
            (90.0, 4.34),
            (80.0, 4.03),
            (70.0, 3.60),
            (60.0, 3.10),
            (50.0, 2.58),
            (0.0, 1.0),
            (-20.0, 1.0),
            (100.0, 4.5),
            (120.0, 4.5),
        ] {
            near(mos(r), score, 0.007);
        }
    }

    #[test]
    fn delay_costs_little_up_to_177_ms_and_much_beyond() {
        near(r(100.0, 0.0, 1.0), 93.2 - 2.4, 1e-9);
        near(r(177.3, 0.0, 1.0), 93.2 - 4.2552, 1e-9);
        // 0.024 · 300 + 0.11 · 122.7
        near(r(300.0, 0.0, 1.0), 93.2 - 7.2 - 13.497, 1e-9);
    }

    #[test]
    fn loss_costs_by_how_it_is_spread() {
        // 95 · P / (P + 25.1): 2 % cost 7.01, 10 % cost 27.07.
        near(r(0.0, 2.0, 1.0), 93.2 - 7.011, 1e-3);
        near(r(0.0, 10.0, 1.0), 93.2 - 27.066, 1e-3);
        // In bursts twice as long: 95 · 10 / (5 + 25.1).
        near(r(0.0, 10.0, 2.0), 93.2 - 31.561, 1e-3);
        let alternate = (0..100).map(|n| n % 10 == 0);
        assert_eq!(loss_of(alternate), (10.0, 1.0));
        let together = (0..100).map(|n| n < 10);
        assert_eq!(loss_of(together), (10.0, 9.0));
        assert_eq!(loss_of([false; 9].into_iter()), (0.0, 1.0));
        // Two bursts of ten, and one of twenty of which the middle arrived.
        let two = (0..100).map(|n| n / 10 == 1 || n / 10 == 4);
        assert_eq!(loss_of(two), (20.0, 8.0));
        let split = (0..100).map(|n| n < 21 && n != 10);
        assert_eq!(loss_of(split), (20.0, 8.0));
    }

    #[test]
    fn a_window_is_played_when_it_serves_best() {
        // On an even path all are played as they come.
        let even = [Some(30.0); 50];
        near(
            mos_of_window(&even, 20.0).unwrap(),
            mos(93.2 - 0.024 * 50.0),
            1e-9,
        );
        // One of a hundred that comes 500 ms late is given up, rather than waited for.
        let mut one_late = vec![Some(30.0); 100];
        one_late[40] = Some(530.0);
        let given_up = r(50.0, 1.0, 1.0);
        near(mos_of_window(&one_late, 20.0).unwrap(), mos(given_up), 1e-9);
        // Of those that come between 30 and 40 ms none is.
        let uneven: Vec<_> = (0..100).map(|n| Some(30.0 + f64::from(n % 11))).collect();
        near(
            mos_of_window(&uneven, 20.0).unwrap(),
            mos(r(60.0, 0.0, 1.0)),
            1e-9,
        );
        // A lost packet costs what a late one does.
        one_late[40] = None;
        near(mos_of_window(&one_late, 20.0).unwrap(), mos(given_up), 1e-9);
        assert_eq!(mos_of_window(&[None; 10], 20.0), Some(1.0));
        assert_eq!(mos_of_window(&[], 20.0), None);
    }
}
