//! 1/√n without division or root, as CoDel and COBALT schedule by it.

/// One step of Newton's method from `inverse` (1/√`count` · 2³²) towards the
/// true value: x·(3 − n·x²)/2.
///
/// The order of shifts is that of Linux's `codel_Newton_step` and CAKE's
/// `cobalt_newton_step`, so that schedules agree to the unit.
pub(crate) const fn newton_step(count: u32, inverse: u32) -> u32 {
    let x = inverse as u64;
    let square = (x * x) >> 32;
    // Two bits of headroom for the product.
    let factor = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square)) >> 2;
    (factor.wrapping_mul(x) >> 31) as u32
}

/// `interval` · `inverse` / 2³²: interval/√n.
pub(crate) const fn scaled(interval: u64, inverse: u32) -> u64 {
    ((interval as u128 * inverse as u128) >> 32) as u64
}
