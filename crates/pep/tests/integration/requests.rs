//! What a listener makes of requests.

use narrows_pep::convert::{Fault, Message, Tlv};
use narrows_pep::{Asked, Cookies, Layout, RequestReader, Terms, request};

const CLIENT: [u8; 4] = [10, 0, 0, 1];

fn asked(bytes: &[u8], terms: &Terms) -> Result<Option<(Asked, usize)>, Option<Fault>> {
    let mut reader = RequestReader::default();
    let read = reader.take(bytes, terms, CLIENT.into());
    read.map_err(|refused| refused.answer)
}

fn message(tlvs: Vec<Tlv>) -> Vec<u8> {
    Message { tlvs }.encode().unwrap()
}

fn connect(options: &[u8]) -> Tlv {
    Tlv::Connect {
        peer: "192.0.2.7:443".parse().unwrap(),
        options: options.to_vec(),
    }
}

#[test]
fn either_layout_is_known_by_its_magic_number() {
    let destination = "192.0.2.7:443".parse().unwrap();
    let terms = Terms {
        thesis: true,
        ..Terms::default()
    };
    for layout in [Layout::Convert, Layout::Thesis] {
        let bytes = request(layout, destination, None).unwrap();
        let connect = Asked::Connect {
            destination,
            layout,
        };
        assert_eq!(asked(&bytes, &terms), Ok(Some((connect, bytes.len()))));
    }
    // Where it is not spoken, the thesis's is a message with a wrong number.
    let bytes = request(Layout::Thesis, destination, None).unwrap();
    let refused = asked(&bytes, &Terms::default());
    assert!(matches!(refused, Err(Some(Fault::Malformed(_)))));
}

#[test]
fn the_thesis_has_no_ipv6() {
    let destination = "[2001:db8::1]:443".parse().unwrap();
    assert_eq!(request(Layout::Thesis, destination, None), None);
    assert!(request(Layout::Convert, destination, None).is_some());
}

#[test]
fn a_question_for_extensions_is_no_connection() {
    let bytes = message(vec![Tlv::Info]);
    assert_eq!(asked(&bytes, &Terms::default()), Ok(Some((Asked::Info, 8))));
}

#[test]
fn one_thing_is_asked_for() {
    for tlvs in [
        vec![],
        vec![connect(&[]), connect(&[])],
        vec![Tlv::Info, connect(&[])],
        vec![Tlv::Error(Fault::ConnectionReset)],
        vec![connect(&[]), Tlv::ExtendedTcpHeader(vec![])],
    ] {
        let bytes = message(tlvs);
        let answer = Err(Some(Fault::Malformed(bytes.clone())));
        assert_eq!(asked(&bytes, &Terms::default()), answer);
    }
    let unknown = Tlv::Unknown {
        kind: 99,
        value: vec![0, 0],
    };
    let bytes = message(vec![unknown, connect(&[])]);
    let answer = Err(Some(Fault::UnsupportedMessage(bytes.clone())));
    assert_eq!(asked(&bytes, &Terms::default()), answer);
}

#[test]
fn options_that_the_proxy_cannot_send_are_named() {
    // Timestamps are on every connection; multipath (30) and TCP-MD5 (19) are not.
    let bytes = message(vec![connect(&[8, 2, 1, 30, 4, 0, 0x81, 19, 2, 0, 0, 0])]);
    let answer = Err(Some(Fault::UnsupportedTcpOption(vec![30, 19])));
    assert_eq!(asked(&bytes, &Terms::default()), answer);
    // A length of nothing does not hold the reader up.
    let bytes = message(vec![connect(&[30, 0, 30, 0])]);
    let answer = Err(Some(Fault::UnsupportedTcpOption(vec![30, 30])));
    assert_eq!(asked(&bytes, &Terms::default()), answer);
    let fast_open = message(vec![connect(&[34, 2, 0, 0])]);
    let terms = Terms {
        fast_open: true,
        ..Terms::default()
    };
    assert!(asked(&fast_open, &terms).is_ok());
    assert!(asked(&fast_open, &Terms::default()).is_err());
}

#[test]
fn who_has_no_cookie_is_given_one_and_comes_back_with_it() {
    let cookies = Cookies::new([3; 32]);
    let terms = Terms {
        cookies: Some(cookies.clone()),
        ..Terms::default()
    };
    let destination = "192.0.2.7:443".parse().unwrap();
    let first = request(Layout::Convert, destination, None).unwrap();
    let Err(Some(Fault::MissingCookie(given))) = asked(&first, &terms) else {
        panic!("a cookie is wanted");
    };
    let again = request(Layout::Convert, destination, Some(&given)).unwrap();
    assert!(asked(&again, &terms).is_ok());
    let stolen = cookies.of([10, 0, 0, 2].into());
    let stolen = request(Layout::Convert, destination, Some(&stolen)).unwrap();
    assert!(asked(&stolen, &terms).is_err());
}

#[test]
fn what_follows_a_short_request_that_came_in_pieces_is_not_part_of_it() {
    let bytes = [&message(vec![Tlv::Info])[..], b"data"].concat();
    for first in 0..8 {
        let mut reader = RequestReader::default();
        let mut take = |bytes: &[u8]| reader.take(bytes, &Terms::default(), CLIENT.into());
        assert_eq!(take(&bytes[..first]), Ok(None), "{first}");
        let rest = take(&bytes[first..]);
        assert_eq!(rest, Ok(Some((Asked::Info, 8 - first))), "{first}");
    }
}

#[test]
fn a_cookie_is_shown_once() {
    let cookie = || Tlv::Cookie(vec![1, 2]);
    let bytes = message(vec![connect(&[]), cookie(), cookie()]);
    let answer = Err(Some(Fault::Malformed(bytes.clone())));
    assert_eq!(asked(&bytes, &Terms::default()), answer);
    let bytes = message(vec![connect(&[]), cookie()]);
    assert!(asked(&bytes, &Terms::default()).is_ok());
}
