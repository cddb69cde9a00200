//! The server, asked over real connections.

mod attacks;
mod boxes;
mod client;
mod described;
mod documents;
mod guide;
mod jobs;
mod refusals;
mod store;
mod streams;
