//! Colours that colour-blind readers tell apart.

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Colours of series on white, in the order of the legend.
///
/// Source: Okabe and Ito, "Color Universal Design", 2008. Deviation: their
/// yellow is left out and orange darkened, for contrast on white.
pub const ON_LIGHT: [Rgb; 7] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xCC, 0x79, 0xA7),
    (0xB3, 0x7E, 0x00),
    (0x56, 0xB4, 0xE9),
    (0x4D, 0x4D, 0x4D),
];

/// The same hues, lighter, on a dark ground.
pub const ON_DARK: [Rgb; 7] = [
    (0x4E, 0xA8, 0xE0),
    (0xF2, 0x8C, 0x3D),
    (0x2F, 0xC3, 0x9A),
    (0xE0, 0x9C, 0xC2),
    (0xE6, 0xB4, 0x3C),
    (0x9B, 0xD5, 0xF7),
    (0xB8, 0xB8, 0xB8),
];

/// Text of static figures.
pub const INK: Rgb = (0x22, 0x26, 0x2B);
/// Axes and secondary text of static figures.
pub const AXIS: Rgb = (0x6B, 0x72, 0x7B);
/// Grid lines of static figures.
pub const GRID: Rgb = (0xE3, 0xE6, 0xEA);
/// The steady window behind the curves of static figures.
pub const WINDOW: Rgb = (0xF1, 0xF3, 0xF6);

/// Ends and middle of the colour scale of shares: blue (the first of two is
/// starved), near white (equal), orange (the first takes all). Distinct under
/// all common forms of colour blindness and in grey by the printed value.
pub const DIVERGING: [Rgb; 3] = [(0x00, 0x72, 0xB2), (0xF7, 0xF7, 0xF4), (0xD5, 0x5E, 0x00)];

/// The colour of the series at `place`; places beyond the palette repeat it.
pub fn on_light(place: usize) -> Rgb {
    ON_LIGHT[place % ON_LIGHT.len()]
}

/// `#rrggbb`.
pub fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The colour of `at` (0 to 1, clamped) on [`DIVERGING`].
pub fn diverging(at: f64) -> Rgb {
    let at = at.clamp(0.0, 1.0) * 2.0;
    let (from, to, part) = if at <= 1.0 {
        (DIVERGING[0], DIVERGING[1], at)
    } else {
        (DIVERGING[1], DIVERGING[2], at - 1.0)
    };
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Black or white, whichever is easier to read on `ground`.
pub fn ink_on(ground: Rgb) -> Rgb {
    let luminance = |c: Rgb| {
        // WCAG 2.1 relative luminance with its exponent of 2.4 taken as 2.
        let part = |v: u8| (f64::from(v) / 255.0) * (f64::from(v) / 255.0);
        0.2126 * part(c.0) + 0.7152 * part(c.1) + 0.0722 * part(c.2)
    };
    // Equal contrast against black and white lies at a relative luminance of
    // 0.179 (WCAG 2.1); with an exponent of 2 that is 0.179^(2 / 2.4) squared.
    if luminance(ground) > 0.238 {
        (0x11, 0x11, 0x11)
    } else {
        (0xFF, 0xFF, 0xFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_scale_is_neutral_and_its_ends_are_not() {
        assert_eq!(diverging(0.5), DIVERGING[1]);
        assert_eq!(diverging(-3.0), DIVERGING[0]);
        assert_eq!(diverging(7.0), DIVERGING[2]);
    }

    #[test]
    fn text_on_a_field_contrasts_with_it() {
        assert_eq!(ink_on(DIVERGING[1]), (0x11, 0x11, 0x11));
        assert_eq!(ink_on((0, 0x40, 0x70)), (0xFF, 0xFF, 0xFF));
    }
}
