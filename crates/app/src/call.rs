//! Calls: frames of speech or pictures as datagrams, and what arrives of them in time.
//!
//! A frame's delay is taken from the time in its packets to the arrival of the last of them,
//! which is exact because both ends know the run's one time: in the simulator and in a kernel
//! in virtual time, and in live runs as both ends are on one machine. Between machines the error
//! of their clocks would be in it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use narrows_core::{App, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Value, WordError, Words, word_for,
};
use narrows_wire::ip::Ecn;

use crate::emodel::mos_of_window;
use crate::kind::{Delivery, Kind, Misfit, Site, SiteEnd};
use crate::media::{MEDIA, Media};
use crate::spec::{Carries, above_zero};

/// How long a frame is awaited before what is missing of it counts as lost (our choice): no
/// conversation plays what is older.
const PATIENCE: Duration = Duration::from_secs(1);

/// One-way delay that most conversations bear (ITU-T G.114).
const DEADLINE: Duration = Duration::from_millis(150);

/// Time over which an opinion is formed by default (our choice).
const WINDOW: Duration = Duration::from_secs(5);

/// What one direction of a call reports.
#[derive(Clone, Copy, Debug)]
struct Fields {
    delay: TelemetryField,
    frames: TelemetryField,
    late: TelemetryField,
    packets: TelemetryField,
    lost: TelemetryField,
    mos: TelemetryField,
}

impl Fields {
    const fn all(&self) -> [TelemetryField; 6] {
        [
            self.delay,
            self.frames,
            self.late,
            self.packets,
            self.lost,
            self.mos,
        ]
    }
}

macro_rules! fields {
    ($way:literal, $ends:literal) => {
        Fields {
            delay: TelemetryField::new(
                concat!($way, "_delay"),
                "ms",
                concat!(
                    "from when a frame is sent to the arrival of its last packet, ",
                    $ends
                ),
                Reduce::Sample,
            )
            .in_parts(1_000_000)
            .in_chart("frame delay"),
            frames: TelemetryField::new(
                concat!($way, "_frames"),
                "",
                concat!("frames that were due ", $ends),
                Reduce::Counter,
            ),
            late: TelemetryField::new(
                concat!($way, "_late"),
                "",
                concat!("frames that were not whole at their deadline, ", $ends),
                Reduce::Counter,
            ),
            packets: TelemetryField::new(
                concat!($way, "_packets"),
                "",
                concat!("packets that were due ", $ends),
                Reduce::Counter,
            ),
            lost: TelemetryField::new(
                concat!($way, "_lost"),
                "",
                concat!("packets that did not arrive within a second, ", $ends),
                Reduce::Counter,
            ),
            mos: TelemetryField::new(
                concat!($way, "_mos"),
                "",
                concat!(
                    "mean opinion score of each window of speech by ITU-T G.107, ",
                    $ends
                ),
                Reduce::Sample,
            )
            .in_parts(1_000)
            .in_chart("mean opinion score"),
        }
    };
}

const UP: Fields = fields!("up", "from `from` to `to`");
const DOWN: Fields = fields!("down", "from `to` to `from`");

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
    Both,
}

const DIRECTIONS: [(&str, Direction); 3] = [
    ("up", Direction::Up),
    ("down", Direction::Down),
    ("both", Direction::Both),
];

const CODEPOINTS: [(&str, Ecn); 3] = [
    ("not-ect", Ecn::NotEct),
    ("ect0", Ecn::Ect0),
    ("ect1", Ecn::Ect1),
];

/// The parameters of `call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSpec {
    media: Media,
    direction: Direction,
    codepoint: Ecn,
    deadline: Duration,
    window: Duration,
}

impl Default for CallSpec {
    fn default() -> Self {
        Self {
            media: Media::Voice,
            direction: Direction::Both,
            codepoint: Ecn::NotEct,
            deadline: DEADLINE,
            window: WINDOW,
        }
    }
}

impl Kind for CallSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "media MEDIA",
            ParameterKind::Words,
            MEDIA,
            "voice",
            "What is sent: G.711 as a packet of 172 bytes of payload each 20 ms, or frames of \
             video that leave as bursts of packets of up to 1200 bytes; by default 2.3 Mbit/s, \
             30 frames a second and each 10 s a key frame five times as large (our choice)",
        ),
        Parameter::new(
            "direction up|down|both",
            ParameterKind::Choice,
            "up, down or both",
            "both",
            "Who sends: `from` (`up`), `to`, or both",
        ),
        Parameter::new(
            "codepoint not-ect|ect0|ect1",
            ParameterKind::Choice,
            "not-ect, ect0 or ect1",
            "not-ect",
            "ECN field of its packets. Nobody answers marks: its rate is constant",
        ),
        Parameter::new(
            "deadline TIME",
            ParameterKind::Time,
            Duration::ALLOWED,
            "150ms",
            "A frame that is not whole this long after it was sent is late; the default is what \
             ITU-T G.114 has most conversations bear",
        ),
        Parameter::new(
            "window TIME",
            ParameterKind::Time,
            Duration::ALLOWED,
            "5s",
            "Time of the speech of each mean opinion score",
        ),
    ];

    const REPORTS: &'static [TelemetryField] = &[
        UP.delay,
        UP.frames,
        UP.late,
        UP.packets,
        UP.lost,
        UP.mos,
        DOWN.delay,
        DOWN.frames,
        DOWN.late,
        DOWN.packets,
        DOWN.lost,
        DOWN.mos,
    ];

    const CARRIES: Carries = Carries::Datagrams;

    fn codepoint(&self) -> Ecn {
        self.codepoint
    }

    fn deliveries(&self) -> Vec<Delivery> {
        let ways = match self.direction {
            Direction::Up => vec![(UP, "frame from `from` to `to`")],
            Direction::Down => vec![(DOWN, "frame from `to` to `from`")],
            Direction::Both => vec![
                (UP, "frame from `from` to `to`"),
                (DOWN, "frame from `to` to `from`"),
            ],
        };
        let of = |(fields, frame): (Fields, _)| Delivery {
            what: [frame, "was whole within a second"],
            due: Some(fields.frames),
            waiting: None,
            got: fields.delay,
            failed: None,
        };
        ways.into_iter().map(of).collect()
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "media" => self.media = Media::parse(words)?,
            "direction" => self.direction = words.one_of(&DIRECTIONS)?,
            "codepoint" => self.codepoint = words.one_of(&CODEPOINTS)?,
            "deadline" => self.deadline = above_zero(words, Duration::as_nanos)?,
            _ => self.window = above_zero(words, Duration::as_nanos)?,
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        vec![
            self.media.to_string(),
            word_for(&DIRECTIONS, &self.direction).to_owned(),
            word_for(&CODEPOINTS, &self.codepoint).to_owned(),
            self.deadline.to_string(),
            self.window.to_string(),
        ]
    }

    fn misfit(&self) -> Option<Misfit> {
        None
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let up = self.direction != Direction::Down;
        let down = self.direction != Direction::Up;
        let party = |end: SiteEnd, peer: SiteEnd, sends: bool, receives: Option<Fields>| Party {
            end,
            peer: peer.local,
            socket: None,
            speaker: sends.then(|| Speaker::new(self.media, site)),
            listener: receives.map(|fields| Listener::new(*self, site.clone(), fields)),
            payload: Vec::new(),
        };
        let begins = party(site.from, site.to, up, down.then_some(DOWN));
        let answers = party(site.to, site.from, down, up.then_some(UP));
        [Box::new(begins), Box::new(answers)]
    }
}

/// What a packet begins with: an RTP header (RFC 3550 §5.1), so that captures show it as
/// one, and what its receiver measures by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// Number of its frame, from 0.
    frame: u64,
    /// Its number in the frame, from 0.
    index: u16,
    /// When the frame was sent.
    sent: Instant,
}

impl Head {
    /// Bytes that it takes.
    const LEN: usize = 12 + 18;

    /// The source, so that captures show what it is.
    const SSRC: [u8; 4] = *b"nrwm";

    /// The bytes at the head of packet number `sequence`; `last` of its frame.
    fn to_bytes(self, media: Media, sequence: u16, last: bool) -> [u8; Self::LEN] {
        // PCMU is type 0 with 8000 samples a second, video a dynamic type with 90,000
        // (RFC 3551 §6, §5).
        let (payload, clock) = match media {
            Media::Voice => (0, 8_000),
            Media::Video(_) => (96, 90_000),
        };
        let samples = u128::from(media.due(self.frame).as_nanos()) * clock / 1_000_000_000;
        let mut bytes = [0; Self::LEN];
        bytes[0] = 2 << 6;
        bytes[1] = u8::from(last) << 7 | payload;
        bytes[2..4].copy_from_slice(&sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&(samples as u32).to_be_bytes());
        bytes[8..12].copy_from_slice(&Self::SSRC);
        bytes[12..20].copy_from_slice(&self.frame.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes[28..30].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }

    /// Reads a datagram's payload; `None` if it is not of a call.
    fn parse(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<{ Self::LEN }>()?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        (bytes[8..12] == Self::SSRC).then(|| Self {
            frame: word(12),
            sent: Instant::from_nanos(word(20)),
            index: u16::from_be_bytes([bytes[28], bytes[29]]),
        })
    }
}

/// One end of a call.
struct Party {
    end: SiteEnd,
    /// The other end's address: from where it was last received, as a box may have changed it.
    peer: SocketAddr,
    socket: Option<SocketId>,
    speaker: Option<Speaker>,
    listener: Option<Listener>,
    payload: Vec<u8>,
}

impl Party {
    fn schedule(&self, host: &mut dyn Sockets) {
        let speaks = self.speaker.as_ref().and_then(Speaker::due);
        let settles = self.listener.as_ref().and_then(Listener::due);
        host.wake_at(speaks.into_iter().chain(settles).min());
    }
}

impl App for Party {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.socket = Some(host.bind(self.end.profile, self.end.local)?);
        if let Some(Listener { site, fields, .. }) = &self.listener {
            site.announce(host, &fields.all());
        }
        self.schedule(host);
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event != SocketEvent::Readable {
            return;
        }
        while let Some(datagram) = host.receive_from(socket, &mut self.payload) {
            let Some(head) = Head::parse(&self.payload) else {
                continue;
            };
            self.peer = datagram.from;
            if let Some(listener) = &mut self.listener {
                listener.receive(host, head, datagram.at);
            }
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        if let Some(listener) = &mut self.listener {
            listener.settle(host);
        }
        if let (Some(socket), Some(speaker)) = (self.socket, &mut self.speaker) {
            speaker.speak(host, socket, self.peer);
        }
        self.schedule(host);
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        if let Some(listener) = &mut self.listener {
            listener.settle(host);
        }
    }
}

/// Sends frames.
#[derive(Debug)]
struct Speaker {
    media: Media,
    start: Instant,
    /// Frames that are due in all.
    frames: u64,
    /// The next one.
    next: u64,
    sequence: u16,
}

impl Speaker {
    fn new(media: Media, site: &Site) -> Self {
        Self {
            media,
            start: site.start,
            frames: media.frames_in(site.stop.since(site.start)),
            next: 0,
            sequence: 0,
        }
    }

    fn due(&self) -> Option<Instant> {
        (self.next < self.frames).then(|| self.start + self.media.due(self.next))
    }

    /// Sends the frames that are due, each as a burst.
    fn speak(&mut self, host: &mut dyn Sockets, socket: SocketId, to: SocketAddr) {
        let now = host.now();
        while self.due().is_some_and(|due| due <= now) {
            let packets = self.media.packets(self.next);
            let last = packets.len() - 1;
            for (index, len) in packets.enumerate() {
                let head = Head {
                    frame: self.next,
                    index: u16::try_from(index).unwrap_or(u16::MAX),
                    sent: now,
                };
                let head = head.to_bytes(self.media, self.sequence, index == last);
                self.sequence = self.sequence.wrapping_add(1);
                // What the host does not take is lost like what the path does not.
                let _ = host.send_to(socket, to, &head, len);
            }
            self.next += 1;
        }
    }
}

/// A frame that is awaited.
#[derive(Clone, Debug, Default)]
struct Frame {
    /// Which of its packets are here.
    here: Vec<bool>,
    /// From when it was sent to its last packet, once it is whole.
    delay: Option<Duration>,
}

/// Receives frames, and judges what came in time.
#[derive(Debug)]
struct Listener {
    spec: CallSpec,
    site: Site,
    fields: Fields,
    /// Frames that are due in all.
    expected: u64,
    /// Frames not settled yet, of which the first has number `first`; those behind it of which
    /// nothing was received are missing.
    frames: VecDeque<Frame>,
    first: u64,
    /// Delays of the settled frames of the present window, in ms.
    window: Vec<Option<f64>>,
}

impl Listener {
    fn new(spec: CallSpec, site: Site, fields: Fields) -> Self {
        Self {
            expected: spec.media.frames_in(site.stop.since(site.start)),
            spec,
            site,
            fields,
            frames: VecDeque::new(),
            first: 0,
            window: Vec::new(),
        }
    }

    /// When the first frame is settled.
    fn due(&self) -> Option<Instant> {
        let due = self.site.start + self.spec.media.due(self.first) + PATIENCE;
        (self.first < self.expected).then_some(due)
    }

    fn receive(&mut self, host: &mut dyn Sockets, head: Head, at: Instant) {
        // What is older than patience is lost, and nothing is newer than the last frame.
        if head.frame < self.first || head.frame >= self.expected {
            return;
        }
        let Ok(place) = usize::try_from(head.frame - self.first) else {
            return;
        };
        if place >= self.frames.len() {
            self.frames.resize(place + 1, Frame::default());
        }
        let frame = &mut self.frames[place];
        if frame.here.is_empty() {
            frame.here = vec![false; self.spec.media.packets(head.frame).len()];
        }
        let Some(here) = frame.here.get_mut(usize::from(head.index)) else {
            return;
        };
        if std::mem::replace(here, true) || frame.here.contains(&false) {
            return;
        }
        let delay = at.since(head.sent);
        frame.delay = Some(delay);
        self.site.report(host, self.fields.delay, delay.as_nanos());
    }

    /// Counts what became of the frames for which patience is over.
    fn settle(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        while self.due().is_some_and(|due| due <= now) {
            let packets = self.spec.media.packets(self.first).len();
            let frame = self.frames.pop_front().unwrap_or_default();
            self.first += 1;
            let here = frame.here.iter().filter(|here| **here).count();
            let (site, fields) = (&self.site, self.fields);
            site.report(host, fields.frames, 1);
            site.report(host, fields.packets, packets as u64);
            if here < packets {
                site.report(host, fields.lost, (packets - here) as u64);
            }
            if frame.delay.is_none_or(|delay| delay > self.spec.deadline) {
                site.report(host, fields.late, 1);
            }
            self.judge(host, frame.delay);
        }
    }

    /// Adds a frame of speech to its window, and judges a window that is full.
    fn judge(&mut self, host: &mut dyn Sockets, delay: Option<Duration>) {
        let Some(speech) = self.spec.media.speech() else {
            return;
        };
        let ms = |time: Duration| time.as_nanos() as f64 / 1e6;
        self.window.push(delay.map(ms));
        if (self.window.len() as u64) < self.spec.media.frames_in(self.spec.window) {
            return;
        }
        if let Some(mos) = mos_of_window(&self.window, ms(speech)) {
            let parts = libm::round(mos * self.fields.mos.scale as f64);
            self.site.report(host, self.fields.mos, parts as u64);
        }
        self.window.clear();
    }
}

#[cfg(test)]
mod tests;
