//! A small language that says which packets are observed: `tcp and port 443
//! and not host 10.0.0.1`.
//!
//! ```text
//! expression = term { "or" term }
//! term       = factor { "and" factor }
//! factor     = "not" factor | "(" expression ")" | test
//! test       = protocol | [ protocol ] end | "vlan" [ NUMBER ]
//! protocol   = "tcp" | "udp" | "icmp" | "icmp6" | "ip" | "ip6"
//! end        = [ "src" | "dst" ] "host" ADDRESS
//!            | [ "src" | "dst" ] "net" ADDRESS "/" LENGTH
//!            | [ "src" | "dst" ] "port" NUMBER [ "-" NUMBER ]
//! ```
//! `&&`, `||` and `!` are `and`, `or` and `not`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use narrows_units::WordError;
use narrows_wire::{FlowKey, ip};

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
    /// A tag of this VLAN, or of any.
    Vlan(Option<u16>),
}

/// What a filter asks about a packet.
trait Facts {
    /// Address and port of its sender; no port where its protocol has none.
    fn source(&self) -> (IpAddr, Option<u16>);
    /// Address and port of its receiver.
    fn destination(&self) -> (IpAddr, Option<u16>);
    fn protocol(&self) -> u8;
}

impl Facts for Packet<'_> {
    fn source(&self) -> (IpAddr, Option<u16>) {
        let (address, port) = Packet::source(self);
        (address, Some(port))
    }

    fn destination(&self) -> (IpAddr, Option<u16>) {
        let (address, port) = Packet::destination(self);
        (address, Some(port))
    }

    fn protocol(&self) -> u8 {
        Packet::protocol(self)
    }
}

/// A packet that belongs to no flow: of another protocol, or a later fragment. (What of
/// TCP and UDP is malformed is one, too, as far as its addresses.)
impl Facts for FlowKey {
    fn source(&self) -> (IpAddr, Option<u16>) {
        (self.source, None)
    }

    fn destination(&self) -> (IpAddr, Option<u16>) {
        (self.destination, None)
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }
}

/// Which end of a packet a test applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Either,
    Source,
    Destination,
}

impl Which {
    fn any<T>(
        self,
        packet: &impl Facts,
        of: impl Fn((IpAddr, Option<u16>)) -> T,
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
    /// Whether a filter can begin with this word, which then is no file's name.
    pub fn begins(word: &str) -> bool {
        const FIRST: [&str; 15] = [
            "not", "!", "(", "vlan", "tcp", "udp", "icmp", "icmp6", "ip", "ip6", "src", "dst",
            "host", "net", "port",
        ];
        let first = tokens(word).first().map(|(_, token)| *token);
        first.is_some_and(|first| FIRST.contains(&first))
    }

    /// Whether it asks for VLANs, so that these must be known of a packet.
    pub fn needs_vlan(&self) -> bool {
        self.0.as_ref().is_some_and(Test::needs_vlan)
    }

    /// Whether it takes this packet, which was tagged with this VLAN.
    pub fn takes(&self, packet: &Packet<'_>, vlan: Option<u16>) -> bool {
        self.0.as_ref().is_none_or(|test| test.holds(packet, vlan))
    }

    /// Whether it takes a packet that is none of a flow, which starts at its IP header.
    pub fn takes_other(&self, bytes: &[u8], vlan: Option<u16>) -> bool {
        let holds =
            |test: &Test| FlowKey::of(bytes).is_some_and(|packet| test.holds(&packet, vlan));
        self.0.as_ref().is_none_or(holds)
    }
}

impl Test {
    fn needs_vlan(&self) -> bool {
        match self {
            Self::Not(test) => test.needs_vlan(),
            Self::All(tests) | Self::Any(tests) => tests.iter().any(Self::needs_vlan),
            Self::Vlan(_) => true,
            _ => false,
        }
    }

    fn holds(&self, packet: &impl Facts, vlan: Option<u16>) -> bool {
        match self {
            Self::Not(test) => !test.holds(packet, vlan),
            Self::All(tests) => tests.iter().all(|t| t.holds(packet, vlan)),
            Self::Any(tests) => tests.iter().any(|t| t.holds(packet, vlan)),
            Self::Vlan(wanted) => vlan.is_some_and(|vlan| wanted.is_none_or(|w| w == vlan)),
            Self::Protocol(protocol) => packet.protocol() == *protocol,
            Self::Version6(six) => packet.source().0.is_ipv6() == *six,
            Self::Net(which, net, length) => {
                which.any(packet, |(address, _)| address, |a| within(a, *net, *length))
            }
            Self::Port(which, low, high) => {
                let between = |port: Option<u16>| port.is_some_and(|p| (*low..=*high).contains(&p));
                which.any(packet, |(_, port)| port, between)
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
            Self::Protocol(ip::ICMP) => f.write_str("icmp"),
            Self::Protocol(ip::ICMPV6) => f.write_str("icmp6"),
            Self::Protocol(_) => f.write_str("udp"),
            Self::Vlan(None) => f.write_str("vlan"),
            Self::Vlan(Some(number)) => write!(f, "vlan {number}"),
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

/// Words, brackets and operators with their places.
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
        if self.take(&["vlan"]) {
            let number = self.peek().and_then(|w| w.parse::<u16>().ok());
            if number.is_some_and(|n| n > 4094) {
                return Err(self.unexpected("a VLAN from 0 to 4094"));
            }
            self.at += usize::from(number.is_some());
            return Ok(Test::Vlan(number));
        }
        let protocol = match self.peek() {
            Some("tcp") => Some(Test::Protocol(ip::TCP)),
            Some("udp") => Some(Test::Protocol(ip::UDP)),
            Some("icmp") => Some(Test::Protocol(ip::ICMP)),
            Some("icmp6") => Some(Test::Protocol(ip::ICMPV6)),
            Some("ip") => Some(Test::Version6(false)),
            Some("ip6") => Some(Test::Version6(true)),
            _ => None,
        };
        let Some(protocol) = protocol else {
            return self.end();
        };
        self.at += 1;
        // `tcp port 80` is `tcp and port 80`.
        match self.peek() {
            Some("src" | "dst" | "host" | "net" | "port") => {
                Ok(Test::All(vec![protocol, self.end()?]))
            }
            _ => Ok(protocol),
        }
    }

    /// What is asked of an end.
    fn end(&mut self) -> Result<Test, WordError> {
        let which = if self.take(&["src"]) {
            Which::Source
        } else if self.take(&["dst"]) {
            Which::Destination
        } else {
            Which::Either
        };
        match self.peek() {
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
                "`tcp`, `udp`, `icmp`, `icmp6`, `ip`, `ip6`, `vlan`, `host`, `net`, `port`, \
                 `src`, `dst`, `not` or `(`",
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
mod tests;
