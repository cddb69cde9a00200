//! A secret of random characters, by which requests are authenticated.

use std::fmt;
use std::io;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of one that is drawn; it has twice as many characters, in hexadecimal.
const DRAWN: usize = 32;

/// Characters of one that is given (our choice).
const LENGTHS: std::ops::RangeInclusive<usize> = 32..=4_096;

/// Random characters. Others are held against them in constant time, under a key that nobody knows.
pub struct Secret {
    text: String,
    key: hmac::Key,
    tag: hmac::Tag,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is nobody's to read.
        f.write_str("Secret")
    }
}

fn no_random(_: ring::error::Unspecified) -> io::Error {
    io::Error::other("the system gives no random numbers")
}

impl Secret {
    /// A new one, of 64 characters.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0_u8; DRAWN];
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

    /// Whether `given` is it.
    pub fn is(&self, given: &str) -> bool {
        hmac::verify(&self.key, given.as_bytes(), self.tag.as_ref()).is_ok()
    }

    /// Whether the value of the header `Authorization` is `Bearer` and it (RFC 6750, section 2.1);
    /// the case of that word does not matter (RFC 9110, section 11.1).
    pub fn is_bearer(&self, authorization: &str) -> bool {
        authorization
            .split_once(' ')
            .is_some_and(|(scheme, token)| {
                scheme.eq_ignore_ascii_case("bearer") && self.is(token.trim())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_lets_itself_in_and_nothing_else() {
        let own = Secret::draw().expect("a secret");
        assert_eq!(own.text().len(), 64);
        assert!(own.is(own.text()));
        assert!(own.is_bearer(&format!("Bearer {}", own.text())));
        assert!(own.is_bearer(&format!("bearer {}", own.text())));
        let other = Secret::draw().expect("a secret");
        assert!(!own.is(other.text()));
        for wrong in [
            String::new(),
            own.text().to_owned(),
            format!("Basic {}", own.text()),
            format!("Bearer {}", other.text()),
            format!("Bearer {}0", own.text()),
            format!("Bearer {}", &own.text()[1..]),
            "Bearer ".to_owned(),
        ] {
            assert!(!own.is_bearer(&wrong), "{wrong}");
        }
    }

    #[test]
    fn a_short_text_is_none() {
        assert!(Secret::of("abc").is_err());
        assert!(Secret::of(&"a".repeat(31)).is_err());
        assert!(Secret::of(&format!("{} {}", "a".repeat(32), "b")).is_err());
        assert!(Secret::of(&"a".repeat(32)).is_ok());
    }
}
