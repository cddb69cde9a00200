//! A testbed of four machines: source, box, observer and sink in a line, each a virtual machine of
//! QEMU that cloud-init sets up from a seed.
//!
//! [`Line`] takes a plan apart into what each machine is ([`Machine`]), [`seed`] writes the volumes
//! that cloud-init reads (day 0: addresses of the control network and the program; day 1: what the
//! role does), [`Webhook`] is what the program in a machine serves, and [`Testbed`] starts the
//! machines, waits for them, starts a run by their webhooks and fetches what came of it.
//!
//! Nothing of a file reaches a shell: machines get lists of arguments, and lines for `ip -batch`
//! that have addresses alone.

mod client;
mod flows;
mod hypervisor;
mod image;
mod line;
mod orders;
mod packaged;
mod report;
mod run;
mod seed;
mod state;
mod template;
mod webhook;
mod within_box;

pub use hypervisor::Hypervisor;
pub use image::{Image, RELEASE};
pub use line::{Line, Role};
pub use orders::{Machine, Orders};
pub use packaged::Program;
pub use report::{Report, RoleReport};
pub use run::{Seeds, Testbed, TestbedOptions, seeds};
pub use seed::{SeedFile, seed, volume};
pub use state::{Phase, RunState, Written};
pub use webhook::Webhook;

use std::net::Ipv4Addr;

/// The port of a machine's webhook (our choice).
pub const PORT: u16 = 8_899;

/// Where a machine is asked: its address in the control network, a network of link-local addresses
/// (RFC 3927) for each machine and the process that started it alone.
pub const CONTROL: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 15);

/// The network of [`CONTROL`], which a scenario's hosts have no address in: 169.254.77.0/24.
fn is_reserved(address: Ipv4Addr) -> bool {
    address.octets()[..3] == CONTROL.octets()[..3]
}
