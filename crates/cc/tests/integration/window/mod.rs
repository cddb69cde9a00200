//! Controls that change Reno's window in one respect.

mod hybla;
mod relentless;
mod westwood;

use narrows_cc::{ControlSpec, Controller, Facts, Flags};

/// A connection that the window limits, past slow start.
fn started(words: &str, cwnd: u32, ssthresh: u32, srtt_us: u32) -> (Controller, Facts) {
    let mut cc = Controller::new(&ControlSpec::parse(words).unwrap());
    let facts = Facts {
        now_ns: 1_000_000_000,
        mss: 1448,
        cwnd,
        ssthresh,
        srtt_us: srtt_us << 3,
        min_rtt_us: srtt_us,
        flags: Flags::CWND_LIMITED,
        ..Facts::default()
    };
    cc.init(&facts);
    (cc, facts)
}
