//! A command of the user's that runs in the foreground: which it is and as whom, and waiting
//! for its end while signals and figures want something too.

mod error;
mod program;
mod waiting;

pub use error::{CommandError, Hindrance};
pub use program::Program;
pub use waiting::{Signals, exit_code};
