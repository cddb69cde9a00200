//! Sends frames on a device at a steady rate, for measuring what a capture
//! misses: `flood DEVICE PACKETS RATE`, with RATE in packets a second, or `max`.
//! Prints how many it sent, and at which rate. Each is a frame of its own from the
//! start, of 64 bytes with a UDP datagram, to a host that is not there: whoever
//! gets it throws it away. No protocol of the kernel is passed, which would take
//! longer than watching.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    eprintln!("flood: packets of devices can be captured on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::IoSlice;
    use std::net::Ipv4Addr;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    use narrows_wire::{IpFields, UdpFields, ip};
    use nix::ifaddrs::getifaddrs;
    use nix::sys::socket::{
        AddressFamily, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockType, bind, sendmmsg, socket,
    };

    /// Frames in a call to the kernel.
    const BATCH: usize = 64;
    /// Bytes of a datagram's payload.
    const PAYLOAD: usize = 22;

    pub fn main() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse::<u64>().ok());
        let (Some(name), Some(packets), rate) = (words.first(), number(1), number(2)) else {
            eprintln!("usage: flood DEVICE PACKETS RATE|max");
            std::process::exit(2);
        };
        let device = device(name).expect("a device with this name");
        // Protocol 0 takes no packets.
        let kind = (AddressFamily::Packet, SockType::Raw, SockFlag::empty());
        let socket = socket(kind.0, kind.1, kind.2, None).expect("a packet socket, as root");
        bind(socket.as_raw_fd(), &device).expect("the device to be up");
        let frame = frame();
        let slices = vec![[IoSlice::new(&frame)]; BATCH];
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(BATCH, None);
        let began = Instant::now();
        let mut sent = 0;
        while sent < packets {
            if let Some(rate) = rate {
                let due = began + Duration::from_nanos(sent * 1_000_000_000 / rate.max(1));
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let batch = (packets - sent).min(BATCH as u64) as usize;
            let done = sendmmsg(
                socket.as_raw_fd(),
                &mut headers,
                &slices[..batch],
                vec![None; batch],
                [],
                MsgFlags::empty(),
            );
            sent += done.expect("the device takes frames").count() as u64;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("sent {sent} rate {:.0}", sent as f64 / seconds);
    }

    /// The address of a device for packet sockets.
    fn device(name: &str) -> Option<LinkAddr> {
        let mut all = getifaddrs().ok()?;
        all.find_map(|i| match i.interface_name == name {
            true => i.address?.as_link_addr().copied(),
            false => None,
        })
    }

    /// A datagram to port 9, which throws away what comes (RFC 863), between
    /// addresses for documentation (RFC 5737), in Ethernet.
    fn frame() -> Vec<u8> {
        let (source, destination) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let (source, destination) = (
            Ipv4Addr::from(source).into(),
            Ipv4Addr::from(destination).into(),
        );
        let udp = UdpFields {
            source_port: 40_000,
            destination_port: 9,
        };
        let ip = IpFields {
            source,
            destination,
            traffic_class: 0,
            ttl: 64,
            protocol: ip::UDP,
            ident: 0,
        };
        let mut frame = vec![2, 0, 0, 0, 0, 99, 2, 0, 0, 0, 0, 1, 8, 0];
        ip.write(&mut frame, 8 + PAYLOAD);
        udp.write(&mut frame, source, destination, &[0; PAYLOAD], 0);
        frame
    }
}
