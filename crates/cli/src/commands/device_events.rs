//! What happens to a device while something is attached to it, and Ctrl-C.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::{io, thread};

use narrows::{DeviceWatch, Error};

use crate::output::message;
use crate::status::Status;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The device is there, with this number.
    There(u32),
    /// It was deleted, or moved to another network namespace.
    Gone,
    /// A signal, or a request.
    Stop,
}

/// Ends the events.
#[derive(Clone, Debug)]
pub struct Stop(Sender<Result<DeviceEvent, Error>>);

impl Stop {
    pub fn stop(&self) {
        // The receiver may be gone already.
        let _ = self.0.send(Ok(DeviceEvent::Stop));
    }
}

/// Says that what needs `device` ends with it; `so` is what follows.
pub fn ends_without(device: &str, so: &str) -> Status {
    message!(
        "narrows: {device} was deleted, or moved to another network namespace: {so} (--wait goes on \
         when it returns)"
    );
    Status::Failed
}

/// The events of `device`, the first of which is that it is there; with `wait` it need not be yet, and may
/// return. From now on Ctrl-C is one of them.
pub fn device_events(
    device: &str,
    wait: bool,
) -> Result<(Stop, Receiver<Result<DeviceEvent, Error>>), Error> {
    let failed = |e: &dyn std::fmt::Display| Error::Engine(e.to_string());
    let (sender, events) = channel();
    let stop = Stop(sender.clone());
    let signalled = stop.clone();
    // Before anything is changed: a signal from here on ends it in good order.
    ctrlc::set_handler(move || signalled.stop())
        .map_err(|e| failed(&format!("signals cannot be waited for: {e}")))?;
    let watch = match wait {
        true => DeviceWatch::for_name(device),
        false => DeviceWatch::of(device),
    };
    let watch = watch.map_err(|e| failed(&e))?;
    thread::spawn(move || {
        if let Err(e) = report(watch, wait, &sender) {
            let error = Error::Engine(format!("devices cannot be watched: {e}"));
            // As above.
            let _ = sender.send(Err(error));
        }
    });
    Ok((stop, events))
}

/// Reports what happens until nobody listens any more.
fn report(
    mut watch: DeviceWatch,
    wait: bool,
    events: &Sender<Result<DeviceEvent, Error>>,
) -> io::Result<()> {
    /// Nothing ends a wait but a notice; this is only how often it begins anew.
    const LONG: std::time::Duration = std::time::Duration::from_secs(3_600);
    loop {
        while watch.index() == 0 && !watch.is_there_within(LONG)? {}
        if events.send(Ok(DeviceEvent::There(watch.index()))).is_err() {
            return Ok(());
        }
        while !watch.is_gone_within(LONG)? {}
        if events.send(Ok(DeviceEvent::Gone)).is_err() || !wait {
            return Ok(());
        }
    }
}
