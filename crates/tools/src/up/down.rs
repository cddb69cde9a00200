//! Taking a topology down.

use std::time::{Duration, Instant};

use narrows_linux::machine::sweep_folder;
use narrows_results::Error;
use nix::sys::signal::Signal;

use super::folder::{self, Condition, Found};
use super::refused;

/// How long the process that holds a topology may take to end: building the largest ones takes
/// seconds, and it does not look up from that.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long one that has just begun may take to say who it is.
const TO_SAY_WHO: Duration = Duration::from_secs(5);

/// How a topology was taken down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// Its name.
    pub name: String,
    /// What had to be removed of one that was killed, a line each.
    pub removed: Vec<String>,
}

/// Takes the topology `name` down, or the only one, and waits until nothing of it is left.
///
/// # Errors
/// When there is none of that name, or something of it is left.
pub fn down(name: Option<&str>) -> Result<Down, Error> {
    let mut found = folder::one(name).map_err(refused)?;
    let name = found.name.clone();
    let failed = |why: String| Error::Engine(format!("{name} was not taken down: {why}"));
    let asked = Instant::now();
    while found.condition != Condition::Killed {
        let process = found.process().map_err(|e| failed(e.to_string()))?;
        if let Some(process) = process {
            let send = |signal| process.signal(signal).map_err(|e| failed(e.to_string()));
            send(Signal::SIGTERM)?;
            // One that has been stopped would not see it.
            send(Signal::SIGCONT)?;
            if !process.wait(PATIENCE) {
                send(Signal::SIGKILL)?;
                if !process.wait(PATIENCE) {
                    return Err(failed("the process that holds it does not end".to_owned()));
                }
            }
        } else if asked.elapsed() > TO_SAY_WHO {
            return Err(failed(
                "the process that holds it does not say who it is".to_owned(),
            ));
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        let Some(now) = again(&found) else {
            return Ok(Down {
                name,
                removed: Vec::new(),
            });
        };
        found = now;
    }
    let swept = sweep_folder(&found.folder);
    if let Some(trouble) = swept.failed.first() {
        return Err(failed(trouble.clone()));
    }
    match again(&found) {
        Some(left) => Err(failed(format!("{} is left", left.folder.path.display()))),
        None => Ok(Down {
            name,
            removed: swept.removed,
        }),
    }
}

/// How it is now with that topology, and not with another one that came up under its name since.
fn again(found: &Found) -> Option<Found> {
    let all = folder::all().into_iter();
    all.filter(|now| now.name == found.name)
        .find(|now| now.folder.run == found.folder.run)
}

/// Takes down the topologies whose folders somebody has removed: nobody can enter them. Their
/// names, and why one was not taken down.
pub fn down_lost() -> (Vec<String>, Vec<Error>) {
    let lost = folder::all().into_iter();
    let lost = lost.filter(|found| found.condition == Condition::Lost);
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for found in lost {
        match down(Some(&found.name)) {
            Ok(down) => done.push(down.name),
            // Another command may have taken it down meanwhile.
            Err(error) if again(&found).is_some() => failed.push(error),
            Err(_) => {}
        }
    }
    (done, failed)
}
