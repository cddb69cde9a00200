//! Which boxes stand on a path of this machine, and the responder that helps to find them.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicBool;

use narrows_middlebox_detect::{Detection, Finding, Hop, Place, ResponderSettings, Verdict, Way};
use narrows_pep::{NETWORK, Network};
use narrows_results::Error;
use narrows_scenario::Refusal;
use serde::Serialize;

use super::refused;
use crate::detect as live;

pub use narrows_middlebox_detect::Stage as PathStage;

/// Columns of lists of names.
const WIDTH: usize = 90;

/// The port of both, unless another is named.
pub const PORT: u16 = 8806;

/// A router on a path, or one of its ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathHop {
    /// 0 is the sender; one more than there are routers, the receiver.
    pub number: u8,
    /// The router's address, if it answered.
    pub address: Option<IpAddr>,
}

/// What is said of a ready box in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundBox {
    /// Its name.
    pub name: &'static str,
    /// Of the packets that it changes or drops: `there` or `back`.
    pub direction: &'static str,
    /// `found`, `not found` or `unknown`.
    pub verdict: &'static str,
    /// Where it was found: behind this hop of the direction,
    pub after: Option<PathHop>,
    /// and before or at this one.
    pub before: Option<PathHop>,
    /// Why that is said.
    pub evidence: String,
}

/// A change on a path that no ready box makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherChange {
    /// `there` or `back`.
    pub direction: &'static str,
    /// The field, in the words of rules, or `payload`.
    pub field: &'static str,
    /// Packets that came so.
    pub packets: u32,
}

/// Probes that were to go all the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathCounts {
    /// `there` or `back`.
    pub direction: &'static str,
    /// Routers on the way, if known.
    pub routers: Option<u8>,
    /// Probes sent.
    pub sent: u32,
    /// Of these, those that came.
    pub came: u32,
}

/// What was found out about the path to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathBoxes {
    /// The host, as it was named.
    pub host: String,
    /// Its address and port.
    pub address: SocketAddr,
    /// Whether a responder answered there.
    pub responder: bool,
    /// Each direction.
    pub directions: Vec<PathCounts>,
    /// Every ready box in each direction.
    pub boxes: Vec<FoundBox>,
    /// What else was changed.
    pub other_changes: Vec<OtherChange>,
    /// Why not all was done that was to be.
    pub cut_short: Option<&'static str>,
}

const fn direction(way: Way) -> &'static str {
    match way {
        Way::Forward => "there",
        Way::Back => "back",
    }
}

impl PathBoxes {
    fn new(host: &str, address: SocketAddr, detection: &Detection) -> Self {
        let hop = |hop: Hop| PathHop {
            number: hop.number,
            address: hop.address,
        };
        let found = |finding: &Finding| FoundBox {
            name: finding.name,
            direction: direction(finding.way),
            verdict: match finding.verdict {
                Verdict::Found => "found",
                Verdict::NotFound => "not found",
                Verdict::Unknown => "unknown",
            },
            after: finding.place.map(|Place { after, .. }| hop(after)),
            before: finding.place.map(|Place { before, .. }| hop(before)),
            evidence: finding.evidence.clone(),
        };
        let directions = Way::BOTH.iter().enumerate();
        Self {
            host: host.to_owned(),
            address,
            responder: detection.responder,
            directions: directions
                .map(|(at, way)| PathCounts {
                    direction: direction(*way),
                    routers: detection.hops[at],
                    sent: detection.sent[at],
                    came: detection.came[at],
                })
                .collect(),
            boxes: detection.findings.iter().map(found).collect(),
            other_changes: detection
                .others
                .iter()
                .map(|other| OtherChange {
                    direction: direction(other.way),
                    field: other.field,
                    packets: other.packets,
                })
                .collect(),
            cut_short: detection.cut_short,
        }
    }
}

impl FoundBox {
    /// Where it is, in words.
    fn place(&self) -> String {
        let end = |hop: &PathHop, end: &str| match hop.address {
            Some(address) => address.to_string(),
            None if hop.number == 0 || end == "the receiver" => end.to_owned(),
            None => format!("hop {}", hop.number),
        };
        match (&self.after, &self.before) {
            (Some(after), Some(before)) => {
                let (from, to) = (end(after, "the sender"), end(before, "the receiver"));
                format!("between {from} and {to}")
            }
            _ => "place unknown".to_owned(),
        }
    }
}

impl fmt::Display for PathBoxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = match self.responder {
            true => "a responder answers",
            false => "no responder answers: what is said is from routers' ICMP errors alone",
        };
        writeln!(f, "{}, port {}: {answers}", self.host, self.address.port())?;
        for counts in self.directions.iter().filter(|_| self.responder) {
            let PathCounts {
                direction,
                routers,
                sent,
                came,
            } = counts;
            let routers = routers.map_or("?".to_owned(), |n| n.to_string());
            writeln!(f, "{direction}: {came} of {sent} probes, {routers} routers")?;
        }
        if let Some(why) = self.cut_short {
            writeln!(f, "not all was done: {why}")?;
        }
        writeln!(f)?;
        let row = |f: &mut fmt::Formatter<'_>, [name, way, said, why]: [&str; 4]| {
            writeln!(f, "{name:<20} {way:<9} {said:<9} {why}")
        };
        row(f, ["box", "direction", "verdict", "evidence"])?;
        for each in self.boxes.iter().filter(|b| b.verdict == "found") {
            row(f, [each.name, each.direction, each.verdict, &each.evidence])?;
            writeln!(f, "{:<41}{}", "", each.place())?;
        }
        for change in &self.other_changes {
            let why = format!("{} changed in {} packets", change.field, change.packets);
            row(f, ["(no ready box)", change.direction, "found", &why])?;
        }
        let mut heads: Vec<String> = Vec::new();
        let mut lists: Vec<Vec<&str>> = Vec::new();
        let rest = ["not found", "unknown"].into_iter().flat_map(|verdict| {
            let boxes = self.boxes.iter();
            boxes.filter(move |each| each.verdict == verdict)
        });
        for each in rest {
            let mut head = format!("{}, {}", each.verdict, each.direction);
            if each.verdict == "unknown" {
                head = format!("{head} ({})", each.evidence);
            }
            match heads.iter().position(|other| *other == head) {
                Some(at) => lists[at].push(each.name),
                None => {
                    heads.push(head);
                    lists.push(vec![each.name]);
                }
            }
        }
        for (head, names) in heads.iter().zip(lists) {
            writeln!(f, "\n{head}:")?;
            let mut column = WIDTH;
            for (at, name) in names.iter().enumerate() {
                let comma = if at + 1 < names.len() { "," } else { "" };
                column += name.len() + 2;
                if column >= WIDTH {
                    column = name.len() + 4;
                    write!(f, "{}  {name}{comma}", if at > 0 { "\n" } else { "" })?;
                } else {
                    write!(f, " {name}{comma}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// What a responder is to do.
#[derive(Clone, Debug)]
pub struct RespondRequest {
    /// At which of this machine's addresses, and at which port; it needs the one after it too.
    pub own: SocketAddr,
    /// Whom it answers.
    pub clients: Vec<Network>,
    /// Probers that it calls, so that a box at its side lets them in.
    pub calls: Vec<SocketAddr>,
}

/// What a responder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RespondCounts {
    /// Packets to its port.
    pub received: u64,
    /// Of these, from who is not to be answered.
    pub refused: u64,
    /// Beyond what is answered in a second, or in all sessions.
    pub limited: u64,
    /// Answers, ordered probes and calls.
    pub sent: u64,
    /// Probers that it has answered.
    pub sessions: u64,
}

impl fmt::Display for RespondCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            received,
            refused,
            limited,
            sent,
            sessions,
        } = self;
        writeln!(
            f,
            "{sessions} sessions: {received} packets came, {sent} were sent; not answered: \
             {refused} from others, {limited} beyond the limits"
        )
    }
}

/// An address with a port, or with [`PORT`]. A name is looked up.
fn socket_address(key: &str, word: &str) -> Result<SocketAddr, Error> {
    let allowed = "a host, or one with a port: 192.0.2.1, [2001:db8::1]:8806, host.example";
    let refused = |found: String| refused(Refusal::new(key, found, allowed).to_string());
    if let Ok(address) = word.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) => {
            let number = port.parse::<u16>().ok().filter(|port| *port > 0);
            (name, number.ok_or_else(|| refused(format!("`{word}`")))?)
        }
        None => (word, PORT),
    };
    let found = (name.trim_matches(['[', ']']), port).to_socket_addrs();
    let mut found = found.map_err(|e| refused(format!("`{word}`: {e}")))?;
    found.next().ok_or_else(|| refused(format!("`{word}`")))
}

impl RespondRequest {
    /// Reads `ADDRESS [to NETWORK…] [call HOST…]`.
    ///
    /// # Errors
    /// A word that is neither, and when nobody is to be answered.
    pub fn parse(words: &[&str]) -> Result<Self, Error> {
        let key = "mmb respond";
        let refused =
            |found: String, allowed: &str| refused(Refusal::new(key, found, allowed).to_string());
        let [own, rest @ ..] = words else {
            let allowed = "an address of this machine: respond ADDRESS to NETWORK";
            return Err(refused("no address".to_owned(), allowed));
        };
        let mut request = Self {
            own: socket_address(key, own)?,
            clients: Vec::new(),
            calls: Vec::new(),
        };
        let mut list = "";
        for word in rest {
            match (*word, list) {
                ("to" | "call", _) => list = word,
                (_, "to") => {
                    let network = word.parse().map_err(|()| format!("`{word}`"));
                    let network = network.map_err(|found| refused(found, NETWORK))?;
                    request.clients.push(network);
                }
                (_, "call") => request.calls.push(socket_address(key, word)?),
                _ => return Err(refused(format!("`{word}`"), "`to` or `call`")),
            }
        }
        if request.clients.is_empty() {
            let allowed = "whom it answers: respond ADDRESS to NETWORK…";
            return Err(refused("nobody to answer".to_owned(), allowed));
        }
        Ok(request)
    }
}

fn failed(error: live::DetectError) -> Error {
    match error {
        error if error.is_of_rights() => Error::NoPermission(error.to_string()),
        error => Error::Engine(error.to_string()),
    }
}

/// Finds out which ready boxes stand on the path to a host: `HOST[:PORT] [from PORT]`. `None` if
/// `stop` was set before that was done.
///
/// # Errors
/// When the words are no host, or the machine does not let it.
pub fn detect(
    words: &[&str],
    stop: &AtomicBool,
    stage: &mut dyn FnMut(PathStage),
) -> Result<Option<PathBoxes>, Error> {
    let key = "mmb detect";
    let (host, from) = match words {
        [host] => (host, PORT),
        [host, "from", port] => {
            // 64 ports after it are used too.
            let number = port.parse::<u16>().ok();
            let number = number.filter(|port| (1..=u16::MAX - 64).contains(port));
            let why = || Refusal::new(key, format!("`{port}`"), "a port up to 65471");
            (host, number.ok_or_else(|| refused(why().to_string()))?)
        }
        _ => {
            let found = format!("`{}`", words.join(" "));
            let why = Refusal::new(key, found, "HOST, or HOST from PORT");
            return Err(refused(why.to_string()));
        }
    };
    let address = socket_address(key, host)?;
    let detection = live::detect(address, from, stop, stage).map_err(failed)?;
    Ok(detection.map(|detection| PathBoxes::new(host, address, &detection)))
}

/// Answers probers until `stop` is set; `ready` is called once it does.
///
/// # Errors
/// When the machine does not let it.
pub fn respond(
    request: RespondRequest,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<RespondCounts, Error> {
    let settings = ResponderSettings {
        own: request.own,
        clients: request.clients,
        calls: request.calls,
    };
    let counters = live::respond(settings, stop, ready).map_err(failed)?;
    Ok(RespondCounts {
        received: counters.received,
        refused: counters.refused,
        limited: counters.limited,
        sent: counters.sent,
        sessions: counters.sessions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_or_the_one_of_responders() {
        let read = |word: &str| socket_address("x", word).map(|a| a.to_string());
        for (word, address) in [
            ("10.0.0.1", "10.0.0.1:8806"),
            ("10.0.0.1:99", "10.0.0.1:99"),
            ("fd00::1", "[fd00::1]:8806"),
            ("[fd00::1]:99", "[fd00::1]:99"),
        ] {
            assert_eq!(read(word).unwrap(), address);
        }
        for word in ["10.0.0.1:0", "10.0.0.1:x", "no such host"] {
            assert!(read(word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_responder_that_is_to_answer_nobody_is_refused() {
        let read = |line: &str| RespondRequest::parse(&line.split(' ').collect::<Vec<_>>());
        let request = read("10.0.0.1 to 10.0.0.0/8 fd00::/8 call 10.0.0.9:99").unwrap();
        assert_eq!(request.clients.len(), 2);
        assert_eq!(request.calls, ["10.0.0.9:99".parse().unwrap()]);
        for (line, why) in [
            ("10.0.0.1", "nobody to answer"),
            ("10.0.0.1 call 10.0.0.9", "nobody to answer"),
            ("10.0.0.1 to 10.0.0.1/8", "10.0.0.1/8"),
            ("10.0.0.1 for 10.0.0.0/8", "`for`"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn what_was_found_stands_first_and_with_its_place() {
        let detection = Detection {
            responder: true,
            hops: [Some(2), None],
            sent: [10, 11],
            came: [9, 8],
            findings: vec![
                Finding {
                    name: "ecn-bleach",
                    way: Way::Forward,
                    verdict: Verdict::NotFound,
                    evidence: String::new(),
                    place: None,
                },
                Finding {
                    name: "mss-clamp",
                    way: Way::Back,
                    verdict: Verdict::Found,
                    evidence: "MSS 8960 became 1400, in 9 of 9 packets".to_owned(),
                    place: Some(Place {
                        after: Hop {
                            number: 1,
                            address: Some([10, 1, 0, 1].into()),
                        },
                        before: Hop {
                            number: 3,
                            address: None,
                        },
                    }),
                },
            ],
            others: Vec::new(),
            cut_short: None,
        };
        let address = "10.0.0.2:8806".parse().unwrap();
        let shown = PathBoxes::new("far", address, &detection).to_string();
        let wanted = "\
far, port 8806: a responder answers
there: 9 of 10 probes, 2 routers
back: 8 of 11 probes, ? routers

box                  direction verdict   evidence
mss-clamp            back      found     MSS 8960 became 1400, in 9 of 9 packets
                                         between 10.1.0.1 and the receiver

not found, there:
  ecn-bleach
";
        assert_eq!(shown, wanted);
    }
}
