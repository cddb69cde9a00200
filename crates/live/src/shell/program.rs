//! Which command runs behind the path, and as whom.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist};

use super::ShellError;
use super::names::RESOLVERS;
use crate::machine::find_program;
use crate::world::{Namespace, start_as};

/// The shell of users who have none.
const PLAIN_SHELL: &str = "/bin/sh";

/// What precedes an interactive shell's prompt.
const PROMPT: &str = "[narrows] ";

/// A command that is there, and the user who is to run it.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    words: Vec<OsString>,
    interactive: bool,
    user: Option<Person>,
}

/// A user with all groups.
#[derive(Debug)]
struct Person {
    user: User,
    groups: Vec<Gid>,
}

impl Program {
    /// Finds the program of `words`, or the user's shell if there are none.
    pub(super) fn find(words: &[OsString]) -> Result<Self, ShellError> {
        let user = invoking_user()?;
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
        })
    }

    /// The name that it was called by.
    pub(super) fn name(&self) -> String {
        self.words[0].to_string_lossy().into_owned()
    }

    pub(super) fn interactive(&self) -> bool {
        self.interactive
    }

    /// The command, to be started in `inside`, with this process's directory,
    /// terminal and environment, but for what identifies the user, and with
    /// `resolvers` in the place of this machine's.
    ///
    /// # Errors
    /// If a path has a zero in it.
    pub(super) fn command(
        &self,
        inside: &Namespace,
        resolvers: Option<&Path>,
    ) -> io::Result<Command> {
        let mut command = match resolvers {
            None => inside.command(&self.path),
            Some(file) => inside.command_seeing(&self.path, file, Path::new(RESOLVERS))?,
        };
        if let Some(Person { user, groups }) = &self.user {
            start_as(&mut command, user.uid, user.gid, groups.clone());
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
            let before = format!("PS1=\"{PROMPT}$PS1\"; PROMPT_COMMAND={}", quoted(&after));
            command.env("PROMPT_COMMAND", before);
        }
        Ok(command)
    }
}

/// A word that a shell reads as `text`.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The user behind sudo.
fn invoking_user() -> Result<Option<Person>, ShellError> {
    let Some(uid) = env::var("SUDO_UID").ok().filter(|_| geteuid().is_root()) else {
        return Ok(None);
    };
    let number = uid.parse().ok().map(Uid::from_raw);
    if number.is_some_and(Uid::is_root) {
        return Ok(None);
    }
    let known = number.and_then(|uid| User::from_uid(uid).ok().flatten());
    let user = known.ok_or(ShellError::NoSuchUser { uid })?;
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
