//! What the server reports, as far as it can be true: a server may report anything, without end.

use narrows_traffic::{Sends, Transfer};
use narrows_units::{Duration, Instant};

use super::super::wire::{Report, SenderEnd, StreamSample, plain};
use super::MOST_ROWS;

/// Samples of a transfer beyond those of its whole intervals (our choice): its last, and those that
/// came late.
const MORE_SAMPLES: u64 = 16;

/// What was reported of a transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    samples: u64,
    /// When the last sample ended, by the server's clock.
    until_ns: u64,
    bytes: u64,
}

/// What the server has reported.
#[derive(Debug)]
pub(super) struct Reports {
    interval: Duration,
    of: Vec<Reported>,
    pub(super) samples: Vec<StreamSample>,
    pub(super) end: Option<SenderEnd>,
}

/// What the client knows, by which reports are judged.
#[derive(Clone, Copy)]
pub(super) struct Known<'c> {
    pub(super) now: Instant,
    /// Transfers, and when each was opened.
    pub(super) transfers: &'c [Transfer],
    pub(super) opened: &'c dyn Fn(usize) -> Option<Instant>,
}

impl Reports {
    pub(super) fn new(transfers: usize, interval: Duration) -> Self {
        Self {
            interval,
            of: vec![Reported::default(); transfers],
            samples: Vec::new(),
            end: None,
        }
    }

    /// When the last sample of a transfer ended, by the server's clock, and the bytes of all.
    pub(super) fn of(&self, transfer: usize) -> Option<(u64, u64)> {
        let reported = self.of.get(transfer).filter(|of| of.samples > 0)?;
        Some((reported.until_ns, reported.bytes))
    }

    /// Keeps a report.
    ///
    /// # Errors
    /// Of one that cannot be true: what it says.
    pub(super) fn take(&mut self, report: Report, known: Known<'_>) -> Result<(), String> {
        match report {
            Report::Samples(samples) => {
                for sample in samples {
                    self.check(&sample, known).map_err(|what| {
                        let transfer = sample.transfer;
                        format!("the server reports what cannot be: {what} of transfer {transfer}")
                    })?;
                    if self.samples.len() < MOST_ROWS {
                        self.samples.push(sample);
                    }
                }
            }
            Report::End(end) => {
                check_end(&end, known)
                    .map_err(|what| format!("the server reports what cannot be: {what}"))?;
                self.end = Some(SenderEnd {
                    why: end.why.as_deref().map(plain),
                    ..end
                });
            }
        }
        Ok(())
    }

    fn check(&mut self, sample: &StreamSample, known: Known<'_>) -> Result<(), &'static str> {
        let number = sample.transfer as usize;
        let transfer = known.transfers.get(number);
        let transfer = transfer.filter(|t| !matches!(t.sends, Sends::Datagrams { .. }));
        let (Some(transfer), Some(opened)) = (transfer, (known.opened)(number)) else {
            return Err("a sample without a connection");
        };
        let reported = &mut self.of[number];
        let open = known.now.since(opened);
        let whole = open.as_nanos() / self.interval.as_nanos().max(1);
        if reported.samples >= whole + MORE_SAMPLES {
            return Err("more samples than intervals");
        }
        let until_ns = sample.at_ns.checked_add(sample.span_ns);
        let Some(until_ns) = until_ns.filter(|_| sample.at_ns >= reported.until_ns) else {
            return Err("intervals that overlap");
        };
        let bytes = reported.bytes.checked_add(sample.bytes);
        let fits = |bytes: &u64| transfer.sends.bytes().is_none_or(|all| *bytes <= all);
        let Some(bytes) = bytes.filter(fits) else {
            return Err("more bytes than those");
        };
        *reported = Reported {
            samples: reported.samples + 1,
            until_ns,
            bytes,
        };
        Ok(())
    }
}

fn check_end(end: &SenderEnd, known: Known<'_>) -> Result<(), &'static str> {
    let mut all = 0_u64;
    let mut seen = vec![false; known.transfers.len()];
    for &(number, bytes) in &end.written {
        let number = number as usize;
        let transfer = known.transfers.get(number);
        let opened = (known.opened)(number).is_some();
        let Some(transfer) = transfer.filter(|_| opened && !seen[number]) else {
            return Err("bytes of a transfer that was not opened, or twice");
        };
        seen[number] = true;
        let whole = match transfer.sends {
            Sends::Datagrams { size, .. } => bytes % u64::from(size.max(1)) == 0,
            _ => true,
        };
        let Some(sum) = all.checked_add(bytes).filter(|_| whole) else {
            return Err("bytes that are no datagrams, or too many");
        };
        if transfer.sends.bytes().is_some_and(|most| bytes > most) {
            return Err("more bytes than a transfer has");
        }
        all = sum;
    }
    let packets = known.transfers.iter().filter_map(|t| t.sends.packets());
    let packets = packets.fold(0, u64::saturating_add);
    let counted = end.datagrams.saturating_add(end.refused);
    if counted > packets || end.late > counted {
        return Err("more datagrams than the mix has");
    }
    if end.latest_ns > known.now.as_nanos() {
        return Err("a datagram that was later than the run is long");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: u64 = 1_000_000_000;

    fn transfers() -> Vec<Transfer> {
        let datagrams = Sends::Datagrams {
            rate: 8_000,
            size: 100,
            until: narrows_traffic::Until::Bytes(1_000),
        };
        let of = |sends| Transfer {
            set: 0,
            instance: 0,
            start: Duration::ZERO,
            sends,
        };
        vec![
            of(Sends::Get(OBJECT)),
            of(datagrams),
            of(Sends::Bulk(Duration::from_secs(1))),
        ]
    }

    /// Takes reports `ms` after all transfers but the last were opened.
    fn take(reports: &mut Reports, ms: u64, report: Report) -> Result<(), String> {
        let transfers = transfers();
        let known = Known {
            now: Instant::from_nanos(0) + Duration::from_millis(ms),
            transfers: &transfers,
            opened: &|number| (number < 2).then(|| Instant::from_nanos(0)),
        };
        reports.take(report, known)
    }

    fn sample(transfer: u32, at_ms: u64) -> StreamSample {
        StreamSample {
            transfer,
            at_ns: at_ms * 1_000_000,
            span_ns: 200_000_000,
            bytes: 1,
            retransmissions: 0,
            cwnd: 1,
            rtt_us: 1,
            rttvar_us: Some(1),
            pmtu: 1_500,
        }
    }

    fn reports() -> Reports {
        Reports::new(3, Duration::from_millis(200))
    }

    #[test]
    fn a_transfer_has_no_more_samples_than_intervals() {
        let mut reports = reports();
        let mut taken = 0;
        let refused = loop {
            let next = Report::Samples(vec![sample(0, taken * 200)]);
            match take(&mut reports, 2_000, next) {
                Ok(()) => taken += 1,
                Err(why) => break why,
            }
            assert!(taken < 1_000);
        };
        assert_eq!(taken, 10 + MORE_SAMPLES);
        assert_eq!(reports.samples.len() as u64, taken);
        assert!(refused.contains("more samples than intervals"), "{refused}");
    }

    #[test]
    fn samples_that_cannot_be_are_refused() {
        let huge = StreamSample {
            bytes: OBJECT + 1,
            ..sample(0, 0)
        };
        let endless = StreamSample {
            span_ns: u64::MAX,
            ..sample(0, 1)
        };
        for (wrong, why) in [
            (sample(1, 0), "without a connection"),
            (sample(2, 0), "without a connection"),
            (sample(3, 0), "without a connection"),
            (huge, "more bytes"),
            (endless, "overlap"),
        ] {
            let refused = take(&mut reports(), 100, Report::Samples(vec![wrong]));
            assert!(
                refused.as_ref().is_err_and(|e| e.contains(why)),
                "{why}: {refused:?}"
            );
        }
        let mut reports = reports();
        let twice = Report::Samples(vec![sample(0, 0), sample(0, 0)]);
        let refused = take(&mut reports, 100, twice).unwrap_err();
        assert!(refused.contains("overlap"), "{refused}");
        assert_eq!(reports.samples.len(), 1);
    }

    #[test]
    fn an_end_that_cannot_be_is_refused() {
        let fits = SenderEnd {
            datagrams: 9,
            refused: 1,
            late: 10,
            latest_ns: 100_000_000,
            written: vec![(0, OBJECT), (1, 1_000)],
            ..SenderEnd::default()
        };
        let end = |change: &dyn Fn(&mut SenderEnd)| {
            let mut end = fits.clone();
            change(&mut end);
            take(&mut reports(), 100, Report::End(end))
        };
        assert_eq!(end(&|_| {}), Ok(()));
        let wrong: [&dyn Fn(&mut SenderEnd); 8] = [
            &|end| end.datagrams = u64::MAX,
            &|end| end.refused = u64::MAX,
            &|end| end.late = 11,
            &|end| end.latest_ns = u64::MAX,
            &|end| end.written = vec![(0, OBJECT + 1)],
            &|end| end.written = vec![(1, 999)],
            &|end| end.written = vec![(2, 1)],
            &|end| end.written = vec![(0, 1), (0, 1)],
        ];
        for (i, change) in wrong.into_iter().enumerate() {
            assert!(end(change).is_err(), "{i}");
        }
    }

    #[test]
    fn the_reason_of_a_server_is_plain_text_of_some_length() {
        let mut reports = reports();
        let end = SenderEnd {
            why: Some(format!("\u{1b}[31mred\n\u{202e}{}", "a".repeat(1_000))),
            ..SenderEnd::default()
        };
        take(&mut reports, 100, Report::End(end)).unwrap();
        let why = reports.end.unwrap().why.unwrap();
        assert!(why.starts_with("\\u{1b}[31mred\\n\\u{202e}aaa"), "{why}");
        assert!(why.chars().count() <= 203, "{why}");
    }
}
