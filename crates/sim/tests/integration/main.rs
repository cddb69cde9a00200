//! The engine over whole networks: one program, so that it is linked once.

mod apps;
mod bbr;
mod boxes;
mod calls;
mod closing;
mod controls;
mod dalbe;
mod flows;
mod golden;
mod marks;
mod model;
mod nodes;
mod pages;
mod pmtud;
mod probes;
mod proxy;
mod quic;
mod relay;
mod relay_apps;
mod rig;
mod short_flows;
mod socket_options;
mod time_wait;
mod tunnels;
mod videos;
