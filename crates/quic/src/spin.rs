//! Whether a connection's ends will spin, found out before it begins.
//!
//! quinn draws for each end whether the spin bit is in use, and does not report it.
//! What it draws depends on the end's seed alone, so a rehearsal over a perfect
//! path with the same seeds shows it: an end that spins follows RFC 9000 §17.4
//! in every packet, one that greases follows it by chance in half of them.

use narrows_core::{Packet, PacketPool};
use narrows_units::{Duration, Instant, Rng};

use crate::connection::Connection;
use crate::datagram;
use crate::epoch::Epoch;
use crate::settings::QuicConfig;

/// Packets of each end that are examined: a greased one passes for spinning
/// once in 2³².
const ENOUGH: u32 = 32;

/// Time between two questions of an end, longer than an acknowledgement may
/// be held back (25 ms, RFC 9000 §18.2).
const STEP: Duration = Duration::from_millis(50);

/// Rounds at the beginning that are left out: packets of the handshake
/// carry others with them, whose bits are not read here.
const OPENING: u64 = 4;

/// Rounds after which a rehearsal that does not get on is given up.
const MOST_ROUNDS: u32 = 200;

/// The spin bit of a packet, if it starts with a short header
/// (RFC 9000 §17.3.1).
fn shown(packet: &Packet) -> Option<bool> {
    let (_, payload) = datagram::open(packet)?;
    let first = *payload.first()?;
    (first & 0x80 == 0).then_some(first & 0x20 != 0)
}

/// What one end showed against what it should have shown.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// The bit that it received last.
    received: Option<bool>,
    right: u32,
    wrong: u32,
}

/// Whether client and server spin when they have these generators; `epoch` is any.
pub fn rehearse(
    epoch: Epoch,
    client: &QuicConfig,
    server: &QuicConfig,
    rngs: (Rng, Rng),
) -> (bool, bool) {
    let mut ends = [
        Connection::client(client.clone(), epoch, rngs.0),
        Connection::server(server.clone(), epoch, rngs.1),
    ];
    let mut records = [Record::default(); 2];
    let mut pool = PacketPool::new();
    let mut now = Instant::ZERO;
    ends[0].open(now);
    for _ in 0..MOST_ROUNDS {
        exchange(&mut ends, &mut records, now, &mut pool);
        if records.iter().all(|r| r.right + r.wrong >= ENOUGH) {
            break;
        }
        now += STEP;
        for end in &mut ends {
            end.on_timeout(now);
            end.ping();
        }
    }
    let spins = records.map(|r| r.wrong == 0 && r.right >= ENOUGH);
    (spins[0], spins[1])
}

/// Carries datagrams to and fro until both ends are silent.
fn exchange(
    ends: &mut [Connection; 2],
    records: &mut [Record; 2],
    now: Instant,
    pool: &mut PacketPool,
) {
    loop {
        let mut silent = true;
        let settled = now >= Instant::ZERO + STEP * OPENING;
        for at in 0..2 {
            while ends[at].poll_event().is_some() {}
            while let Some(packet) = ends[at].poll_transmit(now, pool) {
                silent = false;
                if let Some(bit) = shown(&packet) {
                    // The client turns what it got over, the server returns it.
                    if let (true, Some(received)) = (settled, records[at].received) {
                        let right = bit == (received ^ (at == 0));
                        records[at].right += u32::from(right);
                        records[at].wrong += u32::from(!right);
                    }
                    records[1 - at].received = Some(bit);
                }
                ends[1 - at].receive(now, &packet);
                pool.give(packet);
            }
        }
        if silent {
            return;
        }
    }
}

/// The generators of client and server of the flow `name` in a run with `seed`, the
/// same in both engines. With `on` they are the first ones with which both ends
/// spin; each pair has a chance of 49 in 64, so that among a hundred there is one.
/// `epoch` is any.
pub fn generators(
    epoch: Epoch,
    seed: u64,
    name: &str,
    on: bool,
    client: &QuicConfig,
    server: &QuicConfig,
) -> (Rng, Rng) {
    let draw = |number: u32| {
        let rng = |end: &str| {
            let name = format!("flow/{name}/{end}");
            match number {
                0 => Rng::for_name(seed, &name),
                n => Rng::for_name(seed, &format!("{name}/{n}")),
            }
        };
        (rng("opener"), rng("answerer"))
    };
    let spin = |number: &u32| rehearse(epoch, client, server, draw(*number)) == (true, true);
    let number = if on { (0..100).find(spin) } else { None };
    draw(number.unwrap_or(0))
}
