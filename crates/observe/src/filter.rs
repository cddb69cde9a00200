//! A small language that says which packets are observed: `tcp and port 443
//! and not host 10.0.0.1`.
//!
//! ```text
//! expression = term { "or" term }
//! term       = factor { "and" factor }
//! factor     = "not" factor | "(" expression ")" | test
//! test       = "tcp" | "udp" | "ip" | "ip6"
//!            | [ "src" | "dst" ] "host" ADDRESS
//!            | [ "src" | "dst" ] "net" ADDRESS "/" LENGTH
//!            | [ "src" | "dst" ] "port" NUMBER [ "-" NUMBER ]
//! ```
//! `&&`, `||` and `!` stand for `and`, `or` and `not`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use narrows_units::WordError;
use narrows_wire::ip;

use crate::classify::Packet;

/// The deepest nesting of brackets and `not`.
const DEEPEST: usize = 64;

/// Which packets are observed; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Option<Test>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
    Protocol(u8),
    Version6(bool),
    Net(Which, IpAddr, u8),
    Port(Which, u16, u16),
}

/// Which end of a packet a test looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Either,
    Source,
    Destination,
}

impl Which {
    fn any<T>(
        self,
        packet: &Packet<'_>,
        of: impl Fn((IpAddr, u16)) -> T,
        test: impl Fn(T) -> bool,
    ) -> bool {
        let source = || test(of(packet.source()));
        let destination = || test(of(packet.destination()));
        match self {
            Self::Either => source() || destination(),
            Self::Source => source(),
            Self::Destination => destination(),
        }
    }
}

impl Filter {
    /// Whether it takes every packet.
    pub fn takes_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it takes this packet.
    pub fn takes(&self, packet: &Packet<'_>) -> bool {
        self.0.as_ref().is_none_or(|test| test.holds(packet))
    }
}

impl Test {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        match self {
            Self::Not(test) => !test.holds(packet),
            Self::All(tests) => tests.iter().all(|t| t.holds(packet)),
            Self::Any(tests) => tests.iter().any(|t| t.holds(packet)),
            Self::Protocol(protocol) => packet.protocol() == *protocol,
            Self::Version6(six) => packet.source().0.is_ipv6() == *six,
            Self::Net(which, net, length) => {
                which.any(packet, |(address, _)| address, |a| within(a, *net, *length))
            }
            Self::Port(which, low, high) => {
                which.any(packet, |(_, port)| port, |p| (*low..=*high).contains(&p))
            }
        }
    }
}

fn within(address: IpAddr, net: IpAddr, length: u8) -> bool {
    match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            let differing = (a.to_bits() ^ n.to_bits()).leading_zeros();
            differing >= u32::from(length)
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            let differing = (a.to_bits() ^ n.to_bits()).leading_zeros();
            differing >= u32::from(length)
        }
        _ => false,
    }
}

impl FromStr for Filter {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
            end: text.len(),
            depth: 0,
        };
        if parser.tokens.is_empty() {
            return Ok(Self(None));
        }
        let test = parser.expression()?;
        match parser.peek() {
            None => Ok(Self(Some(test))),
            Some(_) => Err(parser.unexpected("`and`, `or` or the end")),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = |w: &Which| match w {
            Which::Either => "",
            Which::Source => "src ",
            Which::Destination => "dst ",
        };
        let list = |f: &mut fmt::Formatter<'_>, tests: &[Self], word: &str| {
            for (i, test) in tests.iter().enumerate() {
                let before = if i == 0 { "(" } else { word };
                write!(f, "{before}{test}")?;
            }
            f.write_str(")")
        };
        match self {
            Self::Not(test) => write!(f, "not {test}"),
            Self::All(tests) => list(f, tests, " and "),
            Self::Any(tests) => list(f, tests, " or "),
            Self::Protocol(ip::TCP) => f.write_str("tcp"),
            Self::Protocol(_) => f.write_str("udp"),
            Self::Version6(six) => f.write_str(if *six { "ip6" } else { "ip" }),
            Self::Net(w, net, length) => write!(f, "{}net {net}/{length}", which(w)),
            Self::Port(w, low, high) => write!(f, "{}port {low}-{high}", which(w)),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |test| test.fmt(f))
    }
}

/// Words, brackets and operators with the places where they stand.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let start = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return found;
        };
        let length = if rest.starts_with("&&") || rest.starts_with("||") {
            2
        } else if matches!(first, '(' | ')' | '!') {
            1
        } else {
            let stops = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '!' | '&' | '|');
            let first = first.len_utf8();
            rest[first..].find(stops).map_or(rest.len(), |n| n + first)
        };
        found.push((start, &rest[..length]));
        rest = &rest[length..];
    }
}

struct Parser<'a> {
    tokens: Vec<(usize, &'a str)>,
    at: usize,
    end: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|(_, word)| *word)
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(found);
        found
    }

    fn unexpected(&self, allowed: &str) -> WordError {
        let (span, found) = match self.tokens.get(self.at) {
            Some((start, word)) => (*start..start + word.len(), format!("`{word}`")),
            None => (self.end..self.end, "the end of the filter".to_owned()),
        };
        WordError::new(span, found, allowed)
    }

    fn expression(&mut self) -> Result<Test, WordError> {
        self.list(&["or", "||"], Self::term, Test::Any)
    }

    fn term(&mut self) -> Result<Test, WordError> {
        self.list(&["and", "&&"], Self::factor, Test::All)
    }

    fn list(
        &mut self,
        joints: &[&str],
        part: fn(&mut Self) -> Result<Test, WordError>,
        whole: fn(Vec<Test>) -> Test,
    ) -> Result<Test, WordError> {
        let first = part(self)?;
        let mut tests = vec![first];
        while self.take(joints) {
            tests.push(part(self)?);
        }
        Ok(match tests.len() {
            1 => tests.remove(0),
            _ => whole(tests),
        })
    }

    fn factor(&mut self) -> Result<Test, WordError> {
        if self.depth == DEEPEST {
            return Err(self.unexpected("at most 64 nested brackets and `not`"));
        }
        self.depth += 1;
        let test = if self.take(&["not", "!"]) {
            Test::Not(Box::new(self.factor()?))
        } else if self.take(&["("]) {
            let inner = self.expression()?;
            if !self.take(&[")"]) {
                return Err(self.unexpected("`)`"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(test)
    }

    fn test(&mut self) -> Result<Test, WordError> {
        let which = if self.take(&["src"]) {
            Which::Source
        } else if self.take(&["dst"]) {
            Which::Destination
        } else {
            Which::Either
        };
        let word = self.peek();
        if which == Which::Either {
            let simple = match word {
                Some("tcp") => Some(Test::Protocol(ip::TCP)),
                Some("udp") => Some(Test::Protocol(ip::UDP)),
                Some("ip") => Some(Test::Version6(false)),
                Some("ip6") => Some(Test::Version6(true)),
                _ => None,
            };
            if let Some(test) = simple {
                self.at += 1;
                return Ok(test);
            }
        }
        match word {
            Some("host") => {
                self.at += 1;
                let address = self.value("an IP address", |w| w.parse::<IpAddr>().ok())?;
                let length = if address.is_ipv4() { 32 } else { 128 };
                Ok(Test::Net(which, address, length))
            }
            Some("net") => {
                self.at += 1;
                let (address, length) = self.value("a network such as 10.0.0.0/8", network)?;
                Ok(Test::Net(which, address, length))
            }
            Some("port") => {
                self.at += 1;
                let (low, high) = self.value("a port or a range such as 5000-5010", ports)?;
                Ok(Test::Port(which, low, high))
            }
            _ if which == Which::Either => Err(self.unexpected(
                "`tcp`, `udp`, `ip`, `ip6`, `host`, `net`, `port`, `src`, `dst`, `not` or `(`",
            )),
            _ => Err(self.unexpected("`host`, `net` or `port`")),
        }
    }

    fn value<T>(
        &mut self,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, WordError> {
        let value = self.peek().and_then(parse);
        let value = value.ok_or_else(|| self.unexpected(allowed))?;
        self.at += 1;
        Ok(value)
    }
}

fn network(word: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = word.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((address, length))
}

fn ports(word: &str) -> Option<(u16, u16)> {
    let (low, high) = match word.split_once('-') {
        Some((low, high)) => (low.parse().ok()?, high.parse().ok()?),
        None => (word.parse().ok()?, word.parse().ok()?),
    };
    (low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::classify;
    use narrows_wire::{IpFields, UdpFields};

    /// A datagram from 10.0.0.1:1000 to 10.0.0.2:2000.
    fn packet() -> Vec<u8> {
        let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut bytes = Vec::new();
        let ip = IpFields {
            source,
            destination,
            traffic_class: 0,
            ttl: 64,
            protocol: ip::UDP,
            ident: 0,
        };
        ip.write(&mut bytes, 8);
        let udp = UdpFields {
            source_port: 1000,
            destination_port: 2000,
        };
        udp.write(&mut bytes, source, destination, &[], 0);
        bytes
    }

    #[test]
    fn tests_hold_or_not_as_they_read() {
        let bytes = packet();
        let packet = classify(&bytes).unwrap();
        for (text, holds) in [
            ("", true),
            ("udp", true),
            ("tcp", false),
            ("ip6", false),
            ("not tcp and ip", true),
            ("host 10.0.0.2", true),
            ("src host 10.0.0.2", false),
            ("dst host 10.0.0.2", true),
            ("net 10.0.0.0/8 and port 1000", true),
            ("net 10.0.0.2/31", true),
            ("net 10.0.0.4/30", false),
            ("net 0.0.0.0/0", true),
            ("host ::1", false),
            ("dst port 1000", false),
            ("port 1500-2500", true),
            ("tcp or udp and port 7", false),
            ("(tcp or udp) and port 2000", true),
            ("!(tcp||port 7)&&udp", true),
        ] {
            let filter: Filter = text.parse().unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(filter.takes(&packet), holds, "{text}");
            let again: Filter = filter.to_string().parse().unwrap();
            assert_eq!(again, filter, "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in [
            "tcp and",
            "port",
            "port 70000",
            "port 5-4",
            "host x",
            "net 10.0.0.0",
            "net 1.2.3.4/33",
            "(tcp",
            "tcp)",
            "tcp udp",
            "src tcp",
            "&",
            "or tcp",
        ] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
        assert!("(".repeat(100_000).parse::<Filter>().is_err());
    }
}
