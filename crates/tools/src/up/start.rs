//! Starting what holds a topology in the background.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use narrows_linux::foreground::Signals;

/// How often it is looked whether a signal asks to go.
const LOOK: Duration = Duration::from_millis(20);

/// Starts `command`, and waits until it has printed all that it prints before it goes into the
/// background; what it printed, and the process. It gets none of the files that this process has
/// open but standard error. Signals that ask this process to go are passed on to it meanwhile.
///
/// # Errors
/// When it cannot be started or read.
pub fn start(command: &mut Command) -> io::Result<(String, Child)> {
    narrows_linux::close_on_exec()?;
    let signals = Signals::hold()?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    let mut output = child.stdout.take();
    let reading = std::thread::spawn(move || {
        let mut said = String::new();
        let output = output.as_mut().map(|out| out.read_to_string(&mut said));
        output.transpose().map(|_| said)
    });
    while !reading.is_finished() {
        if signals.asked()? {
            // One that has just ended needs none.
            let _ = kill(pid, Signal::SIGTERM);
        }
        std::thread::sleep(LOOK);
    }
    let said = reading.join();
    let said = said.map_err(|_| io::Error::other("what reads its output failed"))?;
    Ok((said?, child))
}
