//! Rules of boxes beside a naive oracle, and what fills or fuzzes them.

mod connections;
mod expiry;
mod fragments;
mod full_tables;
mod fuzz;
mod guide;
mod kernel;
mod naive;
mod oracle;
mod packets;
mod rules;
mod stored;
