//! BBR's rules: draft-ietf-ccwg-bbr-06; google/bbr, branch v3, net/ipv4/tcp_bbr.c; Linux
//! v6.17 net/ipv4/tcp_bbr.c.

mod bounds;
mod formulas;
mod sender;
mod states;
mod undo;
mod v1;
