//! `narrows mmb attach`, `list DEV` and `detach`: a box at a device of this machine.

#[cfg(target_os = "linux")]
pub(super) use here::{attach, connections, detach, list, tables};
#[cfg(not(target_os = "linux"))]
pub(super) use nowhere::{attach, connections, detach, list, tables};

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use narrows::mmb::Session;

    use crate::args::Mmb;
    use crate::status::Outcome;

    fn refused() -> Outcome {
        let why = "boxes can be attached to devices on Linux only";
        Err(narrows::Error::Engine(why.to_owned()).into())
    }

    pub fn attach(args: &Mmb, _: &Session, _: &str) -> Outcome {
        let _ = args.whole_bundles;
        refused()
    }

    pub fn list(_: &Mmb, _: &str) -> Outcome {
        refused()
    }

    pub fn detach(_: &Mmb, _: &str) -> Outcome {
        refused()
    }

    pub fn tables(_: &Mmb, _: &str) -> Outcome {
        refused()
    }

    pub fn connections(_: &Mmb, _: &str, _: bool) -> Outcome {
        refused()
    }
}

#[cfg(target_os = "linux")]
mod here {
    use std::sync::mpsc::channel;

    use narrows::Error;
    use narrows::mmb::{self, BoxCounts, Session};

    use crate::args::{Format, Mmb};
    use crate::output::{message, print, print_json};
    use crate::status::{Outcome, Status};

    /// Attaches the session's box until a signal, or until it is asked to go.
    pub fn attach(args: &Mmb, session: &Session, device: &str) -> Outcome {
        let (stop, stopped) = channel();
        let gone = stop.clone();
        // Before anything is changed: a signal from here on ends it in good order.
        let handler = ctrlc::set_handler(move || {
            // The receiver may be gone already.
            let _ = stop.send(());
        });
        handler.map_err(|e| Error::Engine(format!("signals cannot be waited for: {e}")))?;
        let mut attached = session.attach(device, args.whole_bundles)?;
        attached.answer(gone);
        message!(
            "narrows: the box is at {device} until Ctrl-C; `narrows mmb list {device}` shows what \
             it counts"
        );
        let _ = stopped.recv();
        // One that was asked to go has told the asker.
        if let Ok(counts) = attached.counts() {
            show(args, &counts)?;
        }
        Ok(Status::Done)
    }

    /// What the box at `device` has counted.
    pub fn list(args: &Mmb, device: &str) -> Outcome {
        show(args, &mmb::list(device)?)?;
        Ok(Status::Done)
    }

    /// Ends the box at `device`.
    pub fn detach(args: &Mmb, device: &str) -> Outcome {
        show(args, &mmb::detach(device)?)?;
        Ok(Status::Done)
    }

    /// How the box at `device` finds its rules.
    pub fn tables(args: &Mmb, device: &str) -> Outcome {
        super::super::print_answer(&mmb::tables(device)?, args.format)
    }

    /// The connections of the box at `device`.
    pub fn connections(args: &Mmb, device: &str, verbose: bool) -> Outcome {
        super::super::print_answer(&mmb::connections(device, verbose)?, args.format)
    }

    fn show(args: &Mmb, counts: &BoxCounts) -> Result<(), Error> {
        match args.format {
            Format::Text => print(&counts.to_string()),
            Format::Json => {
                let value = serde_json::to_value(counts);
                print_json(&value.map_err(|e| Error::Engine(e.to_string()))?);
            }
        }
        Ok(())
    }
}
