//! What the live path does to packets, between sockets that take the place of TUN
//! devices: each write and each read is one packet, as there. No rights are
//! needed, and nothing here depends on how fast the machine is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use narrows_core::{DropCause, Event, EventSink, FlowId};
use narrows_linux::Clock;
use narrows_live::datapath::{Datapath, Driven};
use narrows_live::{Report, RunHandle, reports};
use narrows_scenario::{Draft, Plan};
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{CaptureReader, Direction, Interface, PcapngWriter, ToWrite};
use narrows_wire::ip::{self, Ecn};
use narrows_wire::link::LinkType;
use narrows_wire::{IpFields, UdpFields};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

fn plan(toml: &str) -> Plan {
    let text = format!("version = 1\nname = \"test\"\n{toml}");
    match Draft::read("test.toml", text.as_bytes()).and_then(|d| d.check()) {
        Ok(plan) => plan,
        Err(refusal) => panic!("{refusal:?}\n{text}"),
    }
}

/// One link with these elements up and none down, and one flow of datagrams.
fn link(up: &str, more: &str) -> Plan {
    plan(&format!(
        "duration = \"600ms\"\n{more}\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\nmtu = 1500\n\
         up = [{up}]\n\
         [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ntraffic = \"cbr rate 1Mbit\"\n"
    ))
}

/// An event without its packet, and what the tests want to know of that.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Sent(u64, Option<FlowId>),
    Received(u64, Option<FlowId>),
    Marked(u64),
    Dropped(u64, DropCause),
    Dequeued(u64),
    Delivered(u64),
    Sampled,
}

#[derive(Default)]
struct Record {
    seen: Vec<(Instant, Seen)>,
    capture: Option<PcapngWriter<Vec<u8>>>,
}

impl EventSink for Record {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        let last = self.seen.last().map_or(Instant::ZERO, |s| s.0);
        assert!(now >= last, "time goes back from {last} to {now}");
        let seen = match event {
            Event::Sent { packet, .. } => Seen::Sent(packet.id.0, packet.flow),
            Event::Received { packet, .. } => Seen::Received(packet.id.0, packet.flow),
            Event::Marked { packet, .. } => Seen::Marked(packet.id.0),
            Event::Dropped { packet, cause, .. } => Seen::Dropped(packet.id.0, cause),
            Event::Dequeued { packet, .. } => Seen::Dequeued(packet.id.0),
            Event::Delivered { bytes, .. } => Seen::Delivered(bytes),
            Event::QueueSampled { .. } => Seen::Sampled,
            Event::Tapped { packet, .. } => {
                let to_write = ToWrite {
                    at: now,
                    bytes: &packet.bytes,
                    zero_tail: packet.zero_tail,
                    cut: 0,
                    id: Some(packet.id.0),
                    direction: Some(Direction::Outbound),
                    comment: None,
                };
                let capture = self.capture.as_mut().expect("a tap is captured");
                capture.write(0, &to_write).expect("memory takes it");
                return;
            }
            _ => return,
        };
        self.seen.push((now, seen));
    }
}

impl Record {
    fn ids(&self, pick: impl Fn(&Seen) -> Option<u64>) -> Vec<u64> {
        self.seen.iter().filter_map(|(_, s)| pick(s)).collect()
    }

    fn received(&self) -> Vec<u64> {
        self.ids(|s| match s {
            Seen::Received(id, _) => Some(*id),
            _ => None,
        })
    }
}

/// A link's two ends: the path's side, and the side of the stack. The latter
/// waits until there is something to read, or room to write.
struct TunEnds {
    path: [File; 2],
    stack: [File; 2],
}

impl TunEnds {
    fn new() -> Self {
        let ((a, x), (b, y)) = (pair(), pair());
        Self {
            path: [a, b],
            stack: [x, y],
        }
    }
}

fn pair() -> (File, File) {
    let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, kind, None, flags).expect("a pair of sockets");
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a socket obeys");
    (ours.into(), theirs.into())
}

/// Opens when the path first reports progress: what is offered then comes
/// while the path runs.
#[derive(Default)]
struct Gate(AtomicBool);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn wait(&self) {
        while !self.0.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }
}

/// Drives `plan` over one link; when it runs `offer` is written at the first
/// end. What comes out at the second end is read by a thread of its own, as a
/// socket does not hold much.
fn drive(plan: &Plan, offer: Vec<Vec<u8>>, record: &mut dyn EventSink) -> (Driven, Vec<Vec<u8>>) {
    let TunEnds { path, stack } = TunEnds::new();
    let [mut near, mut far] = stack;
    let clock = Clock::starting_in(Duration::from_millis(5));
    let (_reporter, reports) = reports(0);
    let open = Gate::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            open.wait();
            for packet in offer {
                near.write_all(&packet).expect("the path reads");
            }
        });
        let reader = scope.spawn(move || {
            let mut got = Vec::new();
            let mut buffer = vec![0; 65_536];
            while let Ok(n @ 1..) = far.read(&mut buffer) {
                got.push(buffer[..n].to_vec());
            }
            got
        });
        let fds = [(path[0].as_fd(), path[1].as_fd())];
        let mut built = Datapath::new(plan, 1, &fds).expect("the plan is good");
        let progress = |_| open.open();
        let handle = RunHandle {
            progress: Some(&progress),
            ..RunHandle::default()
        };
        let driven = built.drive(&clock, &reports, record, &handle);
        drop(built);
        // Ends the reader.
        drop(path);
        let got = reader.join().expect("the reader ends");
        (driven.expect("the path runs"), got)
    })
}

/// A UDP packet of the plan's flow, numbered in its payload.
fn packet(plan: &Plan, number: u32, payload: usize, ecn: Ecn) -> Vec<u8> {
    let ends = plan.flow_ends(0);
    datagram(ends.opener.1, ends.answerer.1, number, payload, ecn)
}

fn datagram(from: SocketAddr, to: SocketAddr, number: u32, payload: usize, ecn: Ecn) -> Vec<u8> {
    let mut data = vec![0x5a; payload];
    data[..4].copy_from_slice(&number.to_be_bytes());
    let mut bytes = Vec::new();
    IpFields {
        source: from.ip(),
        destination: to.ip(),
        traffic_class: ecn as u8,
        ttl: 64,
        protocol: ip::UDP,
        ident: number,
    }
    .write(&mut bytes, 8 + payload);
    UdpFields {
        source_port: from.port(),
        destination_port: to.port(),
    }
    .write(&mut bytes, from.ip(), to.ip(), &data, 0);
    bytes
}

fn number(bytes: &[u8]) -> u32 {
    let at = if bytes[0] >> 4 == 4 { 28 } else { 48 };
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn conserves(driven: &Driven) {
    assert_eq!(
        driven.packets,
        driven.delivered + driven.dropped + driven.in_flight,
        "{driven:?}"
    );
}

#[test]
fn packets_come_out_whole_in_order_and_are_of_their_flow() {
    let plan = link("\"netem delay 5ms\", \"rate 50Mbit\"", "");
    let mut record = Record::default();
    let offer: Vec<_> = (0..200)
        .map(|i| packet(&plan, i, 40 + 7 * i as usize, Ecn::NotEct))
        .collect();
    let (driven, got) = drive(&plan, offer.clone(), &mut record);
    assert_eq!(got, offer);
    assert_eq!(record.received(), (0..200).collect::<Vec<_>>());
    let of_flow = |s: &Seen| match s {
        Seen::Sent(_, flow) | Seen::Received(_, flow) => *flow == Some(FlowId(0)),
        _ => true,
    };
    assert!(record.seen.iter().all(|(_, s)| of_flow(s)));
    assert_eq!((driven.delivered, driven.in_flight), (200, 0));
    assert_eq!(driven.lateness.count, 200);
    assert!(driven.lateness.max_us >= driven.lateness.p99_us);
    assert!(!driven.interrupted);
    assert_eq!(driven.reached, Instant::ZERO + plan.duration);
    conserves(&driven);
}

#[test]
fn marks_that_arrive_are_those_that_the_queue_reported() {
    let plan = link(
        "\"rate 20Mbit queue fq_codel ce_threshold 1ms limit 60\"",
        "",
    );
    let mut record = Record::default();
    let offer = (0..100)
        .map(|i| {
            packet(
                &plan,
                i,
                1400,
                if i % 2 == 0 { Ecn::Ect1 } else { Ecn::Ect0 },
            )
        })
        .collect();
    let (driven, got) = drive(&plan, offer, &mut record);
    let reported = record.ids(|s| match s {
        Seen::Marked(id) => Some(*id),
        _ => None,
    });
    // Ids count from the first packet that entered.
    let arrived: Vec<_> = got
        .iter()
        .filter(|p| ip::ecn(p) == Ecn::Ce)
        .map(|p| u64::from(number(p)))
        .collect();
    assert!(!reported.is_empty() && reported.len() < got.len());
    assert_eq!(arrived, reported);
    let whole = |p: &Vec<u8>| narrows_wire::checksum::of(&p[..20]) == 0;
    assert!(got.iter().all(whole), "a mark breaks no checksum");
    conserves(&driven);
}

#[test]
fn what_goes_in_comes_out_or_is_dropped_or_waits() {
    // 300 packets of 242 µs each at 50 Mbit/s do not fit into 40, and what
    // waits behind 590 ms is still there at the end.
    let plan = link(
        "\"rate 50Mbit queue pfifo limit 40\", \"netem delay 500ms loss 10%\"",
        "",
    );
    let mut record = Record::default();
    let offer = (0..300)
        .map(|i| packet(&plan, i, 1472, Ecn::NotEct))
        .collect();
    let (driven, got) = drive(&plan, offer, &mut record);
    let mut drops: BTreeMap<DropCause, u64> = BTreeMap::new();
    for (_, seen) in &record.seen {
        if let Seen::Dropped(_, cause) = seen {
            *drops.entry(*cause).or_default() += 1;
        }
    }
    assert!(drops[&DropCause::Overflow] > 0 && drops[&DropCause::Loss] > 0);
    assert_eq!(drops.values().sum::<u64>(), driven.dropped);
    assert_eq!(got.len() as u64, driven.delivered);
    assert_eq!(driven.packets, 300);
    conserves(&driven);
}

#[test]
fn a_late_thread_costs_a_link_none_of_its_capacity() {
    /// Sleeps for a while at every tenth event.
    #[derive(Default)]
    struct Sluggish(Record);
    impl EventSink for Sluggish {
        fn record(&mut self, now: Instant, event: Event<'_>) {
            self.0.record(now, event);
            if self.0.seen.len() % 10 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        }
    }
    let plan = link("\"rate 20Mbit overhead 14 queue pfifo limit 200\"", "");
    let offer = (0..100)
        .map(|i| packet(&plan, i, 1472, Ecn::NotEct))
        .collect();
    let mut sink = Sluggish::default();
    let (driven, got) = drive(&plan, offer, &mut sink);
    assert_eq!((driven.delivered, got.len()), (100, 100));
    let left: Vec<_> = sink
        .0
        .seen
        .iter()
        .filter(|(_, s)| matches!(s, Seen::Dequeued(_)))
        .map(|(t, _)| t.as_nanos())
        .collect();
    assert_eq!(left.len(), 100);
    // Once there is a standing queue, packet after packet: 1514 × 8 bits / 20 Mbit/s.
    let back_to_back = left.windows(2).filter(|w| w[1] - w[0] == 605_600).count();
    assert!(back_to_back >= 50, "{back_to_back} of 99");
}

#[test]
fn ipv6_passes_and_is_marked() {
    let toml = "duration = \"1500ms\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [\"rate 20Mbit queue fq_codel ce_threshold 100us\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\nip = 6\ntraffic = \"cbr rate 1Mbit\"\n";
    let plan = plan(toml);
    let mut record = Record::default();
    let offer: Vec<_> = (0..30).map(|i| packet(&plan, i, 1000, Ecn::Ect1)).collect();
    let (driven, got) = drive(&plan, offer, &mut record);
    assert_eq!(got.len(), 30);
    assert!(got.iter().all(|p| p[0] >> 4 == 6));
    assert!(got.iter().any(|p| ip::ecn(p) == Ecn::Ce));
    assert!(
        record
            .seen
            .iter()
            .any(|(_, s)| matches!(s, Seen::Received(_, Some(FlowId(0)))))
    );
    conserves(&driven);
}

#[test]
fn neighbours_talk_does_not_enter_and_strangers_have_no_flow() {
    let plan = link("\"netem delay 1ms\"", "");
    let address = |text: &str| SocketAddr::new(text.parse::<IpAddr>().expect("an address"), 9);
    let ends = plan.flow_ends(0);
    let stranger = SocketAddr::new(ends.answerer.1.ip(), 5_201);
    let offer = vec![
        datagram(address("fe80::1"), address("ff02::2"), 0, 8, Ecn::NotEct),
        datagram(ends.opener.1, address("224.0.0.22"), 1, 8, Ecn::NotEct),
        datagram(ends.opener.1, stranger, 2, 8, Ecn::NotEct),
    ];
    let mut record = Record::default();
    let (driven, got) = drive(&plan, offer, &mut record);
    assert_eq!(got.iter().map(|p| number(p)).collect::<Vec<_>>(), [2]);
    assert_eq!((driven.packets, driven.neighbours), (1, 2));
    let seen: Vec<_> = record.seen.iter().map(|(_, s)| s.clone()).collect();
    assert_eq!(seen, [Seen::Sent(0, None), Seen::Received(0, None)]);
}

#[test]
fn a_capture_at_a_tap_holds_what_the_receiver_got() {
    let plan = link("\"netem delay 2ms loss 20%\", \"tap last\"", "");
    let mut capture = PcapngWriter::new(Vec::new(), "test").expect("memory takes it");
    capture
        .add_interface(&Interface {
            name: "tap/last".to_owned(),
            link: LinkType::RAW,
            snaplen: 0,
        })
        .expect("memory takes it");
    let mut record = Record {
        capture: Some(capture),
        ..Record::default()
    };
    let offer = (0..100)
        .map(|i| packet(&plan, i, 200, Ecn::NotEct))
        .collect();
    let (_, got) = drive(&plan, offer, &mut record);
    assert!(!got.is_empty() && got.len() < 100);
    let file = record
        .capture
        .expect("it is there")
        .finish()
        .expect("it ends");
    let mut reader = CaptureReader::new(&file[..]).expect("it can be read");
    let mut captured = Vec::new();
    while let Some(one) = reader.read().expect("it can be read") {
        captured.push(one.ip_packet().expect("an IP packet").to_vec());
    }
    assert_eq!(captured, got);
}

#[test]
fn what_other_threads_report_is_recorded_in_order_of_time() {
    let plan = link("\"rate 50Mbit\"", "sample_interval = \"10ms\"");
    let ends = TunEnds::new();
    let fds = [(ends.path[0].as_fd(), ends.path[1].as_fd())];
    let mut path = Datapath::new(&plan, 1, &fds).expect("the plan is good");
    let clock = Clock::starting_now();
    let (reporter, reports) = reports(0);
    for bytes in 1..=200 {
        let flow = FlowId(0);
        // Some of it before what the sink has received by then, some ahead.
        let at = Instant::from_nanos(bytes * 77_000_000 % 500_000_000);
        reporter.report(at, Report::Delivered { flow, bytes });
    }
    let mut record = Record::default();
    path.drive(&clock, &reports, &mut record, &RunHandle::default())
        .expect("the path runs");
    let delivered = record.ids(|s| match s {
        Seen::Delivered(bytes) => Some(*bytes),
        _ => None,
    });
    assert_eq!(delivered, (1..=200).collect::<Vec<_>>());
    let samples = record.ids(|s| (*s == Seen::Sampled).then_some(0));
    assert_eq!(samples.len(), 60);
}

#[test]
fn what_came_before_the_run_began_is_let_in() {
    // A flow's first SYN and a probe's first question, sent while the path's
    // thread was still on its way: before the epoch, and after it.
    for lead_ms in [30, 0] {
        let plan = link("\"netem delay 1ms\"", "");
        let TunEnds { path, stack } = TunEnds::new();
        let [mut near, mut far] = stack;
        let offer: Vec<_> = (0..2).map(|i| packet(&plan, i, 40, Ecn::NotEct)).collect();
        for packet in &offer {
            near.write_all(packet).expect("the device holds it");
        }
        let clock = Clock::starting_in(Duration::from_millis(lead_ms));
        let fds = [(path[0].as_fd(), path[1].as_fd())];
        let mut built = Datapath::new(&plan, 1, &fds).expect("the plan is good");
        let (_reporter, reports) = reports(0);
        let mut record = Record::default();
        let driven = built.drive(&clock, &reports, &mut record, &RunHandle::default());
        let driven = driven.expect("the path runs");
        assert_eq!((driven.packets, driven.delivered), (2, 2), "{lead_ms} ms");
        for packet in &offer {
            let mut buffer = vec![0; 65_536];
            let n = far.read(&mut buffer).expect("it waits");
            assert_eq!(&buffer[..n], packet);
        }
    }
}

#[test]
fn a_run_ends_soon_after_it_is_cancelled() {
    let plan = plan(
        "duration = \"1h\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\nup = [\"netem delay 30min\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n",
    );
    let cancel = AtomicBool::new(false);
    let (sender, ticks) = channel();
    let sender = std::sync::Mutex::new(sender);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let ends = TunEnds::new();
            let fds = [(ends.path[0].as_fd(), ends.path[1].as_fd())];
            let mut path = Datapath::new(&plan, 1, &fds).expect("the plan is good");
            let progress = |now: Instant| {
                let sender = sender.lock().expect("nobody panics");
                let _ = sender.send(now);
            };
            let handle = RunHandle {
                cancel: Some(&cancel),
                progress: Some(&progress),
                ..RunHandle::default()
            };
            let mut record = Record::default();
            let (_reporter, reports) = reports(0);
            path.drive(&Clock::starting_now(), &reports, &mut record, &handle)
        });
        ticks.recv().expect("progress is reported");
        cancel.store(true, Ordering::Relaxed);
        let driven = run.join().expect("it ends").expect("it runs");
        // An hour had been planned.
        assert!(driven.interrupted);
        assert!(driven.reached < Instant::from_nanos(600_000_000_000));
    });
}

#[test]
fn each_link_needs_its_devices() {
    let plan = link("\"rate 50Mbit\"", "");
    let error = Datapath::new(&plan, 1, &[]).err().expect("it is refused");
    assert_eq!(
        error.to_string(),
        "1 links need as many pairs of devices; 0 were given"
    );
}
