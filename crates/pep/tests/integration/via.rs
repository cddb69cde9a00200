//! An application that goes by a proxy: what it writes when, and what it is given of what
//! comes back.

use std::net::SocketAddr;

use crate::fake::Host;
use narrows_core::{
    App, ConnectionError, CountedBytes, Data, Datagram, DatagramError, Event, FlowId, Profile,
    Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField, Undelivered,
};
use narrows_pep::convert::{Fault, Message};
use narrows_pep::{FirstData, Layout, Route, Via, request};
use narrows_units::{Duration, Instant};

const PROXY: &str = "10.0.0.2:8803";

/// Bytes that are taken at once, unless said otherwise.
const ROOM: usize = 1 << 20;

/// A header alone: granted.
const GRANTED: [u8; 4] = [1, 1, 0x22, 0x63];

fn destination() -> SocketAddr {
    "192.0.2.7:443".parse().unwrap()
}

/// Connects at once, writes `data` when there is room, and keeps what it is given.
#[derive(Default)]
struct Client {
    socket: Option<SocketId>,
    written: bool,
    read: Vec<u8>,
    broken: bool,
    ended: bool,
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let socket = host.connect(Profile(0), None, destination())?;
        host.want_room(socket, true);
        // Who writes before there is room has nothing taken.
        self.written = host.write(socket, Data::Bytes(b"data")) == 4;
        self.socket = Some(socket);
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Writable if !self.written => {
                self.written = host.write(socket, Data::Bytes(b"data")) == 4;
            }
            SocketEvent::Readable => {
                host.read(socket, u64::MAX, Some(&mut self.read));
            }
            SocketEvent::PeerClosed => self.ended = true,
            SocketEvent::Broken(_) => self.broken = true,
            _ => {}
        }
    }
}

/// Keeps an application within reach of the test.
struct Shared<A>(std::sync::Arc<std::sync::Mutex<A>>);

impl<A: App> App for Shared<A> {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.0.lock().unwrap().start(host)
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        self.0.lock().unwrap().on_event(socket, event, host);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        self.0.lock().unwrap().on_timer(host);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        self.0.lock().unwrap().sample(host);
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        self.0.lock().unwrap().end(host);
    }
}

struct Rig {
    host: Host,
    client: std::sync::Arc<std::sync::Mutex<Client>>,
    via: Via<Shared<Client>>,
    socket: SocketId,
}

fn rig(layout: Layout, first_data: FirstData) -> Rig {
    rig_with_room(layout, first_data, ROOM)
}

fn rig_with_room(layout: Layout, first_data: FirstData, room: usize) -> Rig {
    let client = std::sync::Arc::new(std::sync::Mutex::new(Client::default()));
    let route = Route {
        proxy: PROXY.parse().unwrap(),
        layout,
        first_data,
    };
    let mut via = Via::new(Shared(client.clone()), route);
    let mut host = Host::new();
    host.room = room;
    via.start(&mut host).unwrap();
    let (socket, to) = host.onward().unwrap();
    assert_eq!(to, PROXY.parse().unwrap());
    Rig {
        host,
        client,
        via,
        socket,
    }
}

impl Rig {
    fn sent(&mut self) -> Vec<u8> {
        // There is always room.
        self.host.drains(&mut self.via, self.socket, 0);
        self.host.sent(self.socket)
    }

    fn arrives(&mut self, bytes: &[u8]) {
        self.host.arrives(&mut self.via, self.socket, bytes);
    }
}

#[test]
fn the_first_data_waits_for_what_it_is_said_to_wait_for() {
    let asked = request(Layout::Convert, destination(), None).unwrap();
    for (first_data, steps) in [
        (FirstData::WithRequest, ["data", "", ""]),
        (FirstData::AfterHandshake, ["", "data", ""]),
        (FirstData::AfterAnswer, ["", "", "data"]),
    ] {
        let mut rig = rig(Layout::Convert, first_data);
        assert_eq!(rig.sent(), [&asked, steps[0].as_bytes()].concat());
        rig.host.established(&mut rig.via, rig.socket);
        assert_eq!(rig.sent(), steps[1].as_bytes());
        rig.arrives(&GRANTED);
        assert_eq!(rig.sent(), steps[2].as_bytes());
    }
}

#[test]
fn a_socket_that_takes_nothing_before_it_is_open_gets_the_request_then() {
    let asked = request(Layout::Convert, destination(), None).unwrap();
    for first_data in [FirstData::WithRequest, FirstData::AfterHandshake] {
        let mut rig = rig_with_room(Layout::Convert, first_data, 0);
        assert_eq!(rig.sent(), b"");
        // Room for a part of it, and the rest of it later.
        rig.host[rig.socket].room = 7;
        rig.host.established(&mut rig.via, rig.socket);
        assert_eq!(rig.sent(), asked[..7]);
        rig.host.drains(&mut rig.via, rig.socket, 100);
        assert_eq!(rig.sent(), [&asked[7..], b"data"].concat());
    }
}

#[test]
fn the_answer_is_not_the_applications_and_what_follows_it_is() {
    let mut rig = rig(Layout::Convert, FirstData::WithRequest);
    rig.arrives(&GRANTED[..3]);
    rig.arrives(&[&GRANTED[3..], b"hello"].concat());
    rig.arrives(b" world");
    rig.host.peer_closes(&mut rig.via, rig.socket);
    let client = rig.client.lock().unwrap();
    assert_eq!(client.read, b"hello world");
    assert!(client.ended && !client.broken);
}

#[test]
fn the_thesis_has_no_answer_to_take_away() {
    let mut rig = rig(Layout::Thesis, FirstData::WithRequest);
    rig.arrives(&GRANTED);
    assert_eq!(rig.client.lock().unwrap().read, GRANTED);
}

#[test]
fn a_refusal_an_answer_of_nobody_and_none_at_all_break_the_connection() {
    for answer in [
        Message::refusal(Fault::ConnectionReset),
        b"HTTP/1.1 400 Bad Request".to_vec(),
        Vec::new(),
    ] {
        let mut rig = rig(Layout::Convert, FirstData::AfterHandshake);
        if !answer.is_empty() {
            rig.arrives(&answer);
        }
        rig.host.peer_closes(&mut rig.via, rig.socket);
        let client = rig.client.lock().unwrap();
        assert!(client.broken && client.read.is_empty());
        assert!(rig.host[rig.socket].reset);
    }
}

#[test]
fn a_proxy_that_is_not_there_breaks_the_connection() {
    let mut rig = rig(Layout::Convert, FirstData::AfterHandshake);
    rig.host
        .breaks(&mut rig.via, rig.socket, ConnectionError::TimedOut);
    assert!(rig.client.lock().unwrap().broken);
}

#[test]
fn the_application_is_not_offered_room_that_the_request_needs() {
    let mut rig = rig_with_room(Layout::Convert, FirstData::WithRequest, 3);
    for _ in 0..3 {
        rig.host.drains(&mut rig.via, rig.socket, 5);
        assert!(!rig.client.lock().unwrap().written);
    }
    rig.host.drains(&mut rig.via, rig.socket, 100);
    assert!(rig.client.lock().unwrap().written);
}

/// Does with two connections that come to it, and by its timer, all that a host can do.
struct Everything(Vec<String>);

const TELEMETRY: TelemetryField =
    TelemetryField::new("calls", "", "how many calls there were", Reduce::Gauge);

impl Everything {
    fn got(&mut self, what: impl std::fmt::Debug) {
        self.0.push(format!("{what:?}"));
    }

    fn reports(&self, host: &mut dyn Sockets, value: i64) {
        host.record(Event::Telemetry {
            source: FlowId(0).into(),
            field: TELEMETRY,
            value,
        });
    }
}

impl App for Everything {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let listener = host.listen(Profile(0), PROXY.parse().unwrap(), 8)?;
        self.got(listener);
        self.got(host.bind(Profile(0), PROXY.parse().unwrap()));
        host.wake_at(Some(host.now() + Duration::from_secs(1)));
        Ok(())
    }

    fn on_event(&mut self, listener: SocketId, _: SocketEvent, host: &mut dyn Sockets) {
        let (one, from) = host.accept(listener).expect("a client");
        self.got((one, from, host.destination_of(one)));
        self.got((host.is_own(from.ip()), host.is_own(destination().ip())));
        let mut queue = CountedBytes::default();
        self.got(host.relay(one, one, 3, &mut queue));
        let mut bytes = Vec::new();
        self.got((host.read(one, 2, Some(&mut bytes)), bytes));
        self.got(host.write(one, Data::Bytes(b"answer")));
        host.want_room(one, true);
        self.got(host.set_option(one, "rate", 7));
        self.got((host.option(one, "rate"), host.option(one, "none")));
        self.got(host.sample(one).map(|sample| sample.cwnd));
        host.probe(one, Duration::from_secs(9));
        let mut payload = Vec::new();
        self.got(host.send_to(one, destination(), b"x", 1));
        self.got(host.receive_from(one, &mut payload));
        self.got(host.receive_error(one, &mut payload));
        host.shut_down(one);
        host.reset(one);
        host.close(one);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        self.got(host.now());
        self.reports(host, 1);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        self.reports(host, 2);
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        self.reports(host, 3);
    }
}

/// What a host and an application had of each other.
fn course(app: &mut dyn App) -> Host {
    let mut host = Host::new();
    let client = "10.0.0.1:4000";
    host.own = vec![destination().ip()];
    host.led_from = Some(destination());
    host.datagram = Some(Datagram {
        from: destination(),
        len: 9,
        at: Instant::ZERO,
    });
    host.undelivered = Some(DatagramError {
        to: destination(),
        reporter: destination().ip(),
        why: Undelivered::PortUnreachable,
    });
    app.start(&mut host).unwrap();
    let listener = host.listening[0].0;
    let socket = host.connects_to(app, listener, client);
    host.passes(app, Duration::from_secs(2));
    app.sample(&mut host);
    app.end(&mut host);
    assert!(host[socket].closed && host[socket].reset && host[socket].ended);
    let reported: Vec<_> = host.reported.iter().map(|(_, value)| *value).collect();
    assert_eq!(reported, [1, 2, 3]);
    host
}

#[test]
fn all_but_connections_that_it_opens_is_the_host_s_as_without_a_proxy() {
    let mut direct = Everything(Vec::new());
    let expected = format!("{:?}", course(&mut direct));
    let route = Route {
        proxy: PROXY.parse().unwrap(),
        layout: Layout::Convert,
        first_data: FirstData::AfterAnswer,
    };
    let results = std::sync::Arc::new(std::sync::Mutex::new(Everything(Vec::new())));
    let mut via = Via::new(Shared(results.clone()), route);
    assert_eq!(format!("{:?}", course(&mut via)), expected);
    assert_eq!(results.lock().unwrap().0, direct.0);
}
