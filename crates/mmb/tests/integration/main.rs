//! Rules of boxes beside a naive oracle, and what fills or fuzzes them.

mod connections;
mod expiry;
mod fragments;
mod frames;
mod full_tables;
mod fuzz;
mod guide;
mod kernel;
mod link_box;
mod naive;
mod oracle;
mod outcomes;
mod packets;
mod programs;
mod rules;
mod stored;
