//! Messages of RFC 8803, byte by byte, and read in pieces of any size.

use std::net::SocketAddr;

use narrows_pep::convert::{DecodeError, Fault, FaultClass, MAX_LEN, Message, Reader, Tlv};
use proptest::collection::vec;
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<Option<(Message, usize)>, DecodeError> {
    Reader::default().take(bytes)
}

/// Both ways: `tlv` alone is `bytes` behind the header.
fn golden(tlv: Tlv, bytes: &[u8]) {
    let words = 1 + bytes.len() as u8 / 4;
    let whole = [&[0x01, words, 0x22, 0x63], bytes].concat();
    let message = Message::of(tlv);
    assert_eq!(message.encode().unwrap(), whole);
    assert_eq!(read(&whole), Ok(Some((message, whole.len()))));
}

/// RFC 8803 §4.1 and the figures of §4.2; the numbers are IANA's.
#[test]
fn every_tlv_is_as_the_rfc_draws_it() {
    golden(Tlv::Info, &[0x01, 1, 0, 0]);
    let connect = |peer: &str, options: &[u8]| Tlv::Connect {
        peer: peer.parse().unwrap(),
        options: options.to_vec(),
    };
    golden(
        connect("[2001:db8::1:5ee]:12345", &[]),
        &[
            0x0a, 5, 0x30, 0x39, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x05, 0xee,
        ],
    );
    // IPv4 is mapped (RFC 4291 §2.5.5.2); a multipath option of four bytes follows.
    golden(
        connect("192.0.2.1:443", &[30, 4, 0, 0x81]),
        &[
            0x0a, 6, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, 30, 4, 0,
            0x81,
        ],
    );
    golden(
        Tlv::ExtendedTcpHeader(vec![30, 4, 0, 0x81]),
        &[0x14, 2, 0, 0, 30, 4, 0, 0x81],
    );
    // The list ends in zeros up to the next word.
    golden(
        Tlv::SupportedExtensions(vec![3, 4, 8, 34, 30]),
        &[0x15, 3, 0, 0, 3, 4, 8, 34, 30, 0, 0, 0],
    );
    golden(
        Tlv::Cookie(b"8 bytes!".to_vec()),
        b"\x16\x03\x00\x008 bytes!",
    );
}

#[test]
fn every_error_is_as_the_rfc_draws_it() {
    let echo = [0x02, 1, 0x22, 0x63];
    let shifted = |code| [0x1e, 2, code, 0, 0x02, 1, 0x22, 0x63];
    let error = |fault: Fault, class: FaultClass, bytes: &[u8]| {
        assert_eq!(fault.class(), class);
        golden(Tlv::Error(fault), bytes);
    };
    use FaultClass as Class;
    error(Fault::version(), Class::Message, &[0x1e, 1, 0, 1]);
    error(Fault::Malformed(echo.to_vec()), Class::Message, &shifted(1));
    error(
        Fault::UnsupportedMessage(echo.to_vec()),
        Class::Message,
        &shifted(2),
    );
    error(
        Fault::MissingCookie(b"cook".to_vec()),
        Class::Message,
        b"\x1e\x02\x03\x00cook",
    );
    error(Fault::NotAuthorized, Class::Client, &[0x1e, 1, 32, 0]);
    error(
        Fault::UnsupportedTcpOption(vec![30, 28]),
        Class::Client,
        &[0x1e, 2, 33, 30, 28, 0, 0, 0],
    );
    let (busy, down) = (
        Fault::ResourceExceeded { retry_s: 60 },
        Fault::NetworkFailure { retry_s: 0 },
    );
    error(busy, Class::Converter, &[0x1e, 1, 64, 60]);
    error(down, Class::Converter, &[0x1e, 1, 65, 0]);
    error(
        Fault::ConnectionReset,
        Class::Destination,
        &[0x1e, 1, 96, 0],
    );
    error(
        Fault::DestinationUnreachable { icmp_code: 3 },
        Class::Destination,
        &[0x1e, 1, 97, 3],
    );
    let other = |code| Fault::Other {
        code,
        value: vec![7],
    };
    error(other(200), Class::Other, &[0x1e, 1, 200, 7]);
}

#[test]
fn a_header_alone_is_a_message() {
    assert_eq!(Message::default().encode().unwrap(), [1, 1, 0x22, 0x63]);
    assert_eq!(
        read(&[1, 1, 0x22, 0x63, b'x']),
        Ok(Some((Message::default(), 4)))
    );
}

#[test]
fn what_cannot_be_read_is_refused_at_the_first_byte_that_shows_it() {
    let magic = DecodeError::Magic(0x2264);
    for (bytes, error) in [
        (&[2][..], DecodeError::Version(2)),
        (&[1, 9, 0x22, 0x64], magic),
        (&[1, 0, 0x22, 0x63], DecodeError::TotalLength),
        // Without a length it would never end.
        (
            &[1, 2, 0x22, 0x63, 1, 0, 0, 0],
            DecodeError::TlvLength {
                at: 4,
                words: 0,
                left: 1,
            },
        ),
        (
            &[1, 2, 0x22, 0x63, 1, 2, 0, 0],
            DecodeError::TlvLength {
                at: 4,
                words: 2,
                left: 1,
            },
        ),
        (
            &[1, 2, 0x22, 0x63, 10, 1, 0, 80],
            DecodeError::TlvTooShort { at: 4, kind: 10 },
        ),
    ] {
        assert_eq!(read(bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn a_message_of_255_words_is_the_longest() {
    let cookie = |bytes| Message::of(Tlv::Cookie(vec![1; bytes]));
    let longest = cookie(MAX_LEN - 8).encode().unwrap();
    assert_eq!((longest.len(), longest[1]), (1020, 255));
    assert_eq!(cookie(MAX_LEN - 7).encode().unwrap_err().bytes, 1024);
    // The echo of the longest is cut so that the answer fits.
    let answer = Message::refusal(Fault::Malformed(longest));
    assert_eq!(answer.len(), MAX_LEN);
}

fn bytes(words: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=words * 4).prop_map(|mut bytes| {
        bytes.truncate(bytes.len() / 4 * 4);
        bytes
    })
}

fn tlv() -> impl Strategy<Value = Tlv> {
    let peer = any::<(std::net::IpAddr, u16)>().prop_map(|(ip, port)| {
        // A mapped address is the IPv4 one: there is one way to write it.
        SocketAddr::from((ip.to_canonical(), port))
    });
    let kinds = vec(1u8..=255, 0..20);
    prop_oneof![
        Just(Tlv::Info),
        (peer, bytes(5)).prop_map(|(peer, options)| Tlv::Connect { peer, options }),
        bytes(5).prop_map(Tlv::ExtendedTcpHeader),
        kinds.prop_map(Tlv::SupportedExtensions),
        bytes(5).prop_map(Tlv::Cookie),
        bytes(5).prop_map(|echo| Tlv::Error(Fault::Malformed(echo))),
        vec(1u8..=255, 1..9).prop_map(|kinds| Tlv::Error(Fault::UnsupportedTcpOption(kinds))),
        any::<u8>().prop_map(|retry_s| Tlv::Error(Fault::ResourceExceeded { retry_s })),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_back_in_pieces_of_any_size(
        tlvs in vec(tlv(), 0..8),
        cuts in vec(1usize..30, 1..80),
        rest in vec(any::<u8>(), 0..20),
    ) {
        let message = Message { tlvs };
        let whole = message.encode().unwrap();
        let stream = [&whole[..], &rest].concat();
        let mut reader = Reader::default();
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            let piece = &stream[at..(at + cut).min(stream.len())];
            match reader.take(piece).unwrap() {
                None => at += piece.len(),
                Some((read, used)) => {
                    prop_assert_eq!(read, message);
                    prop_assert_eq!(at + used, whole.len());
                    break;
                }
            }
            prop_assert!(at < whole.len());
        }
    }
}

#[test]
fn a_reader_wants_the_header_and_then_the_rest_of_the_message() {
    let bytes = Message::of(Tlv::Info).encode().unwrap();
    let mut reader = Reader::default();
    let mut wanted = vec![reader.wanted()];
    for byte in bytes {
        reader.take(&[byte]).unwrap();
        wanted.push(reader.wanted());
    }
    assert_eq!(wanted, [4, 3, 2, 1, 4, 3, 2, 1, 0]);
}

#[test]
fn a_fault_is_printed_as_a_reason() {
    for (fault, reason) in [
        (Fault::version(), "the version is not supported"),
        (Fault::Malformed(vec![]), "the message cannot be read"),
        (
            Fault::UnsupportedMessage(vec![]),
            "the kind of message is not supported",
        ),
        (Fault::MissingCookie(vec![]), "a cookie is missing"),
        (Fault::NotAuthorized, "not authorized"),
        (
            Fault::UnsupportedTcpOption(vec![30]),
            "TCP options of the kinds [30] cannot be used",
        ),
        (
            Fault::ResourceExceeded { retry_s: 1 },
            "the proxy has too much to do",
        ),
        (
            Fault::NetworkFailure { retry_s: 1 },
            "the proxy's network fails",
        ),
        (
            Fault::ConnectionReset,
            "the destination reset the connection",
        ),
        (
            Fault::DestinationUnreachable { icmp_code: 1 },
            "the destination is unreachable",
        ),
        (
            Fault::Other {
                code: 130,
                value: vec![],
            },
            "error 130",
        ),
    ] {
        assert_eq!(fault.to_string(), reason);
    }
}
