//! Sequence numbers that do not wrap.
//!
//! Inside, a sequence number is 64 bits wide and its low 32 bits are what the
//! wire carries, so comparisons are plain ones. A connection starts one lap
//! above zero, so that numbers before its first can be named as well.

/// What is added to the initial sequence number.
const FIRST_LAP: u64 = 1 << 32;

/// The inner number of an initial sequence number.
pub(crate) const fn first(isn: u32) -> u64 {
    FIRST_LAP + isn as u64
}

/// The inner number that is nearest to `near` and reads `wire` on the wire
/// (RFC 9293 §3.4 arithmetic).
pub(crate) const fn expand(wire: u32, near: u64) -> u64 {
    let delta = wire.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(delta as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_expand_to_the_nearest_lap() {
        let near = first(u32::MAX - 10);
        assert_eq!(expand(u32::MAX - 10, near), near);
        assert_eq!(expand(5, near), near + 16);
        assert_eq!(expand(u32::MAX - 20, near), near - 10);
        assert_eq!(expand(3, first(5)), first(3));
        assert_eq!(expand(u32::MAX, first(0)), first(0) - 1);
    }
}
