//! What lets requests in: random characters, held against others in constant time.

use std::fmt;
use std::io;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Characters of a token that is drawn: 32 bytes in hexadecimal.
const DRAWN: usize = 64;

/// Characters of a token that is given (our choice).
const LENGTHS: std::ops::RangeInclusive<usize> = 32..=4_096;

/// A token.
pub struct Bearer {
    text: String,
    key: hmac::Key,
    tag: hmac::Tag,
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is nobody's to read.
        f.write_str("Bearer")
    }
}

fn no_random(_: ring::error::Unspecified) -> io::Error {
    io::Error::other("the system gives no random numbers")
}

impl Bearer {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0_u8; DRAWN / 2];
        SystemRandom::new().fill(&mut bytes).map_err(no_random)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::of(&text)
    }

    /// That of a text: 32 to 4096 letters and digits.
    ///
    /// # Errors
    /// When the text is none, or the system gives no random numbers.
    pub fn of(text: &str) -> io::Result<Self> {
        let text = text.trim();
        if !LENGTHS.contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
            let why = "a token has 32 to 4096 letters and digits";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(no_random)?;
        let tag = hmac::sign(&key, text.as_bytes());
        Ok(Self {
            text: text.to_owned(),
            key,
            tag,
        })
    }

    /// Its characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a header's value is `Bearer` and this token (RFC 6750, section 2.1), compared in
    /// constant time under a key that nobody knows.
    pub fn lets_in(&self, header: &str) -> bool {
        header.split_once(' ').is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer")
                && hmac::verify(&self.key, token.trim().as_bytes(), self.tag.as_ref()).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lets_itself_in_and_nothing_else() {
        let own = Bearer::draw().expect("a token");
        assert_eq!(own.text().len(), DRAWN);
        assert!(own.lets_in(&format!("Bearer {}", own.text())));
        assert!(own.lets_in(&format!("bearer {}", own.text())));
        let other = Bearer::draw().expect("a token");
        for wrong in [
            String::new(),
            own.text().to_owned(),
            format!("Basic {}", own.text()),
            format!("Bearer {}", other.text()),
            format!("Bearer {}0", own.text()),
            "Bearer ".to_owned(),
        ] {
            assert!(!own.lets_in(&wrong), "{wrong}");
        }
    }

    #[test]
    fn a_short_token_is_none() {
        assert!(Bearer::of("abc").is_err());
        assert!(Bearer::of(&"a".repeat(31)).is_err());
        assert!(Bearer::of(&format!("{} {}", "a".repeat(32), "b")).is_err());
        assert!(Bearer::of(&"a".repeat(32)).is_ok());
    }
}
