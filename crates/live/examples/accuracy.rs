//! How exactly the live path delays and shapes on this machine: figures beside
//! those that are asked for. Run by `make bench`; needs root (or a user
//! namespace) and TUN.
//!
//!   accuracy [ping|rate|goodput]...     all of them unless said otherwise

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use narrows_core::{Event, EventSink};
use narrows_linux::{Clock, RunId};
use narrows_live::datapath::{Datapath, Driven};
use narrows_live::{RunHandle, World, reports};
use narrows_scenario::{Draft, HostIndex, LinkIndex, Plan};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, TcpCongestion};

type Failure = Box<dyn std::error::Error>;

/// Bytes that a link counts for a full packet (1500 of IP and an Ethernet
/// header) and, of these, TCP payload with timestamps.
const WIRE: f64 = 1514.0;
const PAYLOAD: f64 = 1448.0;

/// Time between two reads of a receiver.
const READ_EVERY: std::time::Duration = std::time::Duration::from_millis(1);

fn main() -> Result<(), Failure> {
    if !narrows_linux::has_rights() {
        narrows_linux::become_root_of_own_user_namespace()?;
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|a| a == name);
    if wanted("ping") {
        ping()?;
    }
    if wanted("rate") {
        for mbit in [10, 50, 100, 500] {
            rate(mbit)?;
        }
    }
    if wanted("goodput") {
        for (mbit, asked) in [(100, 99.0), (500, 99.0), (1000, 97.0)] {
            goodput(mbit, asked)?;
        }
    }
    Ok(())
}

fn plan(seconds: f64, elements: &str) -> Result<Plan, Failure> {
    let text = format!(
        "version = 1\nname = \"accuracy\"\nduration = \"{}ms\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [{elements}]\ndown = [\"netem delay 10ms\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n",
        seconds * 1e3
    );
    let draft = Draft::read("accuracy.toml", text.as_bytes()).map_err(|r| format!("{r:?}"))?;
    Ok(draft.check().map_err(|r| format!("{r:?}"))?)
}

/// Counts events, and what a link let go.
#[derive(Default)]
struct Count {
    events: u64,
    wire_bytes: u64,
    marks_and_drops: u64,
}

impl EventSink for Count {
    fn record(&mut self, _: narrows_units::Instant, event: Event<'_>) {
        self.events += 1;
        match event {
            Event::Dequeued { wire_bytes, .. } => self.wire_bytes += u64::from(wire_bytes),
            Event::Marked { .. } | Event::Dropped { .. } => self.marks_and_drops += 1,
            _ => {}
        }
    }
}

/// Two hosts with a path between them while `work` goes on.
fn between<T: Send>(
    plan: &Plan,
    work: impl FnOnce(&World, &AtomicBool) -> Result<T, String> + Send,
) -> Result<(T, Driven, f64), Failure> {
    let world = World::build(plan, &RunId::random())?;
    let (first, second) = world.tun(LinkIndex(0));
    let mut path = Datapath::new(plan, 1, &[(first.as_fd(), second.as_fd())])?;
    let over = AtomicBool::new(false);
    let (_reporter, reports) = reports(0);
    let clock = Clock::starting_now();
    let mut sink = Count::default();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| work(&world, &over));
        let before = cpu();
        let driven = path.drive(&clock, &reports, &mut sink, &RunHandle::default());
        let cpu = cpu() - before;
        over.store(true, Ordering::SeqCst);
        let done = work.join().map_err(|_| "the work panicked")??;
        let late = first.dropped()? + second.dropped()?;
        if late > 0 {
            println!("  {late} packets did not fit into a device's queue");
        }
        Ok((done, driven?, cpu))
    })
}

/// Seconds of processor time that this thread has had.
fn cpu() -> f64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}

fn late(driven: &Driven, cpu: f64) -> String {
    let l = driven.lateness;
    let seconds = driven.reached.as_secs_f64();
    format!(
        "late p50 {:.1} p99 {:.0} p99.9 {:.0} max {:.0} µs of {} packets; {:.0}% of a processor",
        l.p50_us,
        l.p99_us,
        l.p999_us,
        l.max_us,
        l.count,
        100.0 * cpu / seconds
    )
}

fn ping() -> Result<(), Failure> {
    let plan = plan(4.0, "\"netem delay 10ms\"")?;
    let (rtts, driven, cpu) = between(&plan, |world, _| {
        let output = world
            .namespace(HostIndex(0))
            .command("ping")
            .args(["-n", "-c", "150", "-i", "0.02"])
            .arg(plan.hosts[1].ipv4.to_string())
            .stderr(Stdio::null())
            .output()
            .map_err(|e| format!("ping: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let time = |line: &str| {
            let (_, rest) = line.split_once("time=")?;
            rest.split(' ').next()?.parse::<f64>().ok()
        };
        Ok(text.lines().filter_map(time).collect::<Vec<_>>())
    })?;
    let mut rtts = rtts;
    rtts.sort_by(f64::total_cmp);
    let at = |q: f64| rtts[((rtts.len() - 1) as f64 * q) as usize];
    println!(
        "ping through 10 ms each way: median {:.3} ms (asked 20.0 to 20.3), min {:.3} p90 {:.3} max {:.3} of {}",
        at(0.5),
        at(0.0),
        at(0.9),
        at(1.0),
        rtts.len()
    );
    println!("  {}", late(&driven, cpu));
    Ok(())
}

/// Datagrams of full size at a tenth more than the link carries, counted by
/// the receiver's clock.
fn rate(mbit: u64) -> Result<(), Failure> {
    // 40 ms of packets, so that the queue is never empty while the sender's thread
    // has no processor.
    let limit = (mbit as f64 * 1e6 * 0.040 / 8.0 / WIRE).ceil();
    let elements = format!("\"rate {mbit}Mbit queue pfifo limit {limit}\"");
    let plan = plan(3.0, &elements)?;
    let to = SocketAddr::from((plan.hosts[1].ipv4, 9_000));
    let (measured, driven, cpu) = between(&plan, |world, over| {
        let inside = |e: narrows_linux::LinuxError| e.to_string();
        let bind = |host: usize, address| {
            world
                .namespace(HostIndex(host))
                .run(|| UdpSocket::bind(address))
                .map_err(inside)?
                .map_err(|e: std::io::Error| e.to_string())
        };
        let receiver = bind(1, to)?;
        let sender = bind(0, SocketAddr::from((plan.hosts[0].ipv4, 0)))?;
        let wait = std::time::Duration::from_millis(200);
        setsockopt(&receiver, RcvBuf, &(4 << 20)).map_err(|e| e.to_string())?;
        receiver
            .set_read_timeout(Some(wait))
            .map_err(|e| e.to_string())?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let packet = [0; 1472];
                let gap = WIRE * 8.0 / (mbit as f64 * 1.1e6);
                let start = Instant::now();
                let mut sent = 0.0;
                while !over.load(Ordering::Relaxed) {
                    while sent * gap < start.elapsed().as_secs_f64() {
                        let _ = sender.send_to(&packet, to);
                        sent += 1.0;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(500));
                }
            });
            // By arrival, once there is a standing queue.
            let mut buffer = [0; 2048];
            let begin = Instant::now();
            let (mut first, mut last, mut count) = (None, begin, 0u64);
            while !over.load(Ordering::Relaxed) {
                if receiver.recv(&mut buffer).is_err() {
                    continue;
                }
                let now = Instant::now();
                if now.duration_since(begin).as_secs_f64() < 0.5 {
                    continue;
                }
                match first {
                    None => first = Some(now),
                    Some(_) => (last, count) = (now, count + 1),
                }
            }
            let span = last.duration_since(first.ok_or("nothing arrived")?);
            Ok(count as f64 * WIRE * 8.0 / span.as_secs_f64() / 1e6)
        })
    })?;
    println!(
        "rate {mbit} Mbit/s: {measured:.3} Mbit/s, {:+.2}% (asked within 0.5%)",
        100.0 * (measured / mbit as f64 - 1.0)
    );
    println!("  {}", late(&driven, cpu));
    Ok(())
}

/// What an application behind the kernel's CUBIC gets, of what the link
/// carries.
fn goodput(mbit: u64, asked: f64) -> Result<(), Failure> {
    let elements = format!("\"rate {mbit}Mbit queue pfifo limit 2000\"");
    let plan = plan(7.0, &elements)?;
    let to = SocketAddr::from((plan.hosts[1].ipv4, 9_000));
    let (measured, driven, cpu) = between(&plan, |world, over| {
        let inside = |e: narrows_linux::LinuxError| e.to_string();
        let text = |e: std::io::Error| e.to_string();
        let listener = world
            .namespace(HostIndex(1))
            .run(|| TcpListener::bind(to))
            .map_err(inside)?
            .map_err(text)?;
        let got = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&got);
        std::thread::spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            let mut buffer = vec![0; 256 << 10];
            // A reader that waits is woken by the path's thread for each packet;
            // one that comes by now and then leaves it alone.
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                counted.fetch_add(n as u64, Ordering::Relaxed);
                std::thread::sleep(READ_EVERY);
            }
        });
        let mut stream = world
            .namespace(HostIndex(0))
            .run(|| TcpStream::connect(to))
            .map_err(inside)?
            .map_err(text)?;
        setsockopt(&stream, TcpCongestion, &OsString::from("cubic"))
            .map_err(|e| format!("cubic: {e}"))?;
        let wait = std::time::Duration::from_millis(300);
        stream.set_write_timeout(Some(wait)).map_err(text)?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let data = vec![0; 256 << 10];
                while !over.load(Ordering::Relaxed) {
                    let _ = stream.write(&data);
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(2500));
            let (from, bytes) = (Instant::now(), got.load(Ordering::Relaxed));
            std::thread::sleep(std::time::Duration::from_millis(4000));
            let bytes = got.load(Ordering::Relaxed) - bytes;
            Ok(bytes as f64 * 8.0 / from.elapsed().as_secs_f64() / 1e6)
        })
    })?;
    let ideal = mbit as f64 * PAYLOAD / WIRE;
    println!(
        "cubic over {mbit} Mbit/s and 20 ms: {measured:.2} of {ideal:.2} Mbit/s, {:.2}% (asked {asked}%)",
        100.0 * measured / ideal
    );
    println!("  {}", late(&driven, cpu));
    Ok(())
}
