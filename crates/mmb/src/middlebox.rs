//! The box: rules, connections, and what becomes of each packet.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use narrows_core::{DropCause, Port};
use narrows_units::{Instant, Rng};
use narrows_wire::FlowKey;

use crate::action::{Action, Verdict, change_options};
use crate::classifier::Classifier;
use crate::command::Command;
use crate::connections::{
    Connection, Connections, Direction, MOST, destination, key_of, numbers, source,
};
use crate::constraint::{Names, UnknownInterface};
use crate::deeds::Deeds;
use crate::edit::Edit;
use crate::fragments::{Fragmented, fragmented, is_tiny};
use crate::layout::{Above, Layout};
use crate::rule::Rule;
use crate::translate;

mod frames;
mod next;
mod related;
mod view;

use next::{Next, find_old};
pub use view::{BoxCounters, ConnectionView, RuleCounters, TableView};

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

/// Why commands were not carried out. None of them was.
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
    pub translated: Option<(u8, Ends)>,
}

/// Source and destination.
type Ends = (SocketAddr, SocketAddr);

/// A box.
#[derive(Clone, Debug)]
pub struct Middlebox {
    settings: Settings,
    rules: Vec<Rule>,
    deeds: Deeds,
    /// By rule: packets and bytes. Memory that stays zero takes none.
    counted: Vec<[u64; 2]>,
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
}

impl Middlebox {
    /// A box without rules, whose draws come from `rng`.
    pub fn new(settings: Settings, rng: Rng) -> Self {
        Self {
            connections: Connections::new(settings.most_connections),
            settings,
            rules: Vec::new(),
            deeds: Deeds::default(),
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
        }
    }

    /// Carries out `commands` in their order, all or none; those that only show something
    /// change nothing. The counters and connections of rules that stay are kept.
    ///
    /// # Errors
    /// When one cannot be carried out.
    pub fn carry_out(&mut self, commands: &[Command]) -> Result<(), Refused> {
        self.carry_out_all(commands.to_vec())
    }

    /// The same of commands that are not needed any more: of a million rules no copy is made.
    ///
    /// # Errors
    /// As [`carry_out`](Self::carry_out).
    pub fn carry_out_all(&mut self, commands: Vec<Command>) -> Result<(), Refused> {
        self.change(commands).map(drop)
    }

    /// The same; which number each rule had before, from 0, if it was there.
    ///
    /// # Errors
    /// As [`carry_out`](Self::carry_out).
    pub fn change(&mut self, commands: Vec<Command>) -> Result<Vec<Option<u32>>, Refused> {
        let before = (0..self.rules.len()).map(Next::Old).collect();
        self.change_from(before, self.enabled, commands)
    }

    /// Carries out `commands` as if there were no rules before. A rule that says the same as one that was
    /// there is that one, with its counters and connections, whatever its number was. Which number each
    /// rule had before, from 0, if it was there.
    ///
    /// # Errors
    /// As [`carry_out`](Self::carry_out).
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
        let deeds = Deeds::of(rules(), &names).map_err(refused)?;
        let classifier = Classifier::of(rules(), &names).map_err(refused)?;
        // Nothing can fail from here on.
        let mut renumbered = vec![None; self.rules.len()];
        let mut before = vec![None; next.len()];
        let mut counted = vec![[0; 2]; next.len()];
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
        self.stateful = deeds.any_stateful();
        self.translates = deeds.translate();
        self.deeds = deeds;
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
        self.rules.iter().zip(self.deeds.actions())
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
        self.counters.packets += 1;
        self.matched.clear();
        self.applied.clear();
        self.belongs = None;
        self.connections.sweep(now);
        let layout = match Layout::of(bytes, *zero_tail) {
            Ok(layout) => layout,
            Err(_) => {
                self.counters.malformed += 1;
                return dropped(DropCause::Malformed);
            }
        };
        if !self.enabled[usize::from(port)] || self.rules.is_empty() {
            return passed(None);
        }
        let window = layout.window(bytes, port);
        self.classifier
            .find(&window, bytes, &layout, &mut self.matched);
        let mut connection = None;
        let mut key = None;
        if is_tiny(&layout) {
            self.counters.tiny_fragments += 1;
            return dropped(DropCause::Malformed);
        }
        let fragmented = fragmented(bytes, &layout).filter(|_| self.stateful);
        if self.stateful {
            if let Some(related) = self.related(now, bytes, &layout) {
                return self.pass_related(related, bytes, &layout, zero_tail);
            }
            let followed = fragmented.filter(|_| layout.ip.fragment_offset > 0);
            let followed = followed.and_then(|of| self.connections.followed(now, &of));
            key = match layout.ip.fragment_offset {
                0 => Connections::key(bytes, &layout),
                _ => followed.map(|followed| followed.key),
            };
            let tcp = (layout.above == Above::Tcp)
                .then(|| numbers(&bytes[layout.ip.header_len..]))
                .flatten();
            let flags = tcp.map_or(0, |(flags, ..)| flags);
            connection = key.and_then(|key| self.connections.find_live(now, &key, flags));
            if layout.ip.fragment_offset > 0
                && self.translates
                && connection.is_none()
                && followed.is_none_or(|followed| followed.connected)
            {
                self.counters.stray_fragments += 1;
                return dropped(DropCause::Policy);
            }
            self.join(now, connection, tcp);
        }
        self.merge(connection);
        if let Some(cause) = self.verdict() {
            self.count(&layout);
            self.counters.dropped += 1;
            return dropped(cause);
        }
        self.count(&layout);
        let mut edit = Edit {
            bytes,
            zero_tail,
            layout,
            mtu: self.settings.mtu as usize,
        };
        let known = connection.and_then(|(at, direction)| {
            let connection = self.connections.get(at)?;
            Some((connection, direction))
        });
        if let Some((connection, Direction::Reverse)) = known {
            connection.translate(&mut edit, &connection.reverse, Direction::Reverse);
        }
        let moves = |rule: &u32| self.deeds.get(*rule).action.moves_flows();
        let came = match known.is_none() && self.applied.iter().any(moves) {
            true => key.or_else(|| key_of(edit.bytes)),
            false => None,
        };
        change(&self.deeds, &self.applied, &mut edit, &mut self.counters);
        let moved = came.and_then(|came| moved(&mut self.reported, came, &edit));
        let outcome = match (known, key) {
            (Some((connection, Direction::Forward)), _) => {
                let key = leaving(&edit, &connection.forward);
                connection.translate(&mut edit, &key, Direction::Forward);
                passed(None)
            }
            (None, Some(key)) if layout.ip.fragment_offset == 0 => {
                let outcome = self.begin(now, key, &mut edit);
                Outcome {
                    translated: outcome.translated.or(moved),
                    ..outcome
                }
            }
            _ => passed(moved),
        };
        if outcome.dropped.is_none() {
            set_checksums(&self.deeds, &self.applied, &mut edit);
        }
        let first = fragmented.filter(|_| layout.ip.fragment_offset == 0);
        match (first, key) {
            (Some(of), Some(key)) if outcome.dropped.is_none() => {
                self.follow(now, of, key, outcome)
            }
            _ => outcome,
        }
    }

    /// Follows the packet `of`, whose first fragment goes on as `outcome` says: only then do later ones,
    /// of which nobody could tell the connection.
    fn follow(&mut self, now: Instant, of: Fragmented, key: FlowKey, outcome: Outcome) -> Outcome {
        let connected = self.belongs.is_some();
        if self.connections.follow(now, of, key, connected) || !self.translates {
            return outcome;
        }
        self.counters.fragments_full += 1;
        dropped(DropCause::Overflow)
    }

    /// The packet of a known connection also belongs to the stateful rules that it matches.
    fn join(
        &mut self,
        now: Instant,
        connection: Option<(u32, Direction)>,
        tcp: Option<(u8, u32, u32)>,
    ) {
        let Some((at, direction)) = connection else {
            return;
        };
        self.belongs = Some(direction);
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        connection.see(now, direction, tcp);
        for rule in &self.matched {
            let stateful = self.deeds.get(*rule).stateful;
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
            for verdict in &self.deeds.get(*rule).action.verdicts {
                match verdict {
                    Verdict::Accept => return None,
                    Verdict::Drop(rate) if rate.0 == 10_000 => return Some(DropCause::Policy),
                    Verdict::Drop(rate) => {
                        if self.rng.below(10_000) < u32::from(rate.0) {
                            return Some(DropCause::Policy);
                        }
                    }
                }
            }
        }
        None
    }

    fn count(&mut self, layout: &Layout) {
        for rule in &self.applied {
            let [packets, bytes] = &mut self.counted[*rule as usize];
            *packets += 1;
            *bytes += layout.len as u64;
        }
    }

    /// The packet, which has `key` as it came, begins a connection if a stateful rule applies
    /// to it.
    fn begin(&mut self, now: Instant, key: FlowKey, edit: &mut Edit<'_>) -> Outcome {
        let deeds = &self.deeds;
        let applied = self.applied.iter().copied();
        let stateful: Vec<u32> = applied.filter(|rule| deeds.get(*rule).stateful).collect();
        if stateful.is_empty() {
            return passed(None);
        }
        let left = leaving(edit, &key);
        let mappings = stateful
            .iter()
            .flat_map(|rule| &deeds.get(*rule).action.mappings);
        let ident = edit.layout.ip.ident;
        let (connections, rng) = (&mut self.connections, &mut self.rng);
        let plan = translate::plan(left, ident, now, mappings, connections, rng);
        let Some(plan) = plan else {
            self.counters.ports_used_up += 1;
            return dropped(DropCause::Overflow);
        };
        let flags = match edit.layout.above {
            Above::Tcp => edit.bytes[edit.layout.ip.header_len + 13],
            _ => 0,
        };
        let connection = Connection {
            forward: key,
            reverse: plan.left.reversed(),
            mapped: plan.mapped,
            shifts: plan.shifts,
            rules: self.connections.list_of(&stateful),
            last_active: now,
            flags: [flags, 0],
            replied: false,
            acked: [None; 2],
        };
        let Some(at) = self.connections.insert(connection) else {
            self.counters.table_full += 1;
            return dropped(DropCause::Overflow);
        };
        self.belongs = Some(Direction::Forward);
        if let Some(connection) = self.connections.get(at) {
            connection.translate(edit, &left, Direction::Forward);
        }
        passed(plan.mapped.any().then(|| (key.protocol, ends(&plan.left))))
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
fn change(deeds: &Deeds, applied: &[u32], edit: &mut Edit<'_>, counters: &mut BoxCounters) {
    let actions = || applied.iter().map(|rule| &deeds.get(*rule).action);
    for action in actions() {
        action.set(edit);
    }
    if edit.layout.above == Above::Tcp && actions().any(Action::changes_options) {
        let done = change_options(edit, actions());
        counters.options_unchanged += u64::from(!done);
    }
}

/// Writes the checksums that rules set, which no other change alters any more.
fn set_checksums(deeds: &Deeds, applied: &[u32], edit: &mut Edit<'_>) {
    for rule in applied {
        deeds.get(*rule).action.set_checksums(edit);
    }
}

/// Source and destination of packets with this key.
fn ends(key: &FlowKey) -> Ends {
    (source(key), destination(key))
}

/// The ends as the packet leaves, which had the key `came`, if rules gave it others and
/// its flow is not among those that were `reported` before.
fn moved(reported: &mut BTreeSet<FlowKey>, came: FlowKey, edit: &Edit<'_>) -> Option<(u8, Ends)> {
    let left = leaving(edit, &came);
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

/// The key of a packet as it leaves; that of `came` where it is a fragment without ports.
fn leaving(edit: &Edit<'_>, came: &FlowKey) -> FlowKey {
    key_of(edit.bytes).unwrap_or(*came)
}

fn passed(translated: Option<(u8, Ends)>) -> Outcome {
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
