//! What the tests of several modules have in common: two ends and a session.

use crate::probe::{Addresses, Session};

/// A session that a responder has given a token.
pub(crate) const SESSION: Session = Session {
    number: 0x1234_5678,
    token: [1; 16],
};

/// A prober and a responder.
pub(crate) fn ends() -> Addresses {
    Addresses {
        source: "10.0.0.1:4000".parse().unwrap(),
        destination: "10.0.0.2:5000".parse().unwrap(),
    }
}
