//! Clients of servers that vanish, fail or are hostile.

use std::net::{Ipv4Addr, TcpListener};

use super::super::wire::{Report, SenderEnd, StreamSample};
use super::*;

const TOKEN: &[u8] = b"0123456789abcdef";

const KEY_OF_SESSION: [u8; KEY] = [9; KEY];

/// A call of 126 bytes each 1.6 s, and an object.
const MIX: &str = "label: voice
client:
  at: [0s]
  config: {server-address: h, udp: true, length: 126, target-bitrate: 630, time-s: 16}
";

const OBJECT: &str = "label: page
client:
  at: [0s]
  config: {server-address: h, bytes: 123457}
";

/// The server's end of a session that has begun.
struct Far {
    control: Control,
    listener: TcpListener,
    socket: DatagramSocket,
    asked: Request,
}

impl Far {
    fn report(&mut self, report: &Report) -> std::io::Result<()> {
        self.control.send(report)
    }

    /// A datagram of transfer 0, once it is asked for.
    fn datagram(&self) {
        let until = std::time::Instant::now() + PATIENCE;
        let mut room = [0; 64];
        let (from, transfer) = loop {
            assert!(std::time::Instant::now() < until);
            let mut files = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut files, PollTimeout::from(ANSWER));
            let Ok(Some(got)) = self.socket.receive(&mut room) else {
                continue;
            };
            if let Some(Opening::Flow(n)) = Opening::parse(&room[..got.len], &KEY_OF_SESSION) {
                break (got.from, n);
            }
        };
        let head = Head {
            transfer,
            number: 0,
            sent_ns: 1,
        };
        let mut bytes = [0; 126];
        bytes[..HEAD].copy_from_slice(&head.to_bytes(&KEY_OF_SESSION));
        self.socket.send(from, 0, &bytes).unwrap();
    }

    /// Takes a connection and sends so many bytes on it.
    fn bytes(&self, n: usize) -> TcpStream {
        let (mut stream, _) = self.listener.accept().unwrap();
        let mut opening = [0; super::super::wire::OPENING];
        std::io::Read::read_exact(&mut stream, &mut opening).unwrap();
        std::io::Write::write_all(&mut stream, &vec![0; n]).unwrap();
        stream
    }
}

/// What a client has of a server that answers `answer` and then does `act`; the client waits for it
/// as long as `act` holds what it returns.
fn against<T: Send>(
    files: &[&str],
    answer: impl FnOnce([u16; 2]) -> Answer + Send,
    act: impl FnOnce(Far) -> T + Send,
) -> Result<TrafficResult, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let mix = Mix::of_files(files.iter().map(|text| ("flow.yaml", *text))).unwrap();
    let wanted = |_: &SocketAddr| true;
    let mut request = RunRequest::new(mix, &at.to_string(), Token::of(TOKEN), wanted).unwrap();
    request.grace = Duration::from_millis(500);
    request.silence = Duration::from_millis(500);
    request.offsets = Offsets::Together;
    std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            let stream = listener.accept().unwrap().0;
            let mut control = Control::accepted(stream, &Token::of(TOKEN)).unwrap();
            let until = std::time::Instant::now() + PATIENCE;
            let asked: Request = control.receive(until).unwrap();
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listener = TcpListener::bind(any).unwrap();
            let (socket, _) = DatagramSocket::bound(any, true).unwrap();
            let port = listener.local_addr().unwrap().port();
            let ports = [port, socket.local().unwrap().port()];
            control.send(&answer(ports)).unwrap();
            act(Far {
                control,
                listener,
                socket,
                asked,
            })
        });
        let result = run(&request, &AtomicBool::new(false), || {});
        // Only now is what the server holds dropped.
        there.join().unwrap();
        result
    })
}

fn session([tcp, udp]: [u16; 2]) -> Answer {
    Answer::Session {
        key: KEY_OF_SESSION,
        tcp,
        udp,
        quic: None,
    }
}

fn why(result: &TrafficResult) -> &str {
    assert!(!result.whole, "{result}");
    result.why.as_deref().unwrap()
}

#[test]
fn a_server_that_sends_nothing_more_ends_a_run_that_is_not_whole_and_what_it_sent_is_unknown() {
    let result = against(&[MIX, OBJECT], session, |far| {
        far.datagram();
        (far.bytes(1_000), far)
    });
    let result = result.unwrap();
    assert!(why(&result).contains("nothing was received"), "{result}");
    let [voice, page] = &result.sets[..] else {
        panic!("{result}");
    };
    assert_eq!((voice.received_bytes, page.received_bytes), (126, 1_000));
    assert_eq!(
        (voice.sent_bytes, voice.packets, voice.lost),
        (None, None, None)
    );
    assert_eq!((result.datagrams_sent, result.sent_late), (None, None));
    // What the sender did not report of its connection, the receiver has.
    let rows: Vec<_> = result
        .streams
        .iter()
        .map(|row| (row.bytes, row.cwnd))
        .collect();
    assert_eq!(rows, [(1_000, None)]);
    let text = result.to_string();
    assert!(
        text.contains("unknown") && !text.contains("0.000 %"),
        "{text}"
    );
}

#[test]
fn what_was_received_of_a_server_that_is_gone_or_stopped_counts() {
    for stopped in [false, true] {
        let result = against(&[MIX, OBJECT], session, |mut far| {
            far.datagram();
            let stream = far.bytes(1_000);
            if stopped {
                let end = SenderEnd {
                    written: vec![(0, 2 * 126), (1, 2_000)],
                    datagrams: 2,
                    why: Some("the server was stopped".to_owned()),
                    ..SenderEnd::default()
                };
                far.report(&Report::End(end)).unwrap();
            }
            drop((stream, far));
        });
        let result = result.unwrap();
        assert!(why(&result).contains("the server"), "{result}");
        let [voice, page] = &result.sets[..] else {
            panic!("{result}");
        };
        assert_eq!(voice.received_bytes, 126, "{result}");
        assert_eq!(voice.packets_received, 1, "{result}");
        assert_eq!(page.received_bytes, 1_000, "{result}");
        assert_eq!(voice.lost, stopped.then_some(1), "{result}");
        let reason = page.failed_why.as_deref().unwrap();
        assert!(
            reason.contains("ended after 1000 of 123457 bytes"),
            "{reason}"
        );
    }
}

#[test]
fn a_server_that_does_not_report_the_end_leaves_a_run_that_is_not_whole() {
    let result = against(&[OBJECT], session, |far| {
        far.bytes(123_457);
        // Its control connection ends with the request to end.
        let mut far = far;
        let until = std::time::Instant::now() + 2 * PATIENCE;
        let _: serde_json::Value = far.control.receive(until).unwrap();
    });
    let result = result.unwrap();
    assert!(why(&result).contains("did not report the end"), "{result}");
    assert_eq!(result.sets[0].complete, 1, "{result}");
}

#[test]
fn samples_without_end_end_the_run_with_a_reason() {
    let result = against(&[OBJECT], session, |mut far| {
        let stream = far.bytes(1_000);
        let sample = |i: u64| StreamSample {
            transfer: 0,
            at_ns: i * 1_000,
            span_ns: 1_000,
            bytes: 0,
            retransmissions: 0,
            cwnd: 1,
            rtt_us: 1,
            rttvar_us: Some(1),
            pmtu: 1_500,
        };
        let mut i = 0;
        let until = std::time::Instant::now() + 2 * PATIENCE;
        loop {
            assert!(std::time::Instant::now() < until, "{i} samples were taken");
            let report = Report::Samples((i..i + 20).map(sample).collect());
            if far.report(&report).is_err() {
                return (stream, far);
            }
            i += 20;
        }
    });
    let result = result.unwrap();
    assert!(
        why(&result).contains("more samples than intervals"),
        "{result}"
    );
    assert!(result.streams.len() < 100, "{}", result.streams.len());
}

#[test]
fn what_a_server_says_is_printed_without_what_a_terminal_would_obey() {
    let evil = format!("\u{1b}]0;title\u{7}\u{202e}{}", "a".repeat(10_000));
    let refused = against(&[OBJECT], |_| Answer::Refused(evil.clone()), drop).unwrap_err();
    let result = against(&[OBJECT], session, |mut far| {
        let end = SenderEnd {
            why: Some(evil.clone()),
            ..SenderEnd::default()
        };
        far.report(&Report::End(end)).unwrap();
        far
    });
    let result = result.unwrap();
    for text in [refused.to_string(), why(&result).to_owned()] {
        assert!(text.contains("title"), "{text:?}");
        let plain = |c: char| !c.is_control() && c != '\u{202e}';
        assert!(text.chars().all(plain) && text.len() < 400, "{text:?}");
    }
}

#[test]
fn connections_that_fail_say_why_and_the_run_is_not_whole() {
    let twice = OBJECT.replace("at: [0s]", "at: [0s, 10ms]");
    let result = against(&[&twice], session, |far| {
        let Far {
            mut control,
            listener,
            asked,
            socket,
        } = far;
        drop(listener);
        let until = std::time::Instant::now() + 2 * PATIENCE;
        let _: serde_json::Value = control.receive(until).unwrap();
        control.send(&Report::End(SenderEnd::default())).unwrap();
        (control, asked, socket)
    });
    let result = result.unwrap();
    let said = "2 of 2 transfers failed, the first of them page: Connection refused";
    assert!(why(&result).starts_with(said), "{result}");
    assert_eq!(result.sets[0].failed, 2, "{result}");
    let reason = result.sets[0].failed_why.as_deref();
    assert_eq!(reason, Some("Connection refused"), "{result}");
}

#[test]
fn a_rate_is_over_the_time_of_its_flows_and_not_over_the_wait_for_others() {
    let short = MIX.replace("time-s: 16", "time-s: 1.5");
    let result = against(&[&short, OBJECT], session, |mut far| {
        far.datagram();
        let until = std::time::Instant::now() + 4 * PATIENCE;
        let connection = far.listener.accept().unwrap();
        loop {
            assert!(std::time::Instant::now() < until);
            let soon = std::time::Instant::now() + PATIENCE / 50;
            if far.control.receive::<serde_json::Value>(soon).is_ok() {
                break;
            }
            far.report(&Report::Samples(Vec::new())).unwrap();
        }
        assert_eq!(far.asked.transfers.len(), 2);
        let end = SenderEnd {
            datagrams: 1,
            written: vec![(0, 126)],
            ..SenderEnd::default()
        };
        far.report(&Report::End(end)).unwrap();
        (far, connection)
    });
    let result = result.unwrap();
    let [voice, page] = &result.sets[..] else {
        panic!("{result}");
    };
    assert_eq!((voice.complete, page.complete), (1, 0), "{result}");
    assert_eq!(voice.seconds, 1.5, "{result}");
    assert_eq!((page.seconds, result.seconds), (0.0, 1.5), "{result}");
}

#[test]
fn a_time_that_the_server_measures_may_be_a_little_shorter_by_our_clock() {
    let early = |ms| {
        let bulk = Sends::Bulk(Duration::from_secs(60));
        client::ended_early(&bulk, 1, Duration::from_millis(ms))
    };
    assert_eq!(early(60_000), None);
    // The clocks drift by 50 ppm.
    assert_eq!(early(59_997), None);
    assert!(
        early(59_000).is_some_and(|why| why.contains("of 60s")),
        "{:?}",
        early(59_000)
    );
}
