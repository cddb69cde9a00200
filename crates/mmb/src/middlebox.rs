//! The box: rules, connections, and what becomes of each packet.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use narrows_core::{DropCause, Port};
use narrows_units::{Instant, Rng};
use narrows_wire::{FlowKey, Icmp, Ip, ip};

use crate::action::{Action, Verdict};
use crate::classifier::Classifier;
use crate::command::Command;
use crate::connections::{Connections, Direction, MOST};
use crate::constraint::{Names, UnknownInterface};
use crate::ffi::Packet;
use crate::field::Layer;
use crate::rule::Rule;
use crate::rule_actions::RuleActions;
use crate::structs::{Flow, Reading, Tracked};

mod begin;
mod frames;
mod next;
mod related;
#[cfg(test)]
mod tests;
mod view;

use next::{Next, find_old};
pub use view::{BoxCounters, ConnectionView, RuleCounters, RuleHits, TableView};

/// Flows of which it is remembered that their new ends were reported.
const MOST_REPORTED: usize = 65_536;

/// Where a box stands: what rules can name besides fields.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its own addresses, IPv4 and IPv6: `self` in rules.
    pub own: [IpAddr; 2],
    /// Its interfaces: the one by which packets come that travel up, and the other.
    pub interfaces: [String; 2],
    /// Connections at a time.
    pub most_connections: usize,
    /// Bytes of IP beyond which options make no packet longer: the MTU of its link.
    pub mtu: u32,
}

impl Default for Settings {
    /// No address; `inside` and `outside`; a million connections; no MTU.
    fn default() -> Self {
        Self {
            own: [IpAddr::V4([0; 4].into()), IpAddr::V6([0; 16].into())],
            interfaces: ["inside", "outside"].map(str::to_owned),
            most_connections: MOST,
            mtu: u32::MAX,
        }
    }
}

/// Why commands were not applied. None of them was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The box has no interface of that name, but these.
    Interface(String, [String; 2]),
    /// There is no rule of that number; there are so many.
    Number(usize, usize),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name, [a, b]) => write!(
                f,
                "the box has no interface `{name}`: its interfaces are `{a}` and `{b}`"
            ),
            Self::Number(n, 0) => write!(f, "there is no rule {n}: there are no rules"),
            Self::Number(n, rules) => write!(f, "there is no rule {n}: the rules are 1 to {rules}"),
        }
    }
}

impl std::error::Error for Refused {}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why it is dropped: by a rule, because it cannot be read, or because no port or no room for
    /// its connection is left. `None` if it goes on, changed or as it was.
    pub dropped: Option<DropCause>,
    /// Where it began a connection whose packets get other addresses or ports, or is the first
    /// of its flow to which a rule gave others: the protocol, and source and destination as it
    /// leaves.
    pub translated: Option<(u8, AddressPair)>,
}

/// Source and destination.
type AddressPair = (SocketAddr, SocketAddr);

/// A box.
#[derive(Clone, Debug)]
pub struct Middlebox {
    settings: Settings,
    rules: Vec<Rule>,
    rule_actions: RuleActions,
    /// By rule: packets, their bytes, and packets that it dropped. Memory that stays zero takes
    /// none.
    counted: Vec<[u64; 3]>,
    classifier: Classifier,
    stateful: bool,
    /// Whether packets of a connection may get other addresses, ports or numbers.
    translates: bool,
    /// The flows that rules without state gave other addresses or ports, as far as an [`Outcome`]
    /// reported it.
    reported: BTreeSet<FlowKey>,
    connections: Connections,
    enabled: [bool; 2],
    rng: Rng,
    counters: BoxCounters,
    /// The rules that the last packet matched, and those that applied to it.
    matched: Vec<u32>,
    applied: Vec<u32>,
    belongs: Option<Direction>,
    /// Whether rules need TCP options.
    reads_options: bool,
    /// What was read of the last packet.
    reading: Option<Box<Reading>>,
}

impl Middlebox {
    /// A box without rules, whose draws come from `rng`.
    pub fn new(settings: Settings, rng: Rng) -> Self {
        Self {
            connections: Connections::new(settings.most_connections),
            settings,
            rules: Vec::new(),
            rule_actions: RuleActions::default(),
            counted: Vec::new(),
            classifier: Classifier::empty(),
            stateful: false,
            translates: false,
            reported: BTreeSet::new(),
            enabled: [true; 2],
            rng,
            counters: BoxCounters::default(),
            matched: Vec::new(),
            applied: Vec::new(),
            belongs: None,
            reads_options: false,
            reading: None,
        }
    }

    /// Applies `commands` in their order, all or none; those that only show something
    /// change nothing. The counters and connections of rules that stay are kept.
    ///
    /// # Errors
    /// When one cannot be applied.
    pub fn apply(&mut self, commands: &[Command]) -> Result<(), Refused> {
        self.apply_all(commands.to_vec())
    }

    /// The same of commands that are not needed any more: of a million rules no copy is made.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_all(&mut self, commands: Vec<Command>) -> Result<(), Refused> {
        self.change(commands).map(drop)
    }

    /// The same; which number each rule had before, from 0, if it was there.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn change(&mut self, commands: Vec<Command>) -> Result<Vec<Option<u32>>, Refused> {
        let before = (0..self.rules.len()).map(Next::Old).collect();
        self.change_from(before, self.enabled, commands)
    }

    /// Applies `commands` as if there were no rules before. A rule that says the same as one that was
    /// there is that one, with its counters and connections, whatever its number was. Which number each
    /// rule had before, from 0, if it was there.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn reload(&mut self, commands: Vec<Command>) -> Result<Vec<Option<u32>>, Refused> {
        self.change_from(Vec::new(), [true; 2], commands)
    }

    fn change_from(
        &mut self,
        mut next: Vec<Next>,
        mut enabled: [bool; 2],
        commands: Vec<Command>,
    ) -> Result<Vec<Option<u32>>, Refused> {
        let afresh = next.is_empty();
        for command in commands {
            match command {
                Command::Add(rule) => next.push(Next::New(rule)),
                Command::Insert(number, _) if number > next.len() + 1 => {
                    return Err(Refused::Number(number, next.len()));
                }
                Command::Insert(number, rule) => next.insert(number - 1, Next::New(rule)),
                Command::Delete(number) if number > next.len() => {
                    return Err(Refused::Number(number, next.len()));
                }
                Command::Delete(number) => drop(next.remove(number - 1)),
                // Connections without rules are forgotten.
                Command::Flush => next.clear(),
                Command::Enable(name) => enabled[self.side(&name)?] = true,
                Command::Disable(name) => enabled[self.side(&name)?] = false,
                Command::List | Command::Tables { .. } | Command::Connections { .. } => {}
            }
        }
        if afresh {
            find_old(&mut next, &self.rules);
        }
        let names = self.settings.names();
        let refused = |e| self.settings.refused(e);
        let rules = || {
            next.iter().map(|next| match next {
                Next::Old(at) => &self.rules[*at],
                Next::New(rule) => rule,
            })
        };
        let rule_actions = RuleActions::of(rules(), &names).map_err(refused)?;
        let classifier = Classifier::of(rules(), &names).map_err(refused)?;
        // Nothing can fail from here on.
        let mut renumbered = vec![None; self.rules.len()];
        let mut before = vec![None; next.len()];
        let mut counted = vec![[0; 3]; next.len()];
        let mut old: Vec<Option<Rule>> = std::mem::take(&mut self.rules)
            .into_iter()
            .map(Some)
            .collect();
        let numbered = next.into_iter().enumerate();
        let kept = numbered.filter_map(|(number, rule)| match rule {
            Next::New(rule) => Some(rule),
            Next::Old(at) => {
                renumbered[at] = Some(number as u32);
                before[number] = Some(at as u32);
                counted[number] = self.counted[at];
                old[at].take()
            }
        });
        self.rules = kept.collect();
        self.counted = counted;
        if renumbered.iter().zip(0..).any(|(new, at)| *new != Some(at)) {
            self.connections.renumber(|at| renumbered[at as usize]);
        }
        self.reported.clear();
        self.stateful = rule_actions.any_stateful();
        self.translates = rule_actions.translate();
        self.reads_options = rule_actions.reads_options() || classifier.reads_options();
        self.rule_actions = rule_actions;
        self.classifier = classifier;
        self.enabled = enabled;
        Ok(before)
    }

    /// Where it stands.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rules and what they do, in their order.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (&Rule, &Action)> {
        self.rules.iter().zip(self.rule_actions.actions())
    }

    /// Where its draws come from.
    pub(crate) fn rng(&self) -> &Rng {
        &self.rng
    }

    /// How its rules are found.
    pub(crate) fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// Whether packets of a connection may get other addresses, ports or numbers.
    pub(crate) fn translates(&self) -> bool {
        self.translates
    }

    /// Whether packets of each way are handled.
    pub(crate) fn handles(&self) -> [bool; 2] {
        self.enabled
    }

    fn side(&self, name: &str) -> Result<usize, Refused> {
        let side = self.settings.names().interface(name);
        side.map(usize::from).map_err(|e| self.settings.refused(e))
    }

    /// A packet travels as `port` says: `bytes`, and `zero_tail` zeros after them.
    pub fn process(
        &mut self,
        now: Instant,
        port: Port,
        bytes: &mut Vec<u8>,
        zero_tail: &mut u32,
    ) -> Outcome {
        let mut reading = self.reading.take().unwrap_or_default();
        let mut packet = Packet {
            reading: &mut reading,
            bytes,
            zero_tail,
            mtu: self.settings.mtu,
        };
        let outcome = self.handle(now, port, &mut packet);
        self.reading = Some(reading);
        outcome
    }

    fn handle(&mut self, now: Instant, port: Port, packet: &mut Packet<'_>) -> Outcome {
        self.counters.packets += 1;
        self.matched.clear();
        self.applied.clear();
        self.belongs = None;
        self.connections.sweep(now);
        if !packet.read(now, port, self.reads_options) {
            self.counters.malformed += 1;
            return dropped(DropCause::Malformed);
        }
        if !self.enabled[usize::from(port)] || self.rules.is_empty() {
            return passed(None);
        }
        self.classifier
            .find(packet.reading, packet.bytes, &mut self.matched);
        if packet.reading.is_tiny() {
            self.counters.tiny_fragments += 1;
            return dropped(DropCause::Malformed);
        }
        let (fragment, later) = packet.reading.fragment();
        let mut connection = None;
        let mut key = None;
        if self.stateful {
            if let Some(related) = self.related(now, packet) {
                return self.pass_related(related, packet);
            }
            let followed = match later {
                true => {
                    let of = packet.reading.fragmented();
                    self.connections.followed(now, &of)
                }
                false => None,
            };
            key = match followed {
                Some(followed) => {
                    packet.reading.flow = followed.key;
                    Some(followed.key)
                }
                None => (!later && packet.key()).then_some(packet.reading.flow),
            };
            let reading = &*packet.reading;
            let is_over = |c: &Tracked, direction| reading.is_over(c, direction);
            connection = key.and_then(|key| self.connections.find_live(&key, is_over));
            if later
                && self.translates
                && connection.is_none()
                && followed.is_none_or(|followed| followed.connected)
            {
                self.counters.stray_fragments += 1;
                return dropped(DropCause::Policy);
            }
            self.join(connection, packet.reading);
        }
        self.merge(connection);
        self.count(packet.reading);
        if let Some(cause) = self.verdict() {
            self.counters.dropped += 1;
            return dropped(cause);
        }
        packet.store_headers();
        let known = connection.and_then(|(at, direction)| {
            let connection = self.connections.get(at)?;
            Some((connection, direction))
        });
        if let Some((connection, Direction::Reverse)) = known {
            let (forward, tracked) = (&connection.forward, &connection.tracked);
            packet.translate(forward, tracked, Direction::Reverse);
        }
        let moves = |rule: &u32| self.rule_actions.get(*rule).action.moves_flows;
        let came = match known.is_none() && self.applied.iter().any(moves) {
            true => key.map(|key| key.key()).or_else(|| key_of(packet.bytes)),
            false => None,
        };
        change(
            &self.rule_actions,
            &self.applied,
            packet,
            &mut self.counters,
        );
        let moved = came.and_then(|came| moved(&mut self.reported, came, packet.bytes));
        let outcome = match (known, key) {
            (Some((connection, Direction::Forward)), _) => {
                let (forward, tracked) = (&connection.forward, &connection.tracked);
                packet.translate(forward, tracked, Direction::Forward);
                passed(None)
            }
            (None, Some(key)) if !later => {
                let outcome = self.begin(now, key, packet);
                Outcome {
                    translated: outcome.translated.or(moved),
                    ..outcome
                }
            }
            _ => passed(moved),
        };
        if outcome.dropped.is_none() {
            set_checksums(&self.rule_actions, &self.applied, packet);
        }
        match key {
            Some(key) if fragment && !later && outcome.dropped.is_none() => {
                self.follow(now, packet.reading, key, outcome)
            }
            _ => outcome,
        }
    }

    /// Follows the packet of a first fragment that goes on as `outcome` says: only then do later ones,
    /// of which nobody could tell the connection.
    fn follow(
        &mut self,
        now: Instant,
        packet: &mut Reading,
        key: Flow,
        outcome: Outcome,
    ) -> Outcome {
        let of = packet.fragmented();
        let connected = self.belongs.is_some();
        if self.connections.follow(now, of, key, connected) || !self.translates {
            return outcome;
        }
        self.counters.fragments_full += 1;
        dropped(DropCause::Overflow)
    }

    /// The packet of a known connection also belongs to the stateful rules that it matches.
    fn join(&mut self, connection: Option<(u32, Direction)>, packet: &mut Reading) {
        let Some((at, direction)) = connection else {
            return;
        };
        self.belongs = Some(direction);
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        packet.comes(&mut connection.tracked, direction);
        for rule in &self.matched {
            let stateful = self.rule_actions.get(*rule).stateful;
            if let (true, Err(place)) = (stateful, connection.rules.binary_search(rule)) {
                let (before, after) = connection.rules.split_at(place);
                connection.rules = [before, &[*rule], after].concat().into();
            }
        }
    }

    /// The rules that apply: those that the packet matches and its connection's.
    fn merge(&mut self, connection: Option<(u32, Direction)>) {
        self.applied.extend_from_slice(&self.matched);
        if let Some(connection) = connection.and_then(|(at, _)| self.connections.get(at)) {
            self.applied.extend_from_slice(&connection.rules);
            self.applied.sort_unstable();
            self.applied.dedup();
        }
    }

    /// Why the packet is dropped, if it is. Drops are drawn for in the order of the rules.
    fn verdict(&mut self) -> Option<DropCause> {
        for rule in &self.applied {
            for verdict in &self.rule_actions.get(*rule).action.verdicts {
                let fires = match verdict {
                    Verdict::Accept => return None,
                    Verdict::Drop(rate) if rate.0 == 10_000 => true,
                    Verdict::Drop(rate) => self.rng.below(10_000) < u32::from(rate.0),
                };
                if fires {
                    self.counted[*rule as usize][2] += 1;
                    return Some(DropCause::Policy);
                }
            }
        }
        None
    }

    fn count(&mut self, packet: &Reading) {
        for rule in &self.applied {
            let [packets, bytes, _] = &mut self.counted[*rule as usize];
            *packets += 1;
            *bytes += u64::from(packet.len);
        }
    }
}

impl Settings {
    fn names(&self) -> Names<'_> {
        let number = |address: &IpAddr| match address {
            IpAddr::V4(a) => u128::from(u32::from(*a)),
            IpAddr::V6(a) => u128::from(*a),
        };
        let [a, b] = &self.own;
        let [inside, outside] = &self.interfaces;
        Names {
            own: [number(a), number(b)],
            interfaces: [inside, outside],
        }
    }

    fn refused(&self, UnknownInterface(name): UnknownInterface) -> Refused {
        Refused::Interface(name, self.interfaces.clone())
    }
}

/// Makes the changes of all rules that apply, in their order.
fn change(
    rule_actions: &RuleActions,
    applied: &[u32],
    packet: &mut Packet<'_>,
    counters: &mut BoxCounters,
) {
    let actions = || applied.iter().map(|rule| &rule_actions.get(*rule).action);
    for action in actions() {
        action.set(packet);
    }
    let changes_options = |action: &&Action| !action.options.is_empty();
    if packet.reading.has(Layer::Tcp) && actions().any(|action| changes_options(&action)) {
        let lists = actions().filter(changes_options);
        let done = packet.change_options(lists.map(|action| &action.options[..]));
        counters.options_unchanged += u64::from(!done);
    }
}

/// Writes the checksums that rules set, which no other change alters any more.
fn set_checksums(rule_actions: &RuleActions, applied: &[u32], packet: &mut Packet<'_>) {
    for rule in applied {
        let sums = &rule_actions.get(*rule).action.sums;
        if !sums.is_empty() {
            packet.set(sums);
        }
    }
}

/// Source and destination of packets with this key.
fn ends(key: &FlowKey) -> AddressPair {
    (
        SocketAddr::from((key.source, key.source_port)),
        SocketAddr::from((key.destination, key.destination_port)),
    )
}

/// The key of a packet; of ICMP echo the identifier stands for both ports.
fn key_of(bytes: &[u8]) -> Option<FlowKey> {
    let mut key = FlowKey::of(bytes)?;
    if matches!(key.protocol, ip::ICMP | ip::ICMPV6) {
        let ip = Ip::parse(bytes).ok()?;
        let ident = Icmp::echo_ident(key.protocol, bytes.get(ip.header_len..)?)?;
        (key.source_port, key.destination_port) = (ident, ident);
    }
    Some(key)
}

/// The ends as a packet leaves, which had the key `came`, if rules gave it others and
/// its flow is not among those that were `reported` before.
fn moved(
    reported: &mut BTreeSet<FlowKey>,
    came: FlowKey,
    bytes: &[u8],
) -> Option<(u8, AddressPair)> {
    // A fragment without ports has none to give.
    let left = key_of(bytes).unwrap_or(came);
    if left == came || reported.contains(&came) {
        return None;
    }
    // A second report does no harm; a list without end would.
    if reported.len() >= MOST_REPORTED {
        reported.clear();
    }
    reported.insert(came);
    Some((left.protocol, ends(&left)))
}

fn passed(translated: Option<(u8, AddressPair)>) -> Outcome {
    Outcome {
        dropped: None,
        translated,
    }
}

fn dropped(cause: DropCause) -> Outcome {
    Outcome {
        dropped: Some(cause),
        translated: None,
    }
}
