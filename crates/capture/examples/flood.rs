//! Sends datagrams over loopback at a steady rate, for measuring what a capture
//! misses: `flood PACKETS RATE`, with RATE in packets a second, or `max`. Prints
//! how many it sent, and at which rate. Nobody reads them: the receiving socket
//! throws away what it has no room for.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    eprintln!("flood: packets of devices can be captured on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::IoSlice;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};

    /// Datagrams in a call to the kernel.
    const BATCH: usize = 32;

    pub fn main() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse::<u64>().ok());
        let (Some(packets), rate) = (number(0), number(1)) else {
            eprintln!("usage: flood PACKETS RATE|max");
            std::process::exit(2);
        };
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        let to = receiver.local_addr().expect("its address");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        sender.connect(to).expect("a way to the receiver");
        let payload = [0u8; 22];
        let slices = vec![[IoSlice::new(&payload)]; BATCH];
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
        let began = Instant::now();
        let mut sent = 0;
        while sent < packets {
            if let Some(rate) = rate {
                let due = began + Duration::from_nanos(sent * 1_000_000_000 / rate.max(1));
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let batch = (packets - sent).min(BATCH as u64) as usize;
            let done = sendmmsg(
                sender.as_raw_fd(),
                &mut headers,
                &slices[..batch],
                vec![None; batch],
                [],
                MsgFlags::empty(),
            );
            sent += done.expect("loopback takes datagrams").count() as u64;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("sent {sent} rate {:.0}", sent as f64 / seconds);
    }
}
