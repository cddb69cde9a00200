//! Options of a leg's sockets.

use narrows_cc::ControlSpec;
use narrows_linux::tcp_options::TcpOptions;
use narrows_units::Rate;

/// One leg, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LegConfig {
    pub options: TcpOptions,
    /// One of Narrows' own congestion controls, in the place of one of the kernel's.
    pub own: Option<ControlSpec>,
    /// What the link carries that the leg sends over. `own` has the option for it then.
    pub hint: Option<Rate>,
}

/// Bytes that may wait unsent in the kernel, so that what waits waits in the proxy (our choice: two of the
/// largest bursts that segmentation makes).
const UNSENT: u64 = 128 << 10;

/// Options of the connections of a leg of which nothing is said.
pub(super) fn plain(fast_open: bool, transparent: bool) -> TcpOptions {
    TcpOptions {
        fast_open,
        transparent,
        no_delay: true,
        asks_silent_peers: true,
        urgent_in_line: true,
        unsent: Some(UNSENT),
        ..TcpOptions::default()
    }
}
