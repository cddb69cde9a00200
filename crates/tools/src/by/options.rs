//! What a transfer is to be, and which control it has.

use std::ffi::OsString;
use std::time::SystemTime;

use narrows_cc::ControlSpec;
use narrows_scenario::Refusal;

#[cfg(target_os = "linux")]
use super::{BackgroundTransfer, ByError, size};
#[cfg(target_os = "linux")]
use narrows_linux::foreground::Hindrance;

/// The most bytes of a transfer: as many as the control's option takes.
pub const MOST_BYTES: u64 = 1 << 50;

/// Whose connections they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferOf {
    /// A command that is started, and its arguments.
    Command(Vec<OsString>),
    /// A process that runs, by its number, and those that it starts from now on.
    Process(u32),
}

/// What is to be done by when.
#[derive(Clone, Debug)]
pub struct ByOptions {
    /// When all is to be delivered.
    pub deadline: SystemTime,
    /// Bytes that are to be sent, of all connections; `None` if nobody knows: they yield
    /// until the deadline, and are best effort from then on.
    pub size: Option<u64>,
    /// The control: `dalbe`, see [`control`].
    pub control: ControlSpec,
    /// Whose connections they are.
    pub whose: TransferOf,
}

impl ByOptions {
    /// By `deadline`, without a size, by the control's defaults.
    pub fn new(deadline: SystemTime, whose: TransferOf) -> Self {
        Self {
            deadline,
            size: None,
            control: plain(),
            whose,
        }
    }
}

/// Over CUBIC by its model, which of the controls below is on time and yields in most scenarios
/// (`bench/deadlines`).
const DEFAULTS: [(&str, &str); 2] = [("over", "cubic"), ("policy", "mbc")];

fn plain() -> ControlSpec {
    control([]).expect("it is listed")
}

/// `dalbe` with these options, names and values in turn: `over`, `policy`, `mode`, `map`,
/// `interval`, `kp`, `ki`, `kd`, `rise`, `alpha`, `ledbat_target`.
///
/// # Errors
/// On an unknown option, a value that it does not take, or one that the transfer sets
/// itself.
pub fn control<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<ControlSpec, Refusal> {
    let words: Vec<&str> = words.into_iter().collect();
    let mut line = String::from("dalbe");
    for (name, value) in DEFAULTS {
        if !words.iter().step_by(2).any(|word| *word == name) {
            line.push_str(&format!(" {name} {value}"));
        }
    }
    for (place, word) in words.into_iter().enumerate() {
        if place % 2 == 0 && ["deadline", "size", "first_weight"].contains(&word) {
            let allowed = "the control's other options: the time, --size and the transfer set this";
            return Err(Refusal::new("control", format!("`{word}`"), allowed));
        }
        line.push(' ');
        line.push_str(word);
    }
    ControlSpec::parse(&line).map_err(|e| Refusal::new("control", e.found, e.allowed))
}

/// Why there is no transfer.
#[cfg(target_os = "linux")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(Refusal),
    /// The machine, the kernel or this user cannot have it.
    #[error(transparent)]
    Failed(#[from] ByError),
}

#[cfg(target_os = "linux")]
impl ByOptions {
    /// Refuses what no transfer can be.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.deadline <= SystemTime::now() {
            let found = "one that has passed".to_owned();
            return Err(Refusal::new("TIME", found, "a time to come"));
        }
        let outside = self.size.filter(|size| !(1..=MOST_BYTES).contains(size));
        if let Some(size) = outside {
            return Err(Refusal::new("size", format!("{size} bytes"), size::ALLOWED));
        }
        if self.control.name() != "dalbe" {
            let found = format!("`{}`", self.control);
            return Err(Refusal::new("control", found, "`dalbe` and its options"));
        }
        Ok(())
    }
}

/// Loads the control, and makes a control group in which it is used. To be called while
/// the process has one thread: signals are held back until the result is dropped.
///
/// # Errors
/// When the deadline has passed, the size is out of range, the control is not `dalbe`, there
/// is no such command or process, or the machine cannot have it.
#[cfg(target_os = "linux")]
pub fn open(options: &ByOptions) -> Result<BackgroundTransfer, OpenError> {
    options.check().map_err(OpenError::Refused)?;
    Ok(BackgroundTransfer::open(options)?)
}

/// What kept the command of a transfer from running.
#[cfg(target_os = "linux")]
pub fn hindrance(error: &ByError) -> Hindrance {
    match error {
        error if error.is_of_rights() => Hindrance::NoPermission,
        ByError::Command(error) => Hindrance::of_command(error),
        _ => Hindrance::NotMade,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_cubic_by_its_model_unless_another_is_named() {
        let said = |words: &[&str]| control(words.iter().copied()).unwrap().to_string();
        assert_eq!(said(&[]), "dalbe over cubic policy mbc");
        assert_eq!(said(&["kp", "600"]), "dalbe over cubic policy mbc kp 600");
        let vegas = ControlSpec::parse(&said(&["over", "vegas", "policy", "pid"])).unwrap();
        assert_eq!(vegas, ControlSpec::parse("dalbe").unwrap());
    }

    #[test]
    fn options_are_those_of_the_control_but_for_what_the_transfer_sets() {
        let spec = control(["over", "cubic", "policy", "mbc", "kp", "600"]).unwrap();
        assert_eq!(spec.to_string(), "dalbe over cubic policy mbc kp 600");
        for (words, part) in [
            (["policy", "pd"], "pid, mbc"),
            (["kp", "100001"], "from 0 to 100000"),
            (["over", "prague"], "cubic"),
            (["size", "1000b"], "--size"),
            (["speed", "1"], "policy"),
        ] {
            let said = control(words).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_is_refused_before_anything_is_done() {
        let command = TransferOf::Command(vec!["true".into()]);
        let soon = SystemTime::now() + std::time::Duration::from_secs(60);
        let late = ByOptions::new(SystemTime::UNIX_EPOCH, command.clone());
        let mut empty = ByOptions::new(soon, command.clone());
        empty.size = Some(0);
        let mut other = ByOptions::new(soon, command);
        other.control = ControlSpec::parse("cubic").unwrap();
        for (options, part) in [(late, "passed"), (empty, "0 bytes"), (other, "`cubic`")] {
            match open(&options) {
                Err(OpenError::Refused(refusal)) => {
                    assert!(refusal.to_string().contains(part), "{refusal}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
