//! The search that expects what paths usually carry.

use super::Known;

/// MTUs that are usual below Ethernet's, upwards, in bytes:
///
/// | MTU | Where |
/// |---|---|
/// | 1280 | IPv6's least, and tunnels that are set to it (RFC 8200 section 5) |
/// | 1360 | ESP and L2TP, as operators clamp it |
/// | 1400 | VPNs that are on the safe side |
/// | 1420 | WireGuard over IPv6 (wg-quick: 80 bytes) |
/// | 1430 | GTP-U over IPv6 and ESP in NAT traversal |
/// | 1450 | VXLAN over IPv4 (RFC 7348: 50 bytes) |
/// | 1460 | IPIP with ESP's smallest headers |
/// | 1476 | GRE over IPv4 (24 bytes) |
/// | 1480 | IP in IP, 6in4 (20 bytes) |
/// | 1492 | PPPoE (RFC 2516: 8 bytes) |
const USUAL: [u16; 10] = [
    1_280, 1_360, 1_400, 1_420, 1_430, 1_450, 1_460, 1_476, 1_480, 1_492,
];

/// The largest first, which most paths carry. If that fails, the usual sizes between what
/// arrived and what failed, by thirds; where none is between them, the byte above a usual size that
/// arrived, which is most likely exact; then thirds.
///
/// By thirds and not by halves, since a size that fails costs three timeouts of one and a half
/// round trips, and one that arrives costs one round trip.
pub(super) fn next(known: &Known) -> Option<u16> {
    let Some(failed) = known.failed else {
        return Some(known.max);
    };
    let lower = known.lower();
    let usual = USUAL.map(|mtu| mtu - known.headers);
    let mut between = usual
        .into_iter()
        .filter(|size| *size > lower && *size < failed);
    let count = between.clone().count();
    if count > 0 {
        return between.nth(count / 3);
    }
    let apart = failed.saturating_sub(lower);
    if apart <= 1 {
        None
    } else if usual.contains(&lower) {
        Some(lower + 1)
    } else {
        Some(lower + (apart / 3).max(1))
    }
}
