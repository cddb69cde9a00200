//! What can be wrong with bytes that claim to be a packet.

/// Why bytes could not be read as a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The bytes end before the header does.
    #[error("the packet ends inside the {0}")]
    Truncated(&'static str),
    /// A field has a value that the header cannot have.
    #[error("the {0} is not valid")]
    Invalid(&'static str),
    /// The header is of a protocol that is not read here.
    #[error("protocol {0} is not read here")]
    Unsupported(u8),
}
