//! What the fuzz targets do with an input: as tests, kept inputs and mutations of them;
//! by libFuzzer, in `fuzz/` at the root, inputs that coverage guides.

use narrows_pep::convert::{MAX_LEN, Message};
use narrows_pep::{Asked, Cookies, Intake, Refused, RequestReader, Terms};

/// Terms of a listener: every layout, with and without cookies.
fn terms(cookies: bool) -> Terms {
    Terms {
        thesis: true,
        cookies: cookies.then(|| Cookies::new([1; 32])),
        fast_open: cookies,
        ..Terms::default()
    }
}

/// Reads what comes in pieces of these lengths; what it asks for and where it ended.
fn read(bytes: &[u8], piece: usize, terms: &Terms) -> Result<Option<(Asked, usize)>, Refused> {
    let mut reader = RequestReader::default();
    let client = [10, 0, 0, 1].into();
    let mut at = 0;
    for mut piece in bytes.chunks(piece) {
        while let Some((asked, used)) = reader.take(piece, terms, client)? {
            at += used;
            piece = &piece[used..];
            if asked != Asked::Greeting(true) {
                return Ok(Some((asked, at)));
            }
        }
        at += piece.len();
    }
    Ok(None)
}

/// The first bytes of a connection: read whole and in pieces they ask for the same, and
/// every refusal fits a message.
pub fn request(bytes: &[u8]) {
    let socks = Terms {
        intake: Intake::Socks,
        ..terms(false)
    };
    for terms in [terms(false), terms(true), socks] {
        let whole = read(bytes, bytes.len().max(1), &terms);
        for piece in [1, 3, 7] {
            let pieces = read(bytes, piece, &terms);
            match (&whole, &pieces) {
                (Ok(one), Ok(other)) => assert_eq!(one, other),
                (Err(one), Err(other)) => assert_eq!(one, other),
                (one, other) => panic!("{one:?} whole, {other:?} in pieces of {piece}"),
            }
        }
        match whole {
            Ok(Some((_, used))) => assert!(used <= bytes.len()),
            // RFC 8803's longest message; SOCKS's are shorter.
            Ok(None) => assert!(bytes.len() < 4 + 255 * 8),
            Err(Refused { answer, .. }) => {
                if let Some(fault) = answer {
                    let answer = Message::refusal(fault);
                    assert!(answer.len() >= 8 && answer.len() <= MAX_LEN);
                }
            }
        }
    }
}
