//! A box at a device of this machine: attached, asked and detached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, thread};

use narrows_live::{BoxQuestion, BoxSocket, DeviceBox, LiveError};
use narrows_mmb::{Program, Target, Test, Value};
use narrows_results::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::show::{Answer, ShownConnection, ShownTable, shown_tables};
use super::{Session, refused};

/// How often old connections are looked for, as a box on a path does.
const SWEEP: Duration = Duration::from_secs(5);

/// What a box at a device has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxCounts {
    /// The device.
    pub device: String,
    /// The name of the device where the kernel has the box now: another one where it was renamed, none
    /// where it is gone.
    pub stands_at: Option<String>,
    /// Packets of IP that came by either side; of a bundle (GSO, GRO), its segments.
    pub packets: u64,
    /// Of these, dropped by a rule.
    pub dropped: u64,
    /// Dropped for want of a readable IP header.
    pub malformed: u64,
    /// Whose TCP options were not all changed: they could not be read, there was no room for longer
    /// ones, or the packet was a fragment.
    pub options_unchanged: u64,
    /// Dropped because they match more rules than the program has room for.
    pub overmatched: u64,
    /// Dropped because the kernel did not let them be changed.
    pub unwritten: u64,
    /// Bundles of several segments.
    pub bundles: u64,
    /// Dropped because no port was free for their connection, or because its packets would have
    /// looked like another one's.
    pub ports_used_up: u64,
    /// Dropped because there was no room for their connection.
    pub table_full: u64,
    /// ICMP errors about a connection.
    pub related: u64,
    /// Dropped because a rule translates and nobody knows to which connection they belong: later
    /// fragments before whose packet's first one none went on, or whose connection was forgotten.
    pub stray_fragments: u64,
    /// First fragments dropped because a rule translates and there was no room to follow their packet.
    pub fragments_full: u64,
    /// Dropped fragments that hide what is above IP (RFC 1858 §3).
    pub tiny_fragments: u64,
    /// Connections without an answer that made room for others when the table was full.
    pub evicted: u64,
    /// Connections that are tracked; `None` without rules that have state.
    pub connections: Option<u64>,
    /// What is not IP, and passes.
    pub other: u64,
    /// The rules.
    pub rules: Vec<RuleCounts>,
}

/// What a rule at a device has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// From 1.
    pub number: usize,
    /// As it is written.
    pub rule: String,
    /// Packets to which it applied.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
}

impl fmt::Display for BoxCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} packets, {} dropped",
            self.device, self.packets, self.dropped
        )?;
        match &self.stands_at {
            None => writeln!(f, "  {} is gone: nothing is filtered", self.device)?,
            Some(name) if *name != self.device => writeln!(f, "  now called {name}")?,
            Some(_) => {}
        }
        if let Some(connections) = self.connections {
            writeln!(f, "  {connections} connections")?;
        }
        for (count, what) in [
            (self.malformed, "without a readable IP header, dropped"),
            (self.overmatched, "that match more than 64 rules, dropped"),
            (
                self.unwritten,
                "that the kernel did not let be changed, dropped",
            ),
            (
                self.options_unchanged,
                "whose TCP options could not be changed",
            ),
            (self.ports_used_up, "without a free port, dropped"),
            (
                self.table_full,
                "without room for their connection, dropped",
            ),
            (
                self.stray_fragments,
                "fragments of no known connection, dropped",
            ),
            (
                self.fragments_full,
                "first fragments that could not be followed, dropped",
            ),
            (
                self.tiny_fragments,
                "fragments that hide what is above IP, dropped",
            ),
            (
                self.evicted,
                "connections without an answer that made room for others",
            ),
            (self.related, "ICMP errors about a connection"),
            (self.bundles, "bundles of several segments"),
            (self.other, "not IP"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        self.rules.iter().try_for_each(|rule| {
            let RuleCounts {
                number,
                rule,
                packets,
                bytes,
            } = rule;
            writeln!(f, "{number:>4} {rule}  [{packets} packets, {bytes} bytes]")
        })
    }
}

/// A box at a device, from [`DeviceRules::attach`]. Dropping it detaches it.
#[derive(Debug)]
pub struct AttachedBox {
    shown: Arc<Shown>,
    socket: Option<BoxSocket>,
}

#[derive(Debug)]
struct Shown {
    device: String,
    rules: Vec<String>,
    tables: Vec<ShownTable>,
    stateful: bool,
    attached: Mutex<Option<DeviceBox>>,
}

fn failed(e: impl fmt::Display) -> Error {
    Error::Engine(e.to_string())
}

fn of_kernel(error: LiveError) -> Error {
    match error.is_of_rights() {
        true => Error::NoPermission(error.to_string()),
        false => failed(error),
    }
}

/// A session's rules as the kernel takes them.
#[derive(Debug)]
pub struct DeviceRules {
    device: String,
    program: Program,
    rules: Vec<String>,
    tables: Vec<ShownTable>,
}

impl Session {
    /// The session's rules for `device`. What leaves by it comes from `inside`; its other name is
    /// `outside`.
    ///
    /// `whole_bundles` takes a bundle of segments for one packet also where a rule names what
    /// differs between them; otherwise such a rule is refused.
    ///
    /// # Errors
    /// When a rule has what the kernel's program cannot do.
    pub fn for_device(&self, device: &str, whole_bundles: bool) -> Result<DeviceRules, Error> {
        let program = self
            .middlebox
            .program()
            .map_err(|e| refused(format!("{device}: the box cannot run in the kernel: {e}")))?;
        let rules: Vec<String> = self.middlebox.rules().map(|(r, _)| r.to_string()).collect();
        self.knows_itself()?;
        if rules.is_empty() {
            return Err(refused(format!(
                "{device}: a box without rules does nothing; name a ready box, a file or rules"
            )));
        }
        if let Some((rule, what)) = program.of_one_segment.first().filter(|_| !whole_bundles) {
            return Err(refused(format!(
                "{device}: rule {}, `{}`: `{what}` differs between the segments of a bundle (GSO, \
                 GRO), which the kernel hands over as one packet; --whole-bundles takes them for one",
                rule + 1,
                rules[*rule]
            )));
        }
        Ok(DeviceRules {
            device: device.to_owned(),
            program,
            rules,
            tables: shown_tables(&self.middlebox, false),
        })
    }
}

impl DeviceRules {
    /// Attaches them to both sides of their device, which has the number `index` in this process's
    /// network namespace.
    ///
    /// # Errors
    /// When the device has a box already or is not there, or the machine cannot load them.
    pub fn attach(self, index: u32) -> Result<AttachedBox, Error> {
        let Self {
            device,
            program,
            rules,
            tables,
        } = self;
        let (attached, socket) = DeviceBox::attach(&device, index, &program).map_err(of_kernel)?;
        let shown = Arc::new(Shown {
            device,
            rules,
            tables,
            stateful: program.stateful,
            attached: Mutex::new(Some(attached)),
        });
        if program.stateful {
            let swept = Arc::downgrade(&shown);
            thread::spawn(move || sweep(&swept));
        }
        Ok(AttachedBox {
            shown,
            socket: Some(socket),
        })
    }
}

impl Session {
    /// Refuses rules with `self` where the session was given no such address.
    fn knows_itself(&self) -> Result<(), Error> {
        let is = |v6: bool, name: &str, value: &Value| {
            *value == Value::Own && name.starts_with("ip6-") == v6
        };
        for (v6, version) in [(false, "IPv4"), (true, "IPv6")] {
            let own = &self.middlebox.settings().own[usize::from(v6)];
            if !own.is_unspecified() {
                continue;
            }
            for (rule, _) in self.middlebox.rules() {
                let asked = rule.constraints().any(|c| match &c.test {
                    Test::Is(_, value) => is(v6, c.named.field.name(), value),
                    Test::Alone => false,
                });
                let set = rule.targets().iter().any(|target| match target {
                    Target::Set(named, Some(value)) => is(v6, named.field.name(), value),
                    Target::Map(field, value) => is(v6, field.name(), value),
                    _ => false,
                });
                if asked || set {
                    return Err(refused(format!(
                        "`{rule}`: `self` needs an {version} address of the box: --address ADDRESS"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Shown {
    /// The answer to another process, in JSON.
    fn answer(&self, question: BoxQuestion) -> Result<String, Error> {
        let text = match question {
            BoxQuestion::List | BoxQuestion::Detach => serde_json::to_string(&self.counts()?),
            BoxQuestion::Tables => serde_json::to_string(&self.tables),
            BoxQuestion::Connections => serde_json::to_string(&self.connections()?),
        };
        text.map_err(failed)
    }

    fn connections(&self) -> Result<Vec<ShownConnection>, Error> {
        let attached = self.attached();
        let Some(attached) = attached.as_ref().filter(|_| self.stateful) else {
            return Ok(Vec::new());
        };
        let all = attached.connections().map_err(failed)?;
        Ok(all.iter().map(ShownConnection::at_device).collect())
    }

    fn counts(&self) -> Result<BoxCounts, Error> {
        let attached = self.attached();
        let Some(attached) = attached.as_ref() else {
            return Err(failed(format!("{}: its box is gone", self.device)));
        };
        let totals = attached.totals().map_err(failed)?;
        let counted = attached.rules().map_err(failed)?;
        let rules = self.rules.iter().zip(counted).zip(1..);
        Ok(BoxCounts {
            device: self.device.clone(),
            stands_at: attached.stands_at(),
            packets: totals.packets,
            dropped: totals.dropped,
            malformed: totals.malformed,
            options_unchanged: totals.options_unchanged,
            overmatched: totals.overmatched,
            unwritten: totals.unwritten,
            bundles: totals.bundles,
            ports_used_up: totals.ports_used_up,
            table_full: totals.table_full,
            related: totals.related,
            stray_fragments: totals.stray_fragments,
            fragments_full: totals.fragments_full,
            tiny_fragments: totals.tiny_fragments,
            evicted: totals.evicted,
            connections: self.stateful.then_some(totals.connections),
            other: totals.other,
            rules: rules
                .map(|((rule, counted), number)| RuleCounts {
                    number,
                    rule: rule.clone(),
                    packets: counted.packets,
                    bytes: counted.bytes,
                })
                .collect(),
        })
    }
}

impl AttachedBox {
    /// What it has counted.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn counts(&self) -> Result<BoxCounts, Error> {
        self.shown.counts()
    }

    /// Attaches it to the device of that number, which has come in place of the one that is gone.
    ///
    /// # Errors
    /// When it is of another type or gone again, or the kernel refuses.
    pub fn attach_again(&self, index: u32) -> Result<(), Error> {
        let mut attached = self.shown.attached();
        let Some(attached) = attached.as_mut() else {
            return Ok(());
        };
        let again = attached.attach_again(&self.shown.device, index);
        again.map_err(failed)
    }

    /// Answers other processes from now on, by a thread of its own; one that asks for it has the
    /// box detached, after which `asked` is called.
    pub fn answer(&mut self, asked: impl FnOnce() + Send + 'static) {
        let Some(socket) = self.socket.take() else {
            return;
        };
        let shown = Arc::clone(&self.shown);
        thread::spawn(move || {
            let answer = |question| shown.answer(question).unwrap_or_default();
            loop {
                match socket.answer(answer) {
                    // The asker waits for the end of the stream, which is after that of the box.
                    Ok(Some((BoxQuestion::Detach, stream))) => {
                        shown.detach();
                        drop(stream);
                        asked();
                        return;
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
    }
}

/// Has a box forget its old connections from time to time, until it is gone.
fn sweep(shown: &Weak<Shown>) {
    loop {
        thread::sleep(SWEEP);
        let Some(shown) = shown.upgrade() else { return };
        let attached = shown.attached();
        // What is left takes room until the next time.
        let swept = attached.as_ref().map(DeviceBox::sweep);
        if swept.is_none() {
            return;
        }
    }
}

impl Shown {
    fn attached(&self) -> MutexGuard<'_, Option<DeviceBox>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn detach(&self) {
        *self.attached() = None;
    }
}

impl Drop for AttachedBox {
    fn drop(&mut self) {
        self.shown.detach();
    }
}

/// What the box at `device` has counted.
///
/// # Errors
/// If there is none, or its process does not answer.
pub fn list(device: &str) -> Result<BoxCounts, Error> {
    ask(device, BoxQuestion::List)
}

/// Detaches the box at `device`; what it had counted.
///
/// # Errors
/// If there is none, or its process does not answer.
pub fn detach(device: &str) -> Result<BoxCounts, Error> {
    ask(device, BoxQuestion::Detach)
}

/// The tables by which the box at `device` finds its rules.
///
/// # Errors
/// If there is none, or its process does not answer.
pub fn tables(device: &str) -> Result<Answer, Error> {
    ask(device, BoxQuestion::Tables).map(Answer::Tables)
}

/// The connections that the box at `device` tracks; `verbose` adds the TCP flags that were seen
/// and the rules.
///
/// # Errors
/// If there is none, or its process does not answer.
pub fn connections(device: &str, verbose: bool) -> Result<Answer, Error> {
    let all: Vec<ShownConnection> = ask(device, BoxQuestion::Connections)?;
    Ok(Answer::Connections(match verbose {
        true => all,
        false => all.into_iter().map(ShownConnection::shortened).collect(),
    }))
}

fn ask<T: DeserializeOwned>(device: &str, question: BoxQuestion) -> Result<T, Error> {
    let answer = narrows_live::ask_box(device, question).map_err(failed)?;
    serde_json::from_str(&answer).map_err(failed)
}
