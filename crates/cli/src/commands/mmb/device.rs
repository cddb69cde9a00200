//! `narrows mmb attach`, `list DEV` and `detach`: a box at a device of this machine.

#[cfg(target_os = "linux")]
pub(super) use here::{attach, change, connections, detach, list, reload, tables};
#[cfg(not(target_os = "linux"))]
pub(super) use nowhere::{attach, change, connections, detach, list, reload, tables};

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use narrows::mmb::Session;

    use crate::args::Mmb;
    use crate::status::Outcome;

    fn refused() -> Outcome {
        let why = "boxes can be attached to devices on Linux only";
        Err(narrows::Error::Engine(why.to_owned()).into())
    }

    pub fn attach(args: &Mmb, _: Session, _: &str) -> Outcome {
        let _ = (args.whole_bundles, args.wait);
        refused()
    }

    pub fn list(_: &Mmb, _: &str) -> Outcome {
        refused()
    }

    pub fn detach(_: &Mmb, _: &str) -> Outcome {
        refused()
    }

    pub fn reload(_: &Mmb, _: &str, _: &str) -> Outcome {
        refused()
    }

    pub fn change(_: &Mmb, _: &str, _: &str) -> Outcome {
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
    use std::time::Duration;

    use narrows::Error;
    use narrows::mmb::{self, AttachedBox, BoxCounts, Session};

    use crate::args::{Format, Mmb};
    use crate::commands::device_events::{DeviceEvent, device_events, ends_without};
    use crate::output::{message, print, print_json};
    use crate::status::{Outcome, Status};

    /// How long after a refusal the notice may come that the device is gone.
    const FOLLOWS: Duration = Duration::from_secs(1);

    /// Attaches the session's box until a signal, until it is asked to go, or until its device goes.
    pub fn attach(args: &Mmb, session: Session, device: &str) -> Outcome {
        let mut rules = Some(session.for_device(device, args.whole_bundles)?);
        let (stop, events) = device_events(device, args.wait)?;
        let mut attached: Option<AttachedBox> = None;
        let mut without_device = false;
        for event in &events {
            match event? {
                DeviceEvent::Stop => break,
                DeviceEvent::There(index) => {
                    if let Some(rules) = rules.take() {
                        let mut new = rules.attach(index)?;
                        let stop = stop.clone();
                        new.answer(move || stop.stop());
                        attached = Some(new);
                    } else if let Some(Err(error)) =
                        attached.as_ref().map(|a| a.attach_again(index))
                    {
                        // It may be gone again, which comes next.
                        match events.recv_timeout(FOLLOWS) {
                            Ok(Ok(DeviceEvent::Gone)) => continue,
                            _ => return Err(error.into()),
                        }
                    }
                    message!(
                        "narrows: the box is at {device} until Ctrl-C; `narrows mmb list {device}` \
                         shows what it counts"
                    );
                }
                DeviceEvent::Gone if args.wait => {
                    message!("narrows: {device} is gone: nothing is filtered until it returns")
                }
                DeviceEvent::Gone => {
                    without_device = true;
                    break;
                }
            }
        }
        // Of one that was asked to go the asker has the counts.
        if let Some(Ok(counts)) = attached.map(|attached| attached.counts()) {
            show(args, &counts)?;
        }
        Ok(match without_device {
            true => ends_without(device, "its box is at no device, and nothing is filtered"),
            false => Status::Done,
        })
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

    /// Puts other rules in the place of those of the box at `device`.
    pub fn reload(args: &Mmb, device: &str, rules: &str) -> Outcome {
        show(args, &mmb::reload(device, rules)?)?;
        Ok(Status::Done)
    }

    /// Has rules of the box at `device` come or go.
    pub fn change(args: &Mmb, device: &str, commands: &str) -> Outcome {
        show(args, &mmb::change(device, commands)?)?;
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
