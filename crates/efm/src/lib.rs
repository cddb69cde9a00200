//! Explicit flow measurement (RFC 9506): what senders put into packets so that
//! an observer on the path can measure round trips and loss.

#![forbid(unsafe_code)]
