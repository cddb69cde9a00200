//! The controls by their rules, compiled for this machine.

mod bbr;
mod compiled;
mod cubic;
mod dalbe;
mod dctcp;
mod declared;
mod delay;
mod fixed;
mod fuzz;
mod prague;
mod properties;
mod quickstart;
mod reno;
mod window;
