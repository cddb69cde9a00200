//! Which command runs, and as whom.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist};

use super::CommandError;
use crate::machine::find_program;
use crate::system_calls::become_user;

/// The shell of users who have none.
const PLAIN_SHELL: &str = "/bin/sh";

/// What an interactive shell's prompt begins with, in brackets.
const PROMPT: &str = "narrows";

/// A command that is there, and the user who is to run it.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    words: Vec<OsString>,
    interactive: bool,
    user: Option<Person>,
    prompt: String,
}

/// A user with all groups.
#[derive(Debug)]
struct Person {
    user: User,
    groups: Vec<Gid>,
}

impl Program {
    /// Finds the program of `words`, or the user's shell if there are none.
    ///
    /// # Errors
    /// When there is no such program, or the user behind sudo is unknown.
    pub fn find(words: &[OsString]) -> Result<Self, CommandError> {
        Self::of(words, invoking_user()?, PROMPT)
    }

    /// The same for who runs this process, though that be root by sudo; `place` stands before
    /// the prompt of an interactive shell.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn find_as_this_user(words: &[OsString], place: &str) -> Result<Self, CommandError> {
        Self::of(words, None, place)
    }

    fn of(words: &[OsString], user: Option<Person>, place: &str) -> Result<Self, CommandError> {
        let interactive = words.is_empty();
        let words = if interactive {
            vec![shell(user.as_ref())]
        } else {
            words.to_vec()
        };
        let path = find_program(&words[0].to_string_lossy())?;
        Ok(Self {
            path,
            words,
            interactive,
            user,
            prompt: format!("[{place}] "),
        })
    }

    /// The name that it was called by.
    pub fn name(&self) -> String {
        self.words[0].to_string_lossy().into_owned()
    }

    /// Whether it is the user's shell, as no command was named.
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Where its program is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user who is to run it, if that is another than who runs this process.
    pub fn user(&self) -> Option<Uid> {
        self.user.as_ref().map(|person| person.user.uid)
    }

    /// Has `command`, which was made of [`path`](Self::path), run it with this process's
    /// directory, terminal and environment, but for what identifies the user: as that user
    /// it starts from then on.
    pub fn complete(&self, mut command: Command) -> Command {
        if let Some(Person { user, groups }) = &self.user {
            become_user(&mut command, user.uid, user.gid, groups.clone());
            command
                .env("USER", &user.name)
                .env("LOGNAME", &user.name)
                .env("HOME", &user.dir);
        }
        command.args(&self.words[1..]);
        if self.interactive
            && self
                .path
                .file_name()
                .is_some_and(|n| n.as_bytes() == b"bash")
        {
            // Before the first prompt, when the user's own files have been read.
            let after = env::var("PROMPT_COMMAND").unwrap_or_default();
            let before = format!(
                "PS1=\"{}$PS1\"; PROMPT_COMMAND={}",
                self.prompt,
                quoted(&after)
            );
            command.env("PROMPT_COMMAND", before);
        }
        command
    }
}

/// A word that a shell reads as `text`.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The user behind sudo.
fn invoking_user() -> Result<Option<Person>, CommandError> {
    let Some(uid) = env::var("SUDO_UID").ok().filter(|_| geteuid().is_root()) else {
        return Ok(None);
    };
    let number = uid.parse().ok().map(Uid::from_raw);
    if number.is_some_and(Uid::is_root) {
        return Ok(None);
    }
    let known = number.and_then(|uid| User::from_uid(uid).ok().flatten());
    let user = known.ok_or(CommandError::NoSuchUser { uid })?;
    let name = std::ffi::CString::new(user.name.as_bytes()).unwrap_or_default();
    let groups = getgrouplist(&name, user.gid).unwrap_or_else(|_| vec![user.gid]);
    Ok(Some(Person { user, groups }))
}

fn shell(user: Option<&Person>) -> OsString {
    let own = match user {
        Some(person) => Some(person.user.shell.clone().into_os_string()),
        None => env::var_os("SHELL"),
    };
    own.filter(|s| !s.is_empty())
        .unwrap_or_else(|| PLAIN_SHELL.into())
}
