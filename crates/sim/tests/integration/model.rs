//! Modelled flows in hosts of a run.

use crate::rig::{Digest, Record, plan, run};
use narrows_core::{DropCause, Event, EventSink};
use narrows_units::{Duration, Instant};
use narrows_wire::{Ip, Plus, QuicModel, Udp};

fn path(duration: &str, flow: &str) -> String {
    format!(
        r#"
duration = "{duration}"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms"]
down = ["bottleneck: rate 20Mbit queue pfifo limit 100", "netem delay 10ms"]
[[flow]]
name = "one"
from = "server"
to   = "client"
{flow}
"#
    )
}

#[test]
fn a_window_of_more_than_the_path_holds_fills_it() {
    for words in ["quic-model window 60", "plus window 60"] {
        let flow = format!("opens = \"client\"\ntransport = \"{words}\"");
        let mut record = Record::default();
        let outcome = run(&plan(&path("6s", &flow)), 1, &mut record);
        // 1129 or 1135 bytes of the stream in a frame of 1242.
        let mbit = record.goodput_mbit(0, 2, 6);
        assert!((17.5..=18.5).contains(&mbit), "{words}: {mbit}");
        assert!(outcome.flows[0].established && !outcome.flows[0].complete);
        assert_eq!(record.established.len(), 1);
        let (_, _, sample) = record.samples.last().expect("samples");
        assert_eq!((sample.cwnd, sample.in_flight), (60, 60));
        assert!(sample.srtt >= Duration::from_millis(20));
    }
}

#[test]
fn exact_bytes_arrive_exactly_whoever_opens_and_whatever_is_lost() {
    for more in [
        "",
        "opens = \"client\"\n",
        "ip = 6\n",
        "opens = \"client\"\nip = 6\n",
    ] {
        for words in ["quic-model", "plus rate 8Mbit"] {
            let flow = format!("{more}bytes = 300000\ntransport = \"{words}\"");
            let lossy = path("60s", &flow).replace(
                "netem delay 10ms",
                "netem delay 10ms 1ms loss random 2% duplicate 1%",
            );
            let mut record = Record::default();
            let outcome = run(&plan(&lossy), 1, &mut record);
            assert!(outcome.flows[0].complete, "{words} {more}");
            let delivered: u64 = record.delivered.iter().map(|(_, _, n)| n).sum();
            assert_eq!(delivered, 300_000, "{words} {more}");
            assert_eq!(record.finished.len(), 1);
        }
    }
}

#[test]
fn a_flow_that_is_stopped_ends_soon_and_all_that_it_sent_arrives() {
    let flow = "stop = \"2s\"\ntransport = \"quic-model window 60\"";
    let mut record = Record::default();
    run(&plan(&path("6s", flow)), 1, &mut record);
    let [(at, 0, _, true)] = record.finished[..] else {
        panic!("{:?}", record.finished);
    };
    let late = at.since(Instant::from_nanos(2_000_000_000));
    assert!(late < Duration::from_millis(500), "{late}");
}

/// What hosts sent, read as a path would.
#[derive(Default)]
struct Headers {
    long: u64,
    short: u64,
    plus: u64,
    lengths: Vec<usize>,
    too_big: u64,
}

impl EventSink for Headers {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::Dropped {
            cause: DropCause::TooBig,
            ..
        } = event
        {
            self.too_big += 1;
        }
        let Event::Sent { packet, .. } = event else {
            return;
        };
        let ip = Ip::parse(&packet.bytes).expect("an IP header");
        assert_eq!(ip.total_len, packet.len() as usize);
        let above = &packet.bytes[ip.header_len..];
        let udp = Udp::parse(above).expect("a UDP header");
        assert_eq!(usize::from(udp.length), ip.total_len - ip.header_len);
        self.lengths.push(ip.total_len);
        let payload = &above[narrows_wire::udp::HEADER_LEN..];
        if Plus::parse(payload).is_ok() {
            self.plus += 1;
            return;
        }
        match QuicModel::parse(payload).expect("modelled QUIC") {
            QuicModel::Long { .. } => self.long += 1,
            QuicModel::Short { .. } => self.short += 1,
        }
    }
}

#[test]
fn packets_have_real_headers_and_the_size_that_was_asked_for() {
    let with = |words: &str| {
        let flow = format!("bytes = 300000\ntransport = \"{words}\"");
        let mut headers = Headers::default();
        run(&plan(&path("6s", &flow)), 1, &mut headers);
        headers
    };
    let quic = with("quic-model size 1000");
    assert_eq!((quic.long, quic.plus, quic.too_big), (2, 0, 0));
    assert!(quic.short > 300);
    assert_eq!(quic.lengths.iter().max(), Some(&1_028));
    let plus = with("plus");
    assert_eq!((plus.long, plus.short), (0, 0));
    assert_eq!(plus.lengths.iter().max(), Some(&1_228));
}

#[test]
fn one_seed_gives_one_digest_and_another_seed_another() {
    for words in ["quic-model spin greased window 30", "plus rate 5Mbit"] {
        let flow = format!("transport = \"{words}\"");
        let plan = plan(&path("2s", &flow));
        let digest = |seed| {
            let mut digest = Digest::default();
            run(&plan, seed, &mut digest);
            digest.value()
        };
        assert_eq!(digest(1), digest(1), "{words}");
        assert_ne!(digest(1), digest(2), "{words}");
    }
}
