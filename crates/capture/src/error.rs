//! Why packets of a device cannot be seen.

use std::io;

/// Why a device cannot be watched, or not further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The right to open a packet socket is missing.
    #[error(
        "packets of `{0}` can be seen by root or with the capability CAP_NET_RAW only: run \
         it with sudo, or give it that capability once: sudo setcap cap_net_raw+ep \
         \"$(command -v narrows)\""
    )]
    NoPermission(String),
    /// No device has this name.
    #[error("there is no device `{name}` here; there are: {present}")]
    NoDevice {
        /// What was asked for.
        name: String,
        /// Names of devices, by commas.
        present: String,
    },
    /// All devices cannot be made promiscuous together.
    #[error("all devices together cannot be promiscuous; name each one that is to be: -i DEVICE")]
    PromiscuousAny,
    /// The device is not up, or went away.
    #[error("the device `{0}` is down or gone; bring it up first: ip link set {0} up")]
    Down(String),
    /// Anything else that the kernel refuses.
    #[error("`{name}` cannot be watched: {what}: {source}")]
    System {
        /// The device.
        name: String,
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl CaptureError {
    /// What `source` means for a device while `what` was done.
    pub(crate) fn of(name: &str, what: &'static str, source: io::Error) -> Self {
        use nix::libc::{EACCES, ENETDOWN, ENODEV, ENXIO, EPERM};
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(EPERM | EACCES) => Self::NoPermission(name),
            Some(ENETDOWN | ENODEV | ENXIO) => Self::Down(name),
            _ => Self::System { name, what, source },
        }
    }
}
