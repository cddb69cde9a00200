//! Whether a connection asks for ECN.

use std::fs::OpenOptions;
use std::io::{self, Write};

use narrows_cc::Needs;
use narrows_scenario::EcnMode;

/// The switch, which each namespace has for itself
/// (`Documentation/networking/ip-sysctl.rst`).
const TCP_ECN: &str = "/proc/sys/net/ipv4/tcp_ecn";

/// Values of `tcp_ecn` (`enum tcp_ecn_mode`, include/net/tcp_ecn.h; the last
/// three from Linux 7.0 on): what is granted when asked, what is asked for.
const ECN_BOTH: &str = "1";
const ECN_WHEN_ASKED: &str = "2";
const ACCECN_BOTH: &str = "3";
const ACCECN_WHEN_ASKED_ECN_OUT: &str = "4";
const ACCECN_WHEN_ASKED: &str = "5";

/// The namespace's switch for outgoing connections.
///
/// Linux decides about ECN for a namespace, not for a socket: a SYN asks for
/// it if `tcp_ecn` says so at that moment (`tcp_ecn_send_syn`, called within
/// `connect`), or if the congestion control needs it. So the switch is turned
/// for the call alone. One thread opens all of a host's flows; a program that
/// opens a connection in the same host at the same microsecond may get ECN
/// that way.
#[derive(Debug)]
pub struct EcnSwitch {
    /// Whether `tcp_ecn` knows AccECN.
    accecn: bool,
}

/// What a flow's SYN asks for, beyond what its congestion control makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask(Option<&'static str>);

impl EcnSwitch {
    /// Sets the namespace of the calling thread to grant what it is asked for,
    /// and to ask for nothing.
    ///
    /// # Errors
    /// If the namespace's switches may not be turned.
    pub fn grant_when_asked() -> io::Result<Self> {
        // Linux before 7.0 refuses the numbers that it does not know.
        if turn(ACCECN_WHEN_ASKED).is_ok() {
            return Ok(Self { accecn: true });
        }
        turn(ECN_WHEN_ASKED)?;
        Ok(Self { accecn: false })
    }

    /// What a flow has to ask for, and what is to be said about it.
    pub fn ask(&self, mode: EcnMode, needs: Needs) -> (Ask, Option<&'static str>) {
        let own = match (needs.accecn, needs.ecn) {
            (true, _) => Some("AccECN"),
            (_, true) => Some("ECN"),
            _ => None,
        };
        match (mode, own) {
            (EcnMode::Auto, _) | (EcnMode::Off, None) => (Ask(None), None),
            (EcnMode::Off, Some(_)) => (
                Ask(None),
                Some("`ecn = \"off\"` has no effect: its congestion control asks for ECN"),
            ),
            (EcnMode::Classic, Some("AccECN")) => (
                Ask(None),
                Some("`ecn = \"classic\"` has no effect: its congestion control asks for AccECN"),
            ),
            (EcnMode::Classic, _) if self.accecn => (Ask(Some(ACCECN_WHEN_ASKED_ECN_OUT)), None),
            (EcnMode::Classic, _) => (Ask(Some(ECN_BOTH)), None),
            (EcnMode::AccEcn, Some("AccECN")) => (Ask(None), None),
            (EcnMode::AccEcn, _) if self.accecn => (Ask(Some(ACCECN_BOTH)), None),
            (EcnMode::AccEcn, _) => (
                Ask(Some(ECN_BOTH)),
                Some(
                    "this kernel asks for AccECN only where the congestion control does \
                     (`sysctl net.ipv4.tcp_ecn=3` from Linux 7.0 on); it asked for classic ECN",
                ),
            ),
        }
    }

    /// Calls `open`, whose SYN asks for what `ask` says.
    ///
    /// # Errors
    /// If the switch cannot be turned; `open` was not called then.
    pub fn asking<T>(&self, ask: Ask, open: impl FnOnce() -> T) -> io::Result<T> {
        let Some(value) = ask.0 else {
            return Ok(open());
        };
        turn(value)?;
        let opened = open();
        turn(if self.accecn {
            ACCECN_WHEN_ASKED
        } else {
            ECN_WHEN_ASKED
        })?;
        Ok(opened)
    }
}

/// Sets the switch of the calling thread's namespace, which is what
/// `/proc/sys/net` shows it.
fn turn(value: &str) -> io::Result<()> {
    let mut switch = OpenOptions::new().write(true).open(TCP_ECN)?;
    switch.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_follows_the_plan_as_far_as_the_kernel_goes() {
        let plain = Needs::default();
        let l4s = Needs {
            ecn: true,
            accecn: true,
            ect1: true,
        };
        for (mode, needs, old, new) in [
            (EcnMode::Auto, plain, None, None),
            (EcnMode::Auto, l4s, None, None),
            (EcnMode::Off, plain, None, None),
            (EcnMode::Classic, plain, Some("1"), Some("4")),
            (EcnMode::AccEcn, plain, Some("1"), Some("3")),
            (EcnMode::AccEcn, l4s, None, None),
        ] {
            let ask = |accecn| EcnSwitch { accecn }.ask(mode, needs);
            assert_eq!(ask(false).0, Ask(old), "{mode:?} {needs:?}");
            assert_eq!(ask(true).0, Ask(new), "{mode:?} {needs:?}");
            let differs = mode == EcnMode::AccEcn && !needs.accecn;
            assert_eq!(ask(false).1.is_some(), differs, "{mode:?} {needs:?}");
            assert_eq!(ask(true).1, None, "{mode:?} {needs:?}");
        }
        let switch = EcnSwitch { accecn: false };
        assert!(switch.ask(EcnMode::Off, l4s).1.is_some());
    }
}
