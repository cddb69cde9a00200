//! `cake` in the attributes of linux/pkt_sched.h.

use narrows_aqm::cake::{AckFilter, CakeConfig, Cells, Diffserv, FlowMode};

use super::options::Options;

/// TCA_CAKE_BASE_RATE64 2 (bytes per second), DIFFSERV_MODE 3, ATM 4, FLOW_MODE 5,
/// OVERHEAD 6, RTT 7, TARGET 8 (both in µs), MEMORY 10, NAT 11, RAW 12, WASH 13, MPU 14,
/// INGRESS 15, ACK_FILTER 16, SPLIT_GSO 17.
pub(super) fn options(config: &CakeConfig) -> Options {
    let diffserv = match config.diffserv {
        Diffserv::Three => 0,
        Diffserv::Four => 1,
        Diffserv::Eight => 2,
        Diffserv::BestEffort => 3,
        Diffserv::Precedence => 4,
    };
    let flows = match config.flows {
        FlowMode::Blind => 0,
        FlowMode::SourceHost => 1,
        FlowMode::DestinationHost => 2,
        FlowMode::Hosts => 3,
        FlowMode::Flows => 4,
        FlowMode::DualSource => 5,
        FlowMode::DualDestination => 6,
        FlowMode::Triple => 7,
    };
    let filter = match config.ack_filter {
        AckFilter::Off => 0,
        AckFilter::On => 1,
        AckFilter::Aggressive => 2,
    };
    let cells = match config.framing.cells {
        Cells::None => 0,
        Cells::Atm => 1,
        Cells::Ptm => 2,
    };
    let micros =
        |time: narrows_units::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let framing = config.framing;
    let options = Options::default()
        .with_u64(2, config.bandwidth.map_or(0, |rate| rate.as_bytes()))
        .with_u32(3, diffserv)
        .with_u32(4, cells)
        .with_u32(5, flows);
    // An overhead makes the kernel count from the IP packet, `raw` from what it has.
    let options = match (framing.from_ip, framing.overhead) {
        (false, 0) => options,
        (from_ip, overhead) => {
            let options = options.with(6, &i32::from(overhead).to_ne_bytes());
            if from_ip {
                options
            } else {
                options.with_u32(12, 0)
            }
        }
    };
    let limit = config.memlimit.map(|limit| limit.get() as u32);
    options
        .with_u32(7, micros(config.rtt))
        .with_u32(8, micros(config.target()))
        .with_some(10, limit)
        .with_u32(11, config.nat.into())
        .with_u32(13, config.wash.into())
        .with_u32(14, framing.mpu.into())
        .with_u32(15, config.ingress.into())
        .with_u32(16, filter)
        .with_u32(17, config.split_gso.into())
}
