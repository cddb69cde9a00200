//! TCP endpoints over a pipe: exact figures, laws, and foreign scripts.

mod bulk;
mod exact;
mod fast_open;
mod laws;
mod pipe;
mod player;
mod scripts;
mod small_queues;
