//! The prober and the responder of [`narrows_middlebox_detect`] on this machine.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use narrows_linux::Clock;
use narrows_linux::random_bytes;
use narrows_linux::raw_packets::{RawError, RawPackets};
use narrows_middlebox_detect::{
    Detection, Prober, ProberSettings, Responder, ResponderCounters, ResponderSettings, Stage,
};
use narrows_units::{Instant, Rng};

/// Between two looks at whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Why a path could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The machine or this user has no sockets for it.
    #[error(transparent)]
    Sockets(#[from] RawError),
    /// There is no way to the host.
    #[error("{to} cannot be reached from this machine: {reason}")]
    NoRoute {
        /// The host.
        to: IpAddr,
        /// What the kernel said.
        reason: io::Error,
    },
}

impl DetectError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        matches!(self, Self::Sockets(RawError::NoPermission))
    }

    fn sockets(reason: io::Error) -> Self {
        Self::Sockets(RawError::Sockets(reason))
    }
}

/// Looks for boxes on the path to `target`, from the port `from` and those after it, until
/// all is said or `stop` is set; `None` then. `stage` is called when the prober goes on to
/// the next one.
///
/// # Errors
/// When the machine does not let it.
pub fn detect(
    target: SocketAddr,
    from: u16,
    stop: &AtomicBool,
    stage: &mut dyn FnMut(Stage),
) -> Result<Option<Detection>, DetectError> {
    let own = SocketAddr::new(own_address(target)?, from);
    let mut packets = RawPackets::open(own.ip(), &[from])?;
    let drawn = random_bytes().map_err(DetectError::sockets)?;
    let rng = Rng::for_name(u64::from_be_bytes(drawn), "prober");
    let mut prober = Prober::new(ProberSettings::new(own, target), rng);
    let clock = Clock::starting_now();
    let mut before = None;
    while !stop.load(Ordering::SeqCst) {
        let step = |packets: &mut RawPackets, prober: &mut Prober| -> io::Result<()> {
            while let Some(packet) = packets.receive()? {
                prober.receive(clock.now(), &packet);
            }
            while let Some(packet) = prober.poll(clock.now()) {
                packets.send(&packet)?;
            }
            Ok(())
        };
        step(&mut packets, &mut prober).map_err(DetectError::sockets)?;
        if before != Some(prober.stage()) {
            before = Some(prober.stage());
            stage(prober.stage());
        }
        if let Some(detection) = prober.detection() {
            return Ok(Some(detection.clone()));
        }
        let waited = packets.wait(left(&clock, prober.next_wake()));
        waited.map_err(DetectError::sockets)?;
    }
    Ok(None)
}

/// Answers probers until `stop` is set; `ready` is called once it does. What it has done.
///
/// # Errors
/// When the machine does not let it.
pub fn respond(
    settings: ResponderSettings,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<ResponderCounters, DetectError> {
    let own = settings.own;
    let mut packets = RawPackets::open(own.ip(), &[own.port(), own.port().wrapping_add(1)])?;
    let key = random_bytes().map_err(DetectError::sockets)?;
    let mut responder = Responder::new(settings, key);
    let clock = Clock::starting_now();
    ready();
    while !stop.load(Ordering::SeqCst) {
        let step = |packets: &mut RawPackets, responder: &mut Responder| -> io::Result<()> {
            while let Some(packet) = packets.receive()? {
                if let Some(answer) = responder.receive(clock.now(), &packet) {
                    packets.send(&answer)?;
                }
            }
            while let Some(call) = responder.poll(clock.now()) {
                packets.send(&call)?;
            }
            packets.wait(left(&clock, responder.next_wake()))
        };
        step(&mut packets, &mut responder).map_err(DetectError::sockets)?;
    }
    Ok(responder.counters())
}

/// The address from which this machine reaches `target`.
fn own_address(target: SocketAddr) -> Result<IpAddr, DetectError> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let find = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(target)?;
        Ok(socket.local_addr()?.ip())
    };
    find().map_err(|reason| DetectError::NoRoute {
        to: target.ip(),
        reason,
    })
}

/// How long to wait.
fn left(clock: &Clock, until: Option<Instant>) -> Duration {
    let left = until.map(|until| until.since(clock.now()).as_nanos());
    left.map_or(LOOK, |left| Duration::from_nanos(left).min(LOOK))
}
