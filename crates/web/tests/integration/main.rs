//! The server, asked over real connections.

mod attacks;
mod client;
mod described;
mod documents;
mod guide;
mod jobs;
mod refusals;
mod streams;
