//! What can go wrong in the laboratory, in sentences for people.

use std::path::{Path, PathBuf};

use narrows_engine::EngineError;
use narrows_files::FileError;
use narrows_reduce::observers::NoTap;

/// A run, a campaign or a results folder that could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The results folder that was asked for has something in it.
    #[error("the folder {} is not empty; name an empty or a new one", .0.display())]
    NotEmpty(PathBuf),
    /// Something that is read as a results folder is none.
    #[error("{} is not a results folder: {what}", .dir.display())]
    NotResults {
        /// What was opened.
        dir: PathBuf,
        /// What is missing or wrong.
        what: String,
    },
    /// A file could not be read or written.
    #[error("could not {verb} {}: {source}", .path.display())]
    Io {
        /// `read`, `write`, `create`.
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("{} cannot be read: {what}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What was asked for does not fit the data: an unknown metric, nothing
    /// selected.
    #[error("{0}")]
    Refused(String),
    /// This user may not do what was asked for; who may, and how.
    #[error("{0}")]
    NoPermission(String),
    /// The engine could not run the plan to its end.
    #[error("the run failed: {0}")]
    Engine(String),
    /// A capture, page or figure could not be made.
    #[error("could not make {what}: {why}")]
    Output {
        /// For instance `report.html`.
        what: String,
        /// Why.
        why: String,
    },
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(why) => Self::Refused(why),
            EngineError::NoPermission(why) => Self::NoPermission(why),
            other => Self::Engine(other.to_string()),
        }
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        let FileError { verb, path, source } = error;
        Self::Io { verb, path, source }
    }
}

impl From<NoTap> for Error {
    fn from(error: NoTap) -> Self {
        Self::Output {
            what: format!("the observer `{}`", error.observer),
            why: format!("the run has no {}", error.tap),
        }
    }
}

impl Error {
    /// Whether the input was refused before anything ran (exit status 2).
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NotEmpty(_) | Self::NotResults { .. } | Self::Refused(_)
        )
    }

    /// Whether this user lacks a right: root's, or to a file.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::NoPermission(_) => true,
            Self::Io { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    /// The same, said of one cell of a campaign.
    #[must_use]
    pub fn in_cell(self, cell: &str) -> Self {
        match self {
            Self::Refused(why) => Self::Refused(format!("the cell {cell}: {why}")),
            Self::NoPermission(why) => Self::NoPermission(format!("the cell {cell}: {why}")),
            other => other,
        }
    }

    /// Why `path`, which the user named, cannot be read: one that does not exist is refused.
    pub fn input(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                Self::Refused(format!("could not read {}: {source}", path.display()))
            }
            _ => Self::io("read", &path)(source),
        }
    }

    /// An [`Io`](Self::Io) with its file.
    pub fn io(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { verb, path, source }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn what_was_refused_before_it_ran_and_what_the_user_may_not_do_are_told_from_failures() {
        let (path, text) = (PathBuf::from("runs/1"), || "why".to_owned());
        let io = |kind: ErrorKind| Error::io("read", Path::new("runs/1"))(kind.into());
        let not_results = Error::NotResults {
            dir: path.clone(),
            what: text(),
        };
        let content = Error::Content {
            path: path.clone(),
            what: text(),
        };
        let output = Error::Output {
            what: text(),
            why: text(),
        };
        for (error, is_refusal, is_of_rights) in [
            (Error::NotEmpty(path), true, false),
            (not_results, true, false),
            (Error::Refused(text()), true, false),
            (Error::NoPermission(text()), false, true),
            (io(ErrorKind::PermissionDenied), false, true),
            (io(ErrorKind::NotFound), false, false),
            (content, false, false),
            (Error::Engine(text()), false, false),
            (output, false, false),
        ] {
            let found = (error.is_refusal(), error.is_of_rights());
            assert_eq!(found, (is_refusal, is_of_rights), "{error:?}");
        }
    }

    #[test]
    fn errors_of_files_and_of_observers_say_the_same_here() {
        let full = FileError::at("write", Path::new("runs/1"))(ErrorKind::StorageFull.into());
        let said = full.to_string();
        let error = Error::from(full);
        assert!(
            matches!(error, Error::Io { verb: "write", .. }),
            "{error:?}"
        );
        assert_eq!(error.to_string(), said);
        assert!(said.starts_with("could not write runs/1: "), "{said}");
        for (kind, is_refusal) in [
            (ErrorKind::NotFound, true),
            (ErrorKind::InvalidInput, false),
        ] {
            let error = Error::input(Path::new("mix.yaml"))(kind.into());
            assert_eq!(error.is_refusal(), is_refusal, "{error:?}");
            assert!(
                error.to_string().starts_with("could not read mix.yaml: "),
                "{error}"
            );
        }
        let no_tap = NoTap {
            observer: "mid".to_owned(),
            tap: "tap/mid".to_owned(),
        };
        let said = "could not make the observer `mid`: the run has no tap/mid";
        assert_eq!(Error::from(no_tap).to_string(), said);
    }
}
