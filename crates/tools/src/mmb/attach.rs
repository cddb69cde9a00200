//! A box at a device of this machine: attached, asked and detached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, thread};

use narrows_mmb::{Program, Target, Test, Value};
use narrows_results::Error;
use serde::de::DeserializeOwned;

use crate::device_box::{self, BoxError, BoxQuestion, BoxSocket, DeviceBox};

use super::counts::{BoxCounts, RuleCounts};
use super::show::{Answer, ShownConnection, ShownTable, shown_tables};
use super::{Session, commands_of, refused, text_of};

/// How often old connections are looked for, as a box on a path does.
const SWEEP: Duration = Duration::from_secs(5);

/// A box at a device, from [`DeviceRules::attach`]. Dropping it detaches it.
#[derive(Debug)]
pub struct AttachedBox {
    shown: Arc<Shown>,
    socket: Option<BoxSocket>,
}

/// What is attached, as other processes see it.
#[derive(Debug)]
struct Shown {
    device: String,
    whole_bundles: bool,
    attached: Mutex<Option<Attached>>,
}

/// The box at the device, and the same with the rules as they are written.
#[derive(Debug)]
struct Attached {
    at_device: DeviceBox,
    session: Session,
}

fn failed(e: impl fmt::Display) -> Error {
    Error::Engine(e.to_string())
}

fn of_kernel(error: BoxError) -> Error {
    match error.is_of_rights() {
        true => Error::NoPermission(error.to_string()),
        false => failed(error),
    }
}

/// A session's rules as the kernel takes them.
#[derive(Debug)]
pub struct DeviceRules {
    device: String,
    whole_bundles: bool,
    program: Program,
    session: Session,
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
    pub fn for_device(self, device: &str, whole_bundles: bool) -> Result<DeviceRules, Error> {
        Ok(DeviceRules {
            device: device.to_owned(),
            whole_bundles,
            program: self.program(device, whole_bundles)?,
            session: self,
        })
    }

    fn program(&self, device: &str, whole_bundles: bool) -> Result<Program, Error> {
        let program = self
            .middlebox
            .program()
            .map_err(|e| refused(format!("{device}: the box cannot run in the kernel: {e}")))?;
        self.knows_itself()?;
        if program.rules.is_empty() {
            return Err(refused(format!(
                "{device}: a box without rules does nothing; name a ready box, a file or rules"
            )));
        }
        if let Some((rule, what)) = program.of_one_segment.first().filter(|_| !whole_bundles) {
            let line = self.middlebox.rules().nth(*rule);
            return Err(refused(format!(
                "{device}: rule {}, `{}`: `{what}` differs between the segments of a bundle (GSO, \
                 GRO), which the kernel hands over as one packet; --whole-bundles takes them for one",
                rule + 1,
                line.map_or(String::new(), |(line, _)| line.to_string())
            )));
        }
        Ok(program)
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
            whole_bundles,
            program,
            session,
        } = self;
        let (at_device, socket) = DeviceBox::attach(&device, index, &program).map_err(of_kernel)?;
        let shown = Arc::new(Shown {
            device,
            whole_bundles,
            attached: Mutex::new(Some(Attached { at_device, session })),
        });
        let swept = Arc::downgrade(&shown);
        thread::spawn(move || sweep(&swept));
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

/// Why rules were not replaced, for another process: whether they are wrong, and what is.
type Refusal = (bool, String);

impl Shown {
    /// The answer to another process, in JSON.
    fn answer(&self, question: BoxQuestion, rules: &str) -> Result<String, Error> {
        let text = match question {
            BoxQuestion::List | BoxQuestion::Detach => serde_json::to_string(&self.counts()?),
            BoxQuestion::Tables => serde_json::to_string(&self.tables()),
            BoxQuestion::Connections => serde_json::to_string(&self.connections()?),
            BoxQuestion::Reload | BoxQuestion::Change => {
                let changed = self.change(question == BoxQuestion::Reload, rules);
                let counts = changed.and_then(|()| self.counts());
                serde_json::to_string(&counts.map_err(|error| -> Refusal {
                    (matches!(error, Error::Refused(_)), error.to_string())
                }))
            }
        };
        text.map_err(failed)
    }

    /// Applies commands to the rules, or, `afresh`, puts those that they make in the place of all. If
    /// that cannot be done, the box is as it was.
    fn change(&self, afresh: bool, text: &str) -> Result<(), Error> {
        let mut attached = self.attached();
        let Some(Attached { at_device, session }) = attached.as_mut() else {
            return Err(failed(format!("{}: its box is gone", self.device)));
        };
        let mut new = session.clone();
        let kept = new.change_text(afresh, text)?;
        let program = new.program(&self.device, self.whole_bundles)?;
        let reloaded = at_device.reload(&self.device, &program, &kept);
        reloaded.map_err(of_kernel)?;
        *session = new;
        Ok(())
    }

    fn tables(&self) -> Vec<ShownTable> {
        let attached = self.attached();
        let tables = |attached: &Attached| shown_tables(&attached.session.middlebox, false);
        attached.as_ref().map(tables).unwrap_or_default()
    }

    fn connections(&self) -> Result<Vec<ShownConnection>, Error> {
        let attached = self.attached();
        let stateful = |attached: &&Attached| attached.session.middlebox.is_stateful();
        let Some(attached) = attached.as_ref().filter(stateful) else {
            return Ok(Vec::new());
        };
        let all = attached.at_device.connections().map_err(failed)?;
        Ok(all.iter().map(ShownConnection::at_device).collect())
    }

    fn counts(&self) -> Result<BoxCounts, Error> {
        let attached = self.attached();
        let Some(Attached { at_device, session }) = attached.as_ref() else {
            return Err(failed(format!("{}: its box is gone", self.device)));
        };
        let totals = at_device.totals().map_err(failed)?;
        let counted = at_device.rules().map_err(failed)?;
        let written = session.middlebox.rules().map(|(rule, _)| rule);
        let rules = written.zip(counted).zip(1..);
        Ok(BoxCounts {
            device: self.device.clone(),
            stands_at: at_device.stands_at(),
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
            connections: (session.middlebox.is_stateful()).then_some(totals.connections),
            other: totals.other,
            other_dropped: totals.frames_dropped,
            rules: rules
                .map(|((rule, counted), number)| RuleCounts {
                    number,
                    rule: rule.to_string(),
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
        let again = (attached.at_device).attach_again(&self.shown.device, index);
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
            let answer = |question, rules: &str| shown.answer(question, rules).unwrap_or_default();
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
        let Some(attached) = attached.as_ref() else {
            return;
        };
        if attached.session.middlebox.is_stateful() {
            // What is left takes room until the next time.
            let _ = attached.at_device.sweep();
        }
    }
}

impl Shown {
    fn attached(&self) -> MutexGuard<'_, Option<Attached>> {
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

/// Puts the rules of a ready box, of a file, or with `;` between them, in the place of those of the box at
/// `device`, without a gap; what the new ones, of which those that were there go on, have counted. If they are
/// refused, the old ones are as they were.
///
/// # Errors
/// What is wrong in the rules; if there is no box, or its process does not answer.
pub fn reload(device: &str, words: &str) -> Result<BoxCounts, Error> {
    let text = text_of(words)?;
    // What is wrong in a file is said with its name and line.
    Session::new(0, &[]).load_text(words, &text)?;
    ask_change(device, BoxQuestion::Reload, &text)
}

/// Has the box at `device` apply `commands` (`insert` and `del`, say), as [`reload`].
///
/// # Errors
/// As [`reload`].
pub fn change(device: &str, commands: &str) -> Result<BoxCounts, Error> {
    commands_of(commands, commands)?;
    ask_change(device, BoxQuestion::Change, commands)
}

fn ask_change(device: &str, question: BoxQuestion, text: &str) -> Result<BoxCounts, Error> {
    let answer = device_box::ask(device, question, text).map_err(failed)?;
    let answer: Result<BoxCounts, Refusal> = serde_json::from_str(&answer).map_err(failed)?;
    answer.map_err(|(wrong, what)| match wrong {
        true => refused(what),
        false => Error::Engine(what),
    })
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
    let answer = device_box::ask(device, question, "").map_err(failed)?;
    serde_json::from_str(&answer).map_err(failed)
}
