//! The token that a server and its clients share, and how each shows the other that it has it.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use narrows_results::Error;
use narrows_scenario::Refusal;
use ring::hmac::{HMAC_SHA256, Key, Tag, sign, verify};

/// Bytes of what one end draws, so that no proof serves twice.
pub(super) const NONCE: usize = 32;

/// Bytes of a proof.
pub(super) const PROOF: usize = 32;

/// Bytes of a token (our choice): 16 are 128 bits, if they are drawn.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4_096;

/// Permissions that others must not have.
const OF_OTHERS: u32 = 0o077;

/// A token.
pub struct Token(Key);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is nobody's to read.
        f.write_str("Token")
    }
}

/// Who shows that it has the token: a proof of one end is none of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Token {
    /// The token in a file that only its owner may read, without the white space around it.
    ///
    /// # Errors
    /// If there is none, others may read it, or it is too short.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = path.display();
        let refuse = |found: String, allowed: &str, help: &str| {
            let refusal = Refusal::new("--token", format!("`{name}`{found}"), allowed);
            Error::Refused(refusal.with_help(help.to_owned()).to_line())
        };
        let help = format!("head -c 32 /dev/urandom | base64 > {name} && chmod 600 {name}");
        let io = |source| Error::Io {
            verb: "read",
            path: path.to_path_buf(),
            source,
        };
        let facts = std::fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => refuse(", which is not there".to_owned(), "a file", &help),
            _ => io(error),
        })?;
        if !facts.is_file() {
            return Err(refuse(", which is no file".to_owned(), "a file", &help));
        }
        let file = File::open(path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.mode();
        if mode & OF_OTHERS != 0 {
            let found = format!(" with the mode {:04o}", mode & 0o7777);
            return Err(refuse(
                found,
                "a file that only its owner may read: 0600",
                &format!("chmod 600 {name}"),
            ));
        }
        let mut bytes = Vec::new();
        let most = *LENGTHS.end() as u64 + 1;
        file.take(most).read_to_end(&mut bytes).map_err(io)?;
        let token = bytes.trim_ascii();
        if !LENGTHS.contains(&token.len()) {
            let found = format!(" of {} bytes", token.len());
            return Err(refuse(found, "16 to 4096 bytes", &help));
        }
        Ok(Self::of(token))
    }

    /// The token of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Key::new(HMAC_SHA256, bytes))
    }

    fn proven(side: Side, nonces: &[[u8; NONCE]; 2]) -> Vec<u8> {
        let mut message = b"narrows traffic 3 ".to_vec();
        message.push(match side {
            Side::Client => b'c',
            Side::Server => b's',
        });
        message.extend(nonces.iter().flatten());
        message
    }

    /// The proof of `side` for what both ends drew, the server's first.
    pub(super) fn prove(&self, side: Side, nonces: &[[u8; NONCE]; 2]) -> [u8; PROOF] {
        bytes_of(sign(&self.0, &Self::proven(side, nonces)))
    }

    /// Whether `proof` is that of `side`, in the same time whichever byte differs.
    pub(super) fn accepts(
        &self,
        side: Side,
        nonces: &[[u8; NONCE]; 2],
        proof: &[u8; PROOF],
    ) -> bool {
        verify(&self.0, &Self::proven(side, nonces), proof).is_ok()
    }

    /// The secret of the session of these nonces.
    pub(super) fn secret(&self, nonces: &[[u8; NONCE]; 2]) -> Secret {
        let mut message = b"narrows traffic 3 secret".to_vec();
        message.extend(nonces.iter().flatten());
        Secret(bytes_of(sign(&self.0, &message)))
    }
}

fn bytes_of(tag: Tag) -> [u8; PROOF] {
    let mut bytes = [0; PROOF];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// What the two ends of a session alone can derive, of what is never sent itself.
#[derive(Clone)]
pub(super) struct Secret([u8; PROOF]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// What proves `what` of the kind `purpose`.
    pub(super) fn tag(&self, purpose: Purpose, what: &[u8]) -> [u8; PROOF] {
        bytes_of(sign(&self.key(), &purpose.of(what)))
    }

    /// Whether `tag` does, in the same time whichever byte differs.
    pub(super) fn proves(&self, purpose: Purpose, what: &[u8], tag: &[u8; PROOF]) -> bool {
        verify(&self.key(), &purpose.of(what), tag).is_ok()
    }

    fn key(&self) -> Key {
        Key::new(HMAC_SHA256, &self.0)
    }
}

/// What a secret is for: what proves one thing proves no other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// The server's certificate.
    Certificate,
    /// That the client connects for a transfer.
    Connection,
    /// What it says on the connection.
    Stream,
}

impl Purpose {
    fn of(self, what: &[u8]) -> Vec<u8> {
        [&[self as u8], what].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_file_of_its_owner_alone_is_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        write(&path, "0123456789abcdef\n").unwrap();
        for (mode, fits) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o604, false),
            (0o660, false),
        ] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = Token::read(&path);
            assert_eq!(read.is_ok(), fits, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        write(&path, "short\n").unwrap();
        assert!(Token::read(&path).is_err());
        assert!(Token::read(folder.path()).is_err());
        assert!(Token::read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_tag_is_of_one_session_and_one_purpose() {
        let token = Token::of(b"0123456789abcdef");
        let secret = token.secret(&[[1; NONCE], [2; NONCE]]);
        let tag = secret.tag(Purpose::Certificate, b"what");
        assert!(secret.proves(Purpose::Certificate, b"what", &tag));
        assert!(!secret.proves(Purpose::Certificate, b"that", &tag));
        assert!(!secret.proves(Purpose::Connection, b"what", &tag));
        let other = token.secret(&[[1; NONCE], [3; NONCE]]);
        assert!(!other.proves(Purpose::Certificate, b"what", &tag));
        let other = Token::of(b"0123456789abcdeg").secret(&[[1; NONCE], [2; NONCE]]);
        assert!(!other.proves(Purpose::Certificate, b"what", &tag));
    }

    #[test]
    fn a_proof_is_of_one_token_one_side_and_one_pair_of_nonces() {
        let (token, other) = (
            Token::of(b"0123456789abcdef"),
            Token::of(b"0123456789abcdeg"),
        );
        let nonces = [[1; NONCE], [2; NONCE]];
        let proof = token.prove(Side::Client, &nonces);
        assert!(token.accepts(Side::Client, &nonces, &proof));
        assert!(!token.accepts(Side::Server, &nonces, &proof));
        assert!(!other.accepts(Side::Client, &nonces, &proof));
        assert!(!token.accepts(Side::Client, &[[2; NONCE], [1; NONCE]], &proof));
        for i in 0..PROOF {
            let mut wrong = proof;
            wrong[i] ^= 1;
            assert!(!token.accepts(Side::Client, &nonces, &wrong), "{i}");
        }
    }
}
