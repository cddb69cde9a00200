//! From two samples of a sender to what happened between them.

use narrows_core::{FlowId, INFINITE_SSTHRESH, RecoveryEvent, TcpInfo};
use narrows_units::{Duration, Instant};

use crate::Report;

/// `TCP_CA_CWR`, `TCP_CA_Recovery`, `TCP_CA_Loss` (linux/tcp.h).
const CWR: u8 = 2;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// Remembers the last sample of a flow's sender.
///
/// What lies between two samples is seen only as far as counters show it:
///
/// - `RttSample` is the smoothed round trip at the sample, because the kernel
///   does not keep single ones: its percentiles are those of the smoothed
///   value, narrower than of the samples that a simulated sender reports. Of
///   Narrows' own controls in the kernel it is not used: they report single
///   ACKs, and each change of state, themselves.
/// - `Retransmitted` comes once for each segment that was sent again
///   (`tcpi_total_retrans`), all at the time of the sample, with
///   `tcpi_bytes_retrans` shared out among them.
/// - `Recovery` is a congestion state that a sample found new, or a new
///   slow-start threshold that an episode between two samples left behind: with
///   segments sent again it was a fast retransmit, with marks a reduction
///   after an ECN signal, and the first threshold without either the end of
///   slow start by the algorithm's choice. Of several episodes between two
///   samples one is seen. Timeouts are counted by the kernel itself from Linux
///   6.7 on (`tcpi_total_rto`), and none is missed; before, they are the state
///   Loss. Tail-loss probes and undone reductions do not show in `tcp_info`.
#[derive(Clone, Debug)]
pub struct SenderWatch {
    flow: FlowId,
    last: TcpInfo,
    since: Option<Instant>,
}

impl SenderWatch {
    /// Before the first sample.
    pub fn new(flow: FlowId) -> Self {
        Self {
            flow,
            last: TcpInfo {
                snd_ssthresh: INFINITE_SSTHRESH,
                ..TcpInfo::default()
            },
            since: None,
        }
    }

    /// Takes the sample of `at`, and reports what it shows.
    pub fn sample(&mut self, at: Instant, info: &TcpInfo, report: &mut dyn FnMut(Report)) {
        let flow = self.flow;
        let last = std::mem::replace(&mut self.last, *info);
        let since = *self.since.get_or_insert(if info.state >= ESTABLISHED {
            at
        } else {
            return;
        });
        if info.rtt > 0 {
            let rtt = Duration::from_micros(u64::from(info.rtt));
            report(Report::RttSample { flow, rtt });
        }
        resent(&last, info, |bytes| {
            report(Report::Retransmitted { flow, bytes });
        });
        recovery(&last, info, |event| {
            report(Report::Recovery { flow, event })
        });
        report(Report::Sampled {
            flow,
            sample: info.sample(),
        });
        if let Some(limited) = limited(flow, at.since(since), info)
            .filter(|_| limits(&last) != limits(info) || info.busy_time != last.busy_time)
        {
            report(limited);
        }
    }
}

/// Calls `each` with the bytes of every segment that was sent again.
fn resent(last: &TcpInfo, info: &TcpInfo, mut each: impl FnMut(u32)) {
    let segments = info.total_retrans.saturating_sub(last.total_retrans);
    if segments == 0 {
        return;
    }
    let bytes = match (info.bytes_retrans, last.bytes_retrans) {
        (Some(now), before) => now.saturating_sub(before.unwrap_or(0)),
        // Before Linux 4.19: full segments.
        (None, _) => u64::from(segments) * u64::from(info.snd_mss),
    };
    let (each_bytes, more) = (bytes / u64::from(segments), bytes % u64::from(segments));
    for n in 0..segments {
        let bytes = each_bytes + u64::from(u64::from(n) < more);
        each(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

fn recovery(last: &TcpInfo, info: &TcpInfo, mut each: impl FnMut(RecoveryEvent)) {
    let entered = |state| info.ca_state == state && last.ca_state != state;
    let timeouts = match info.total_rto {
        Some(now) => now.saturating_sub(last.total_rto.unwrap_or(0)),
        None => u16::from(entered(LOSS)),
    };
    let new_threshold = info.snd_ssthresh != last.snd_ssthresh && timeouts == 0;
    let resent = info.total_retrans != last.total_retrans;
    let marked = info.delivered_ce != last.delivered_ce;
    if entered(RECOVERY) || new_threshold && resent {
        each(RecoveryEvent::FastRetransmit);
    }
    if entered(CWR) || new_threshold && marked && !resent {
        each(RecoveryEvent::CongestionExperienced);
    }
    let unset = last.snd_ssthresh >= INFINITE_SSTHRESH;
    if new_threshold && unset && !resent && !marked && !entered(CWR) && !entered(RECOVERY) {
        each(RecoveryEvent::SlowStartExit);
    }
    for _ in 0..timeouts {
        each(RecoveryEvent::RetransmissionTimeout);
    }
}

fn limits(info: &TcpInfo) -> (Option<u64>, Option<u64>) {
    (info.rwnd_limited, info.sndbuf_limited)
}

fn limited(flow: FlowId, age: Duration, info: &TcpInfo) -> Option<Report> {
    let (receive_window, send_buffer, application) = info.limited(age)?;
    Some(Report::Limited {
        flow,
        receive_window,
        send_buffer,
        application,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use RecoveryEvent::*;

    const FLOW: FlowId = FlowId(4);

    fn samples(infos: &[TcpInfo]) -> Vec<Vec<Report>> {
        let mut watch = SenderWatch::new(FLOW);
        let sample = |(i, info): (usize, &TcpInfo)| {
            let mut seen = Vec::new();
            let at = Instant::ZERO + Duration::from_millis(50) * i as u64;
            watch.sample(at, info, &mut |report| seen.push(report));
            seen
        };
        infos.iter().enumerate().map(sample).collect()
    }

    fn established() -> TcpInfo {
        TcpInfo {
            state: 1,
            rtt: 20_000,
            snd_mss: 1448,
            snd_ssthresh: INFINITE_SSTHRESH,
            delivered_ce: Some(0),
            bytes_retrans: Some(0),
            total_rto: Some(0),
            busy_time: Some(0),
            rwnd_limited: Some(0),
            sndbuf_limited: Some(0),
            ..TcpInfo::default()
        }
    }

    fn recoveries(reports: &[Report]) -> Vec<RecoveryEvent> {
        let event = |r: &Report| match r {
            Report::Recovery { event, .. } => Some(*event),
            _ => None,
        };
        reports.iter().filter_map(event).collect()
    }

    #[test]
    fn each_segment_sent_again_is_reported_and_the_bytes_add_up() {
        let mut later = established();
        (later.total_retrans, later.bytes_retrans) = (3, Some(2900));
        let seen = samples(&[established(), later, later]);
        let resent = |reports: &[Report]| -> Vec<u32> {
            let bytes = |r: &Report| match r {
                Report::Retransmitted { bytes, .. } => Some(*bytes),
                _ => None,
            };
            reports.iter().filter_map(bytes).collect()
        };
        assert!(resent(&seen[0]).is_empty());
        assert_eq!(resent(&seen[1]), [967, 967, 966]);
        assert!(resent(&seen[2]).is_empty());
    }

    #[test]
    fn each_congestion_state_is_its_own_event() {
        let in_state = |ca_state, total_rto| TcpInfo {
            ca_state,
            total_rto,
            ..established()
        };
        let seen = samples(&[
            in_state(0, Some(0)),
            in_state(2, Some(0)),
            in_state(2, Some(0)),
            in_state(3, Some(0)),
            in_state(4, Some(2)),
            in_state(0, Some(3)),
        ]);
        assert_eq!(recoveries(&seen[1]), [CongestionExperienced]);
        assert!(recoveries(&seen[2]).is_empty());
        assert_eq!(recoveries(&seen[3]), [FastRetransmit]);
        assert_eq!(recoveries(&seen[4]), [RetransmissionTimeout; 2]);
        assert_eq!(recoveries(&seen[5]), [RetransmissionTimeout]);
        // A kernel that does not count them shows the state.
        let seen = samples(&[in_state(0, None), in_state(4, None), in_state(4, None)]);
        assert_eq!(recoveries(&seen[1]), [RetransmissionTimeout]);
        assert!(recoveries(&seen[2]).is_empty());
    }

    #[test]
    fn an_episode_between_two_samples_shows_by_its_threshold() {
        let after = |snd_ssthresh, total_retrans, delivered_ce| TcpInfo {
            snd_ssthresh,
            total_retrans,
            delivered_ce: Some(delivered_ce),
            ..established()
        };
        for (first, second, expected) in [
            (
                after(INFINITE_SSTHRESH, 0, 0),
                after(80, 2, 0),
                FastRetransmit,
            ),
            (after(80, 0, 0), after(70, 0, 3), CongestionExperienced),
            (after(80, 0, 1), after(70, 1, 3), FastRetransmit),
            (
                after(INFINITE_SSTHRESH, 0, 0),
                after(80, 0, 0),
                SlowStartExit,
            ),
        ] {
            let seen = samples(&[first, second, second]);
            assert_eq!(recoveries(&seen[1]), [expected]);
            assert!(recoveries(&seen[2]).is_empty());
        }
        // Segments sent again in an episode that goes on are none of a new one.
        let seen = samples(&[after(80, 2, 0), after(80, 5, 0)]);
        assert!(recoveries(&seen[1]).is_empty());
    }

    #[test]
    fn time_that_is_not_busy_had_nothing_to_send() {
        let mut later = established();
        (later.busy_time, later.rwnd_limited) = (Some(30_000), Some(10_000));
        let seen = samples(&[established(), later]);
        let expected = Report::Limited {
            flow: FLOW,
            receive_window: Duration::from_millis(10),
            send_buffer: Duration::ZERO,
            application: Duration::from_millis(20),
        };
        assert!(seen[1].contains(&expected), "{:?}", seen[1]);
    }
}
