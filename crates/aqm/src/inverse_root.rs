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

/// 1/√n · 2³² after four steps each, as CAKE and its relatives make them
/// (`cobalt_cache_init`, Linux net/sched/sch_cake.c v6.17).
const INVERSE_ROOTS: [u32; TABLE] = {
    let mut table = [u32::MAX; TABLE];
    let (mut count, mut inverse) = (1, u32::MAX);
    while count < TABLE {
        let mut step = 0;
        while step < 4 {
            inverse = newton_step(count as u32, inverse);
            step += 1;
        }
        table[count] = inverse;
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
            let found = f64::from(*inverse) / 4_294_967_296.0;
            let want = 1.0 / (n as f64).sqrt();
            assert!((found - want).abs() < 1e-3, "{n}: {found} {want}");
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
