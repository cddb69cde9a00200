//! Lines of results, put together in memory before they are written. A report
//! on a flow has some forty numbers with a fixed number of decimals, for which
//! the standard library takes longer than for all else.

use std::fmt;
use std::io::{self, Write};

/// Above this, in units of the last decimal, `f64` products may be off by more
/// than [`NEAR`].
const LARGE: f64 = 1e9;
/// How close to halfway between two results a product is not trusted.
const NEAR: f64 = 1e-6;

/// Text in the making.
#[derive(Debug, Default)]
pub(super) struct Line(Vec<u8>);

impl Line {
    /// Adds a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Adds a text and spaces up to `width` characters of ASCII.
    pub fn left(&mut self, text: &str, width: usize) -> &mut Self {
        let start = self.0.len();
        self.text(text).pad(start, width);
        self
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds spaces until there are `width` characters since `start`.
    pub fn pad(&mut self, start: usize, width: usize) {
        let end = (start + width).max(self.0.len());
        self.0.resize(end, b' ');
    }

    /// Adds a text of ASCII with spaces before it up to `width`.
    fn right(&mut self, text: &[u8], width: usize) -> &mut Self {
        let spaces = width.saturating_sub(text.len());
        self.0.resize(self.0.len() + spaces, b' ');
        self.0.extend_from_slice(text);
        self
    }

    /// Adds a whole number, with spaces before it up to `width`.
    pub fn whole(&mut self, number: u64, width: usize) -> &mut Self {
        let mut digits = Digits::default();
        digits.prepend(number, 1);
        self.right(digits.get(), width)
    }

    /// Adds a whole number, with zeros before it up to `width` of at most 20.
    pub fn zeros(&mut self, number: u64, width: usize) -> &mut Self {
        let mut digits = Digits::default();
        digits.prepend(number, width);
        self.right(digits.get(), 0)
    }

    /// Adds a number with `decimals` decimals, 1 to 6 of them, with spaces
    /// before it up to `width`: exactly what `{:width$.decimals$}` gives.
    pub fn fixed(&mut self, number: f64, decimals: usize, width: usize) -> &mut Self {
        let unit = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000][decimals.min(6)];
        let scaled = number.abs() * unit as f64;
        // Towards zero, and 0 for what is no number.
        let down = scaled as u64;
        let rest = scaled - down as f64;
        if scaled < LARGE && (rest - 0.5).abs() > NEAR {
            let all = down + u64::from(rest > 0.5);
            let mut digits = Digits::default();
            digits.prepend(all % unit, decimals);
            digits.prepend_byte(b'.');
            digits.prepend(all / unit, 1);
            if number.is_sign_negative() {
                digits.prepend_byte(b'-');
            }
            self.right(digits.get(), width)
        } else {
            // Huge, no number, or too close to call.
            self.right(format!("{number:.decimals$}").as_bytes(), width)
        }
    }

    /// What it holds; it is empty then.
    pub fn take(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }

    /// Hands it on, and is empty.
    pub fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let written = out.write_all(&self.0);
        self.0.clear();
        written
    }
}

/// A number from its last digit to its first.
struct Digits {
    bytes: [u8; 32],
    at: usize,
}

impl Default for Digits {
    fn default() -> Self {
        Self {
            bytes: [0; 32],
            at: 32,
        }
    }
}

impl Digits {
    fn get(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn prepend_byte(&mut self, byte: u8) {
        self.at -= 1;
        self.bytes[self.at] = byte;
    }

    /// Puts a number before what is there, with at least `least` digits.
    fn prepend(&mut self, mut number: u64, least: usize) {
        let end = self.at;
        while number > 0 || end - self.at < least {
            self.prepend_byte(b'0' + (number % 10) as u8);
            number /= 10;
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rng;

    fn fixed(number: f64, decimals: usize, width: usize) -> String {
        let mut line = Line::default();
        line.fixed(number, decimals, width);
        String::from_utf8(line.0).unwrap()
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let odd = [
            0.0,
            -0.0,
            0.0005,
            0.0015,
            0.1,
            0.125,
            -0.000_4,
            0.999_999_5,
            0.9995,
            1.0,
            2.5,
            123_456.789,
            1e15,
            1e300,
            f64::NAN,
            f64::INFINITY,
            -12.34,
        ];
        let mut rng = Rng::for_name(1, "numbers");
        let random = (0..100_000).map(|i| {
            let digits = [1e-4, 1e-2, 1.0, 1e3, 1e6][i % 5];
            // Every other one is halfway between two decimals, or nearly.
            let number = (rng.unit() - 0.3) * digits;
            if i % 2 == 0 {
                number
            } else {
                ((number * 1e3).floor() + 0.5) / 1e3
            }
        });
        for number in odd.into_iter().chain(random) {
            for (decimals, width) in [(3, 11), (6, 0), (1, 4)] {
                assert_eq!(
                    fixed(number, decimals, width),
                    format!("{number:width$.decimals$}"),
                );
            }
        }
    }

    #[test]
    fn texts_and_whole_numbers_are_padded_and_never_cut() {
        let mut line = Line::default();
        line.left("ab", 4)
            .left("abcde", 3)
            .whole(0, 3)
            .whole(1234, 2);
        assert_eq!(line.0, b"ab  abcde  01234");
        line.0.clear();
        line.whole(u64::MAX, 21);
        assert_eq!(line.0, format!("{:>21}", u64::MAX).into_bytes());
    }
}
