//! How the command line was called: as a program, or through Python, whose process has other
//! arguments before ours.

use std::ffi::OsString;
use std::io;
use std::sync::OnceLock;

/// The words of a call, and how there is another one.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the command, and its arguments.
    pub words: Vec<OsString>,
    /// The program, and the words before the arguments, by which it is called again; `None` for
    /// a program of its own.
    pub again: Option<(OsString, Vec<OsString>)>,
}

impl Call {
    /// That of a program of its own.
    pub fn of_process() -> Self {
        Self {
            words: std::env::args_os().collect(),
            again: None,
        }
    }
}

/// A process is called once.
static CALL: OnceLock<Call> = OnceLock::new();

/// This process was called like that.
pub fn is(call: Call) {
    let _ = CALL.set(call);
}

/// The name of the command, and its arguments.
pub fn words() -> Vec<OsString> {
    CALL.get_or_init(Call::of_process).words.clone()
}

/// The same as text, as far as they are text.
pub fn texts() -> Vec<String> {
    let words = words().into_iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The program, and the words before the arguments, that call this again.
///
/// # Errors
/// When the program's own file cannot be found.
pub fn again() -> io::Result<(OsString, Vec<OsString>)> {
    match &CALL.get_or_init(Call::of_process).again {
        Some(again) => Ok(again.clone()),
        None => Ok((std::env::current_exe()?.into_os_string(), Vec::new())),
    }
}
