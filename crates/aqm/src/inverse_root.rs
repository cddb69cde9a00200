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

/// Counts whose 1/√n is tabulated (`REC_INV_SQRT_CACHE` of CAKE): a single step is far off
/// between small counts.
const TABLE: usize = 16;

/// 1/√n · 2³², rounded to the nearest (`inv_sqrt_cache`, Linux net/sched/sch_cake.c v7.3; before
/// it was a constant it had what four steps of Newton's method leave, 0.06 % less for n = 2).
const INVERSE_ROOTS: [u32; TABLE] = {
    let mut table = [u32::MAX; TABLE];
    let mut count = 2;
    while count < TABLE {
        // Twice the value, so that half a unit can be added before the last bit goes.
        let square = (1u128 << 66) / count as u128;
        let (mut twice, mut bit) = (0u128, 1u128 << 33);
        while bit > 0 {
            if (twice + bit) * (twice + bit) <= square {
                twice += bit;
            }
            bit >>= 1;
        }
        table[count] = twice.div_ceil(2) as u32;
        count += 1;
    }
    table
};

/// 1/√`count` · 2³² for a count that is one above or below that of `inverse`: from the
/// table, or by one step.
pub(crate) fn neighbouring(count: u32, inverse: u32) -> u32 {
    match INVERSE_ROOTS.get(count as usize) {
        Some(inverse) => *inverse,
        None => newton_step(count, inverse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one_over_root_of_n() {
        for (n, inverse) in INVERSE_ROOTS.iter().enumerate().skip(1) {
            // The value for n = 1 would be one more than 32 bits hold.
            let want = (4_294_967_296.0 / (n as f64).sqrt()).min(4_294_967_295.0);
            assert_eq!(f64::from(*inverse), want.round(), "{n}");
        }
    }

    #[test]
    fn above_the_table_one_step_each_way_follows_the_root() {
        let mut inverse = INVERSE_ROOTS[TABLE - 1];
        for count in (16..600).chain((16..600).rev()) {
            inverse = neighbouring(count, inverse);
            let want = 4_294_967_296.0 / f64::from(count).sqrt();
            assert!((f64::from(inverse) / want - 1.0).abs() < 2e-3, "{count}");
        }
    }
}
