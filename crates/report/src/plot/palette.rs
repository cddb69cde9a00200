//! Colours that colour-blind readers distinguish.

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Colours of series on white, in the order of the legend: eight for
/// flows and for the series of campaigns, then two shades for each of three
/// queues, then three for latency probes.
///
/// Source of the first six: Okabe and Ito, "Color Universal Design", 2008.
/// Deviation: their yellow is left out and orange darkened, for contrast on white;
/// indigo and wine are from Paul Tol, "Colour Schemes", SRON/EPS/TN/09-002, 2021.
/// Queues and probes have muted colours, so that none is taken for a flow.
pub const ON_LIGHT: [Rgb; 17] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xCC, 0x79, 0xA7),
    (0xB3, 0x7E, 0x00),
    (0x56, 0xB4, 0xE9),
    (0x33, 0x22, 0x88),
    (0x88, 0x22, 0x55),
    // Slate, brown and olive, each with a lighter shade.
    (0x37, 0x47, 0x4F),
    (0x8F, 0xA3, 0xAD),
    (0x6D, 0x4C, 0x41),
    (0xBC, 0x9F, 0x94),
    (0x55, 0x6B, 0x2F),
    (0xA5, 0xB5, 0x84),
    (0x22, 0x22, 0x22),
    (0x77, 0x77, 0x77),
    (0xAA, 0xAA, 0xAA),
];

/// The same hues on a dark ground.
pub const ON_DARK: [Rgb; 17] = [
    (0x4E, 0xA8, 0xE0),
    (0xF2, 0x8C, 0x3D),
    (0x2F, 0xC3, 0x9A),
    (0xE0, 0x9C, 0xC2),
    (0xE6, 0xB4, 0x3C),
    (0x9B, 0xD5, 0xF7),
    (0x9A, 0x8C, 0xF0),
    (0xD9, 0x5C, 0x8F),
    (0xB4, 0xC5, 0xCE),
    (0x6F, 0x85, 0x90),
    (0xD3, 0xB0, 0xA3),
    (0x8F, 0x6E, 0x62),
    (0xBD, 0xCF, 0x94),
    (0x77, 0x8A, 0x4F),
    (0xE8, 0xE8, 0xE8),
    (0xA8, 0xA8, 0xA8),
    (0x78, 0x78, 0x78),
];

/// How many flows, or series of a campaign, have colours of their own.
pub const FLOWS: usize = 8;

/// How many queues have.
pub const QUEUES: usize = 3;

/// How many latency probes have.
pub const PROBES: usize = 3;

/// The place of a queue's colour: the strong shade, or the light one.
pub const fn of_queue(place: usize, light: bool) -> usize {
    FLOWS + 2 * (place % QUEUES) + light as usize
}

/// Lengths of strokes and gaps, in turns, by which the series at `place` is known in black
/// and white; `None` for an unbroken line.
pub fn dashes(place: usize) -> Option<&'static [f64]> {
    const OF_FLOWS: [&[f64]; FLOWS] = [
        &[],
        &[5.0, 2.0],
        &[1.5, 1.5],
        &[6.0, 2.0, 1.5, 2.0],
        &[9.0, 3.0],
        &[3.0, 3.0],
        &[9.0, 2.0, 3.0, 2.0],
        &[1.0, 3.0],
    ];
    let found = match place {
        0..FLOWS => OF_FLOWS[place],
        // A queue's light shade, then probes beyond the first.
        _ if place < FLOWS + 2 * QUEUES => OF_FLOWS[(place - FLOWS) % 2],
        _ => OF_FLOWS[(place - FLOWS - 2 * QUEUES) % PROBES],
    };
    (!found.is_empty()).then_some(found)
}

/// The place of a latency probe's colour.
pub const fn of_probe(place: usize) -> usize {
    FLOWS + 2 * QUEUES + place % PROBES
}

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
    fn no_two_things_have_one_colour() {
        let places = (0..FLOWS)
            .chain((0..QUEUES).flat_map(|q| [of_queue(q, false), of_queue(q, true)]))
            .chain((0..PROBES).map(of_probe));
        for palette in [ON_LIGHT, ON_DARK] {
            let mut colours: Vec<Rgb> = places.clone().map(|place| palette[place]).collect();
            assert_eq!(colours.len(), palette.len());
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), palette.len());
        }
    }

    #[test]
    fn text_on_a_field_contrasts_with_it() {
        assert_eq!(ink_on(DIVERGING[1]), (0x11, 0x11, 0x11));
        assert_eq!(ink_on((0, 0x40, 0x70)), (0xFF, 0xFF, 0xFF));
    }
}
