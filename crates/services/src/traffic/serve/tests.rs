//! A server and its clients on the loopback interface.

use std::io::{Read, Write};
use std::sync::mpsc;

use narrows_traffic::{Mix, Offsets};

use super::*;
use crate::traffic::{ArrivedMarks, RunRequest, SetFigures, TrafficResult, run};

const TOKEN: &[u8] = b"0123456789abcdef";

/// A flow file of two datagram flows, as quick as tests want it.
const VOICE: &str = "label: voice
client:
  at: [0s, 50ms]
  config: {server-address: h, udp: true, length: 126, target-bitrate: 640K, time-s: 0.2, parallel: 2, tos: 0xb8}
";

const PAGES: &str = "label: page
client:
  at: [0s, 100ms]
  config: {server-address: h, bytes: 123457, parallel: 3}
";

const PACED: &str = "label: paced
client:
  at: [0s]
  config: {server-address: h, target-bitrate: 1M, time-s: 0.3}
";

/// Runs `act` with the address of a server that then ends; what it had counted.
fn with_server(limits: ServeLimits, act: impl FnOnce(SocketAddr)) -> TrafficCounts {
    let address = ["127.0.0.1:0".to_owned()];
    // The port 0 is none that may be named.
    let mut server = TrafficServer::new(&[], limits, Token::of(TOKEN)).unwrap();
    server.at = vec![address[0].parse().unwrap()];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let stop = &stop;
        let running = scope.spawn(move || server.serve(stop, |at| sender.send(at[0]).unwrap()));
        let at = receiver.recv().unwrap();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(at)));
        stop.store(true, Ordering::SeqCst);
        let counts = running.join().unwrap().unwrap();
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
        counts
    })
}

fn request(files: &[&str], at: SocketAddr, token: &[u8]) -> RunRequest {
    let files = files.iter().map(|text| ("flow.yaml", *text));
    let mix = Mix::of_files(files).unwrap();
    let mut request = RunRequest::new(mix, &at.to_string(), Token::of(token), |_| true).unwrap();
    request.offsets = Offsets::Spread;
    request
}

/// Holds that all of `PAGES` and `PACED` was sent and received.
fn pages_and_paced_are_whole(page: &SetFigures, paced: &SetFigures) {
    assert_eq!((page.complete, page.received_bytes), (6, 6 * 123_457));
    assert_eq!(page.sent_bytes, Some(page.received_bytes));
    assert_eq!((paced.complete, paced.received_bytes), (1, 37_500));
}

#[test]
fn a_mix_arrives_to_the_byte_with_delays_within_what_is_said_of_them() {
    let counts = with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let result = run(&request(&[VOICE, PAGES, PACED], at, TOKEN), &never, || {}).unwrap();
        assert!(result.whole, "{result}");
        let [voice, page, paced] = &result.sets[..] else {
            panic!("{result}");
        };
        // 128 kbit of datagrams of 126 bytes: 127 of each of four flows.
        assert_eq!(
            (voice.transfers, voice.packets, voice.lost),
            (4, Some(4 * 127), Some(0)),
            "{result}"
        );
        assert_eq!(voice.received_bytes, voice.due_bytes.unwrap());
        pages_and_paced_are_whole(page, paced);
        let within = result.clocks_within_ms.unwrap();
        let delay = voice.delay_ms.unwrap();
        assert!(delay.p50 >= -within, "{delay:?} within {within}");
        assert!(result.datagrams.iter().all(|row| row.tos == 0xb8));
        let of_rows: u64 = result.datagrams.iter().map(|row| row.bytes).sum();
        assert_eq!(of_rows, voice.received_bytes);
        let of_rows: u64 = result.streams.iter().map(|row| row.bytes).sum();
        assert_eq!(of_rows, page.received_bytes + paced.received_bytes);
        rows_follow_one_another(&result);
    });
    assert_eq!(
        (counts.sessions, counts.unauthenticated, counts.refused),
        (1, 0, 0)
    );
}

/// Each row begins when the one of its flow before has ended, and no sooner than the mix.
fn rows_follow_one_another(result: &TrafficResult) {
    let rows = result.datagrams.iter();
    let rows = rows.map(|row| (&row.flow, row.at_s, row.span_s));
    let streams = result.streams.iter();
    let rows = rows.chain(streams.map(|row| (&row.flow, row.at_s, row.span_s)));
    let mut ends = BTreeMap::new();
    for (flow, at, span) in rows {
        let before: f64 = ends.insert(flow, at + span).unwrap_or(result.began_s);
        // A time since 1970 has whole microseconds.
        assert!(at >= before - 5e-6, "{flow}: {at} {before}");
        assert!(span > 0.0, "{flow}: {span}");
    }
    assert!(!ends.is_empty());
}

#[test]
fn a_congestion_control_that_the_server_has_not_is_refused_before_anything_is_sent() {
    let counts = with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let mut request = request(&[PAGES], at, TOKEN);
        request.control = vec!["nosuch".parse().unwrap()];
        let error = run(&request, &never, || panic!("it began")).unwrap_err();
        let why = "does not have the congestion control `nosuch`";
        assert!(error.to_string().contains(why), "{error}");
    });
    assert_eq!((counts.sessions, counts.refused), (0, 1));
}

#[test]
fn as_many_connections_wait_as_the_system_allows() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let most: usize = most.trim().parse().unwrap();
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let at = listener.local_addr().unwrap();
    let connect = |_| TcpStream::connect_timeout(&at, PATIENCE).unwrap();
    let waiting: Vec<_> = (0..most.min(300)).map(connect).collect();
    assert!(!waiting.is_empty());
}

#[test]
fn the_oldest_connection_without_a_proof_makes_place_for_another() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let pair = || {
        let near = TcpStream::connect(at).unwrap();
        (near, listener.accept().unwrap().0)
    };
    let mut pending = Pending::default();
    let mut all = Vec::new();
    for i in 0..PENDING {
        let (near, far) = pair();
        let client = (i / PENDING_OF_CLIENT) as u128;
        all.push((near, pending.take(client, far).unwrap()));
    }
    // One client gets no more, and takes no place of another.
    assert_eq!(pending.take(0, pair().1), None);
    assert_eq!(pending.waiting.len(), PENDING);
    let (mut good, far) = pair();
    let place = pending.take(1_000, far).unwrap();
    assert_eq!(pending.waiting.len(), PENDING);
    let mut byte = [0];
    let (oldest, number) = &mut all[0];
    oldest.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(oldest.read(&mut byte).unwrap(), 0);
    assert!(pending.waiting.contains_key(&place));
    // Its thread gives back a place that it has no more.
    pending.give(*number);
    assert_eq!(pending.waiting.len(), PENDING);
    good.set_nonblocking(true).unwrap();
    let open = good.read(&mut byte).unwrap_err();
    assert_eq!(open.kind(), ErrorKind::WouldBlock);
}

#[test]
fn datagrams_arrive_with_the_marks_that_were_asked_for_and_connections_ask_for_ecn() {
    with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let mut request = request(&[VOICE, PAGES], at, TOKEN);
        request.dscp = vec!["voice=cs1".parse().unwrap()];
        request.ecn = vec!["voice=ect1".parse().unwrap()];
        let result = run(&request, &never, || {}).unwrap();
        let voice = &result.sets[0];
        assert_eq!(
            (voice.packets, voice.lost),
            (Some(4 * 127), Some(0)),
            "{result}"
        );
        // What differed from the class of the rows on arrival would be counted.
        assert_eq!(voice.marks, ArrivedMarks::default(), "{result}");
        assert!(result.datagrams.iter().all(|row| row.tos == 8 << 2 | 1));
        let said = result.to_string();
        let marks = "marks: voice with ect1, 0 of 508 datagrams arrived with CE\n";
        assert!(said.contains(marks), "{said}");
        request.ecn = vec!["ect0".parse().unwrap()];
        let result = run(&request, &never, || {});
        match narrows_linux::sysctl::asks_for_ecn() {
            true => assert_eq!(result.unwrap().sets[1].ecn_connections, 6),
            false => {
                let refusal = result.unwrap_err().to_string();
                assert!(refusal.contains("tcp_ecn=1"), "{refusal}");
            }
        }
    });
}

#[test]
fn who_has_not_the_token_gets_nothing() {
    let counts = with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let wrong = run(&request(&[PAGES], at, b"0123456789abcdeg"), &never, || {}).unwrap_err();
        assert!(wrong.to_string().contains("token"), "{wrong}");
        // Nor who says nothing that is a proof: the drawn bytes come, and then the end.
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        stream.write_all(&[0; 64]).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert_eq!(all.len(), 32);
    });
    assert_eq!((counts.sessions, counts.unauthenticated), (0, 2));
}

#[test]
fn what_is_beyond_a_limit_is_refused_in_words() {
    let limits = ServeLimits {
        rate: Rate::from_bits(500_000),
        transfers: 5,
        lasts: Duration::from_secs(60),
        ..ServeLimits::default()
    };
    let counts = with_server(limits, |at| {
        let never = AtomicBool::new(false);
        for (file, why) in [
            (VOICE, "640000 bit/s"),
            (PAGES, "6 transfers"),
            (PACED, "1000000 bit/s"),
        ] {
            let error = run(&request(&[file], at, TOKEN), &never, || {}).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let mut long = request(&[PAGES], at, TOKEN);
        long.grace = Duration::from_secs(600);
        let error = run(&long, &never, || {}).unwrap_err();
        assert!(error.to_string().contains("transfers"), "{error}");
    });
    assert_eq!((counts.sessions, counts.refused), (0, 4));
}

#[test]
fn one_client_cannot_take_all_places() {
    let mut of = BTreeMap::new();
    let taken = |of: &mut BTreeMap<u128, usize>, client| Present::take(of, client, 8, 4);
    assert_eq!((0..100).filter(|_| taken(&mut of, 1)).count(), 4);
    assert!(taken(&mut of, 2));
    Present::give(&mut of, 1);
    assert!(taken(&mut of, 1) && !taken(&mut of, 1));
    assert_eq!(
        (0..100)
            .filter(|client| taken(&mut of, *client + 10))
            .count(),
        3
    );
}

/// A transfer that ends with its session alone.
fn endless() -> String {
    PACED.replace("time-s: 0.3", "time-s: 600")
}

#[test]
fn a_client_with_its_half_of_the_sessions_gets_another_only_when_one_has_ended() {
    let limits = ServeLimits {
        sessions: 2,
        ..ServeLimits::default()
    };
    let counts = with_server(limits, |at| {
        let (sender, receiver) = mpsc::channel();
        let stop = AtomicBool::new(false);
        let never = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let file = endless();
            let long = request(&[&file], at, TOKEN);
            let stop = &stop;
            let first = scope.spawn(move || run(&long, stop, || sender.send(()).unwrap()));
            receiver.recv().unwrap();
            let refused = run(&request(&[PAGES], at, TOKEN), &never, || {});
            stop.store(true, Ordering::SeqCst);
            first.join().unwrap().unwrap();
            let why = refused.unwrap_err().to_string();
            assert!(why.contains("one client may have half"), "{why}");
        });
        // The server frees the place a moment after its client is gone.
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            match run(&request(&[PAGES], at, TOKEN), &never, || {}) {
                Ok(result) => break assert!(result.whole, "{result}"),
                Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
            }
        }
    });
    assert_eq!(counts.sessions, 2);
}

#[test]
fn rates_at_one_time_are_summed_and_those_after_each_other_are_not() {
    let limits = ServeLimits {
        rate: Rate::from_bits(1_500_000),
        ..ServeLimits::default()
    };
    let counts = with_server(limits, |at| {
        let never = AtomicBool::new(false);
        let twice = |second: &str| PACED.replace("at: [0s]", &format!("at: [0s, {second}]"));
        let error = run(&request(&[&twice("0.1s")], at, TOKEN), &never, || {}).unwrap_err();
        assert!(
            error.to_string().contains("2000000 bit/s in all"),
            "{error}"
        );
        // One of 300 ms has ended when the next begins.
        let result = run(&request(&[&twice("0.4s")], at, TOKEN), &never, || {}).unwrap();
        assert!(result.whole, "{result}");
    });
    assert_eq!((counts.sessions, counts.refused), (1, 1));
}

#[test]
fn a_session_serves_no_other_address_even_with_its_key() {
    with_server(ServeLimits::default(), |at| {
        let client = TcpStream::connect(at).unwrap();
        let mut control = Control::connected(client, &Token::of(TOKEN)).unwrap();
        let asked = crate::traffic::wire::Request {
            interval_ns: 1_000_000_000,
            lasts_ns: 30_000_000_000,
            sets: vec![crate::traffic::wire::SetOptions::default()],
            transfers: Mix::of_files([("flow.yaml", PAGES)])
                .unwrap()
                .schedule(Offsets::Spread, 1),
        };
        control.send(&asked).unwrap();
        let until = std::time::Instant::now() + PATIENCE;
        let Answer::Session { key, tcp, .. } = control.receive(until).unwrap() else {
            panic!("refused");
        };
        let received = |from: [u8; 4]| {
            let from = SocketAddr::from((from, 0));
            let socket = narrows_linux::tcp_options::TcpOptions::default();
            let socket = socket
                .socket(narrows_linux::tcp_options::family(from))
                .unwrap();
            narrows_linux::tcp_options::bind_to(&socket, from).unwrap();
            let to = nix::sys::socket::SockaddrIn::new(127, 0, 0, 1, tcp);
            let mut stream = TcpStream::from(socket);
            stream.set_nonblocking(false).unwrap();
            nix::sys::socket::connect(std::os::fd::AsRawFd::as_raw_fd(&stream), &to).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let flow = crate::traffic::wire::Opening::Flow(0).to_bytes(&key);
            let _ = stream.write_all(&flow);
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            all.len()
        };
        assert_eq!(received([127, 0, 0, 2]), 0);
        assert_eq!(received([127, 0, 0, 1]), 123_457);
    });
}

#[test]
fn connections_that_say_nothing_leave_places_for_others_and_are_closed() {
    let counts = with_server(ServeLimits::default(), |at| {
        let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(at).unwrap()).collect();
        // All of them are of one client, whose connections are then too many.
        let mut closed = 0;
        for mut stream in idle {
            stream.set_read_timeout(Some(PATIENCE * 3)).unwrap();
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            closed += usize::from(all.is_empty());
        }
        assert!(closed >= 100 - PENDING_OF_CLIENT, "{closed}");
        let never = AtomicBool::new(false);
        assert!(
            run(&request(&[PAGES], at, TOKEN), &never, || {})
                .unwrap()
                .whole
        );
    });
    assert_eq!(counts.sessions, 1);
}

#[test]
fn a_client_that_is_stopped_and_a_server_that_ends_leave_what_there_is() {
    let long = VOICE.replace("time-s: 0.2", "time-s: 60");
    let stopped = AtomicBool::new(true);
    with_server(ServeLimits::default(), |at| {
        let result = run(&request(&[&long], at, TOKEN), &stopped, || {}).unwrap();
        assert!(!result.whole && result.not_begun > 0, "{result}");
    });
    let never = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut client = None;
        with_server(ServeLimits::default(), |at| {
            let request = request(&[&long], at, TOKEN);
            let never = &never;
            let begun = move || sender.send(()).unwrap();
            client = Some(scope.spawn(move || run(&request, never, begun).unwrap()));
            receiver.recv().unwrap();
        });
        let result = client.unwrap().join().unwrap();
        assert!(!result.whole, "{result}");
        assert!(result.why.unwrap().contains("server"));
    });
}

fn by_quic(files: &[&str], at: SocketAddr) -> RunRequest {
    let mut request = request(files, at, TOKEN);
    request.control = vec!["quic:cubic".parse().unwrap()];
    request
}

#[test]
fn a_mix_by_quic_and_datagrams_arrives_to_the_byte_with_rows_of_what_quic_knows() {
    let counts = with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let mut request = by_quic(&[VOICE, PAGES, PACED], at);
        request.dscp = vec!["page=af11".parse().unwrap()];
        request.ecn = vec!["page=ect0".parse().unwrap()];
        let result = run(&request, &never, || {}).unwrap();
        assert!(result.whole, "{result}");
        let [voice, page, paced] = &result.sets[..] else {
            panic!("{result}");
        };
        let protocols = [voice, page, paced].map(|set| set.protocol);
        assert_eq!(protocols, ["udp", "quic", "quic"]);
        assert_eq!(
            (voice.packets, voice.lost),
            (Some(508), Some(0)),
            "{result}"
        );
        pages_and_paced_are_whole(page, paced);
        assert_eq!(page.completion_ms.unwrap().count, 6);
        // Of QUIC's packets it is known how many arrived.
        assert_eq!((page.packets, page.lost), (None, None));
        assert!(page.packets_received > 6 * 80, "{result}");
        assert_eq!((page.ecn_connections, paced.ecn_connections), (6, 0));
        assert_eq!(page.marks, ArrivedMarks::default());
        let said = result.to_string();
        let marks = "page with ECN on 6 of 6 connections, 0 of ";
        assert!(said.contains(marks), "{said}");
        let of_rows: u64 = result.streams.iter().map(|row| row.bytes).sum();
        assert_eq!(of_rows, page.received_bytes + paced.received_bytes);
        for row in &result.streams {
            assert_eq!((row.protocol, row.rttvar_ms), ("quic", None));
            assert!(
                row.cwnd.unwrap() > 0 && row.rtt_ms.unwrap() > 0.0,
                "{row:?}"
            );
            let tos = if row.flow.starts_with("page") {
                10 << 2 | 2
            } else {
                0
            };
            assert_eq!(row.tos, tos, "{row:?}");
        }
        rows_follow_one_another(&result);
    });
    assert_eq!((counts.sessions, counts.refused), (1, 0));
}

#[test]
fn a_mix_has_datagrams_and_connections_by_tcp_and_quic_together() {
    with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let modern = PAGES.replace("label: page", "label: modern");
        let mut request = request(&[VOICE, PAGES, &modern], at, TOKEN);
        request.control = vec!["modern=quic:newreno".parse().unwrap()];
        let result = run(&request, &never, || {}).unwrap();
        assert!(result.whole, "{result}");
        let of = |set: &SetFigures| (set.protocol, set.received_bytes);
        let sets: Vec<_> = result.sets.iter().map(of).collect();
        let page = 6 * 123_457;
        assert_eq!(
            sets,
            [("udp", 508 * 126), ("tcp", page), ("quic", page)],
            "{result}"
        );
    });
}

#[test]
fn a_hundred_fetches_by_quic_at_once_are_complete() {
    let counts = with_server(ServeLimits::default(), |at| {
        let never = AtomicBool::new(false);
        let many = PAGES.replace("at: [0s, 100ms]", "at: [0s]");
        let many = many.replace("parallel: 3", "parallel: 100");
        let result = run(&by_quic(&[&many], at), &never, || {}).unwrap();
        assert!(result.whole, "{result}");
        assert_eq!(result.sets[0].complete, 100, "{result}");
        assert_eq!(result.sets[0].received_bytes, 100 * 123_457, "{result}");
    });
    assert_eq!(counts.bytes, 100 * 123_457);
}

#[test]
fn a_server_that_is_stopped_ends_fetches_by_quic_with_what_there_is() {
    let never = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut client = None;
        with_server(ServeLimits::default(), |at| {
            let file = endless();
            let request = by_quic(&[&file], at);
            let never = &never;
            let begun = move || sender.send(()).unwrap();
            client = Some(scope.spawn(move || run(&request, never, begun).unwrap()));
            receiver.recv().unwrap();
        });
        let result = client.unwrap().join().unwrap();
        assert!(!result.whole, "{result}");
        assert_eq!(result.why.as_deref(), Some("the server was stopped"));
        let set = &result.sets[0];
        assert_eq!((set.complete, set.failed), (0, 1), "{result}");
    });
}
