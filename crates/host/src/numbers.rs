//! Numbers that connections of TCP begin with, as Linux's do (`net/core/secure_seq.c`, v6.17): they
//! go on where those of the same addresses and ports were, so that a port can be used again
//! while its last connection is in TIME-WAIT at the other end (RFC 6528, RFC 6191).

use std::net::{IpAddr, SocketAddr};

use narrows_units::{Instant, stable_hash};

/// The clock of initial sequence numbers ticks every 64 ns (`seq_scale`).
const TICK_SHIFT: u32 = 6;

/// The initial sequence number of `local` in a connection with `remote` that begins at `now`
/// (`secure_tcp_seq`).
pub(crate) fn isn(secret: u64, local: SocketAddr, remote: SocketAddr, now: Instant) -> u32 {
    let clock = (now.as_nanos() >> TICK_SHIFT) as u32;
    let hash = stable_hash(secret, format!("isn {local} {remote}").as_bytes());
    (hash as u32).wrapping_add(clock)
}

/// What `local` adds to its clock in timestamps for `remote`, the same for all ports
/// (`secure_tcp_ts_off`, `net.ipv4.tcp_timestamps` 1).
pub(crate) fn timestamp_offset(secret: u64, local: IpAddr, remote: IpAddr) -> u32 {
    stable_hash(secret, format!("timestamps {local} {remote}").as_bytes()) as u32
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;

    use super::*;

    #[test]
    fn initial_numbers_go_on_by_the_clock_and_each_connection_has_its_own() {
        let (near, far) = ("10.0.0.1:5000", "10.0.0.2:80");
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let isn = |local, remote, ns| {
            let now = Instant::ZERO + Duration::from_nanos(ns);
            super::isn(1, at(local), at(remote), now)
        };
        let first = isn(near, far, 0);
        assert_eq!(isn(near, far, 63), first);
        assert_eq!(isn(near, far, 64), first.wrapping_add(1));
        assert_eq!(
            isn(near, far, 1_000_000_000),
            first.wrapping_add(15_625_000)
        );
        for (local, remote) in [(far, near), ("10.0.0.1:5001", far), (near, "10.0.0.2:81")] {
            assert_ne!(isn(local, remote, 0), first, "{local} {remote}");
        }
        assert_ne!(super::isn(2, at(near), at(far), Instant::ZERO), first);
    }

    #[test]
    fn timestamps_of_each_end_and_each_pair_of_hosts_have_their_offset() {
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| ip.parse().unwrap());
        let of = |local, remote| timestamp_offset(1, local, remote);
        let all = [of(a, b), of(b, a), of(a, c), timestamp_offset(2, a, b)];
        assert!((1..4).all(|i| all[..i].iter().all(|other| *other != all[i])));
    }
}
