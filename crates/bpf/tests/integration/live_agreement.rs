//! The kernel's bookkeeping of a connection, recorded on this machine and held
//! against `narrows-tcp`'s.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use narrows_bpf::testkit::Tap;
use narrows_bpf::{BpfError, EcnFlags, Ect1, Trace};
use narrows_cc::ControlSpec;

use crate::recorded::calls::Trace as Kept;
use crate::recorded::packets::{self, Packet};
use crate::rig::path::{Rig, Seen, TcpPacket};
use crate::rig::transfer::{Chosen, Transfer};
use crate::rig::{Path, control, skipped};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));

/// One transfer: what is recorded of it.
struct Scene {
    name: &'static str,
    words: &'static str,
    ecn: EcnFlags,
    path: Path,
    bytes: usize,
    pause: Option<(usize, Duration)>,
    sack: bool,
}

fn scenes() -> Vec<Scene> {
    let ms = Duration::from_millis;
    let path = || Path {
        rate: 10_000_000,
        delay: ms(10),
        queue: ms(60),
        ..Path::default()
    };
    let scene = |name, words, ecn, path, bytes| Scene {
        name,
        words,
        ecn,
        path,
        bytes,
        pause: None,
        sack: true,
    };
    // A loss every hundred packets or so, some of them two together.
    let losses = (1..12).map(|i| 90 * i + i * i % 37).flat_map(|n| {
        let second = (n % 3 == 0).then_some(n + 2);
        [Some(n), second].into_iter().flatten()
    });
    let losses: Vec<u64> = losses.collect();
    let late = (1..25).map(|i| (45 * i, ms(2 + i % 9)));
    vec![
        scene(
            "reno",
            "reno",
            EcnFlags::None,
            Path {
                lose: vec![150, 151, 152, 400],
                ..path()
            },
            1_500_000,
        ),
        scene(
            "cubic-losses",
            "cubic",
            EcnFlags::None,
            Path {
                lose: losses.clone(),
                ..path()
            },
            1_500_000,
        ),
        // The last packets before the application rests are lost.
        Scene {
            pause: Some((200_000, ms(1200))),
            ..scene(
                "cubic-tail",
                "cubic",
                EcnFlags::None,
                Path {
                    lose: vec![146, 147, 148],
                    ..path()
                },
                400_000,
            )
        },
        scene(
            "cubic-classic-ecn",
            "cubic",
            EcnFlags::Classic,
            Path {
                mark: Some(ms(15)),
                lose: vec![500, 503],
                ..path()
            },
            1_000_000,
        ),
        Scene {
            sack: false,
            ..scene(
                "reno-without-sack",
                "reno",
                EcnFlags::None,
                Path {
                    lose: losses.into_iter().step_by(2).collect(),
                    ..path()
                },
                1_000_000,
            )
        },
        Scene {
            pause: Some((700_000, ms(1500))),
            ..scene(
                "prague-timeouts",
                "prague variant 2020",
                EcnFlags::AccEcn,
                Path {
                    lose: vec![120, 121],
                    stalls: vec![(250, ms(500))],
                    holes: vec![(700, ms(600))],
                    ..path()
                },
                1_500_000,
            )
        },
        scene(
            "prague-marks",
            "prague variant 2020",
            EcnFlags::AccEcn,
            Path {
                mark: Some(ms(1)),
                ..path()
            },
            1_500_000,
        ),
        scene(
            "prague-reordering",
            "prague variant 2020",
            EcnFlags::AccEcn,
            Path {
                late: late.collect(),
                mark: Some(ms(20)),
                ..path()
            },
            1_500_000,
        ),
    ]
}

/// Runs the transfer; `None` where the machine cannot record it.
fn record(test: &str, scene: &Scene) -> Option<(Kept, Vec<Packet>, Seen)> {
    let rig = match Rig::start(scene.path.clone()) {
        Ok(rig) => rig,
        Err(why) => {
            skipped(test, &why);
            return None;
        }
    };
    if !scene.sack {
        for host in [&rig.client, &rig.server] {
            host.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_sack", "0"))
                .expect("a namespace of our own");
        }
    }
    let mut loaded = control(test, scene.words, scene.ecn, Trace::Full)?;
    let name = loaded.name().to_owned();
    let index = rig.client.index("tun0");
    let _mark = (scene.ecn != EcnFlags::None)
        .then(|| rig.client.run(|| Ect1::attach(index)))
        .transpose()
        .expect("the host hook attaches");
    let mut tap = match rig.client.run(|| Tap::attach(index)) {
        Ok(tap) => tap,
        Err(why @ BpfError::Kernel { .. }) => {
            skipped(test, &why);
            return None;
        }
        Err(why) => panic!("{why}"),
    };
    let transfer = Transfer {
        server: SERVER,
        bytes: scene.bytes,
        pause: scene.pause,
        client_cc: &name,
        server_cc: &name,
        chosen: Chosen::BeforeListen,
    };
    assert_eq!(transfer.run(&rig).received, scene.bytes);
    let seen = rig.stop();
    std::thread::sleep(Duration::from_millis(100));
    let mut records = Vec::new();
    loaded.poll(|r| records.push(r)).expect("the ring buffer");
    let mut packets = Vec::new();
    tap.poll(|p| packets.push(Packet::from_bytes(&p)))
        .expect("the ring buffer");
    let dropped = (
        loaded.dropped().expect("a counter"),
        tap.dropped().expect("a counter"),
    );
    assert_eq!(dropped, (0, 0));
    records.retain(|r| r.raw.remote_port == 5001);
    packets.retain(|p| TcpPacket::at(&p.bytes).is_some());
    let uname = nix::sys::utsname::uname().expect("the kernel has a name");
    let trace = Kept {
        spec: ControlSpec::parse(scene.words).expect("words"),
        kernel: uname.release().to_string_lossy().into_owned(),
        records,
    };
    Some((trace, packets, seen))
}

/// With `NARROWS_KEEP_TRACES` set to a folder what was recorded is written
/// there: this is how tests/agreement came to be.
#[test]
fn what_narrows_tcp_reckons_of_a_connection_is_what_the_kernel_reckons() {
    let test = "what_narrows_tcp_reckons_of_a_connection_is_what_the_kernel_reckons";
    let keep: Option<OsString> = std::env::var_os("NARROWS_KEEP_TRACES");
    // One recording of them all may be made anew: on a busy machine it may be without a
    // reordering timer that fired and sent nothing, which no packet and no hook shows.
    let mut spare = 1;
    'scenes: for scene in scenes() {
        loop {
            let Some((trace, packets, seen)) = record(test, &scene) else {
                return;
            };
            if let Some(folder) = &keep {
                let file = |kind: &str| {
                    let name = format!("{}.{kind}.gz", scene.name);
                    let file = std::fs::File::create(std::path::Path::new(folder).join(name));
                    file.expect("the folder is there")
                };
                trace.write(file("trace")).expect("written");
                packets::write(&packets, file("packets")).expect("written");
            }
            println!("{}: {seen:?}", scene.name);
            let held = crate::agree::hold(scene.name, &trace, &packets, None);
            if held.differences.is_empty() {
                continue 'scenes;
            }
            assert!(spare > 0, "{held}");
            spare -= 1;
            println!("recorded anew, since this differs: {held}");
        }
    }
}
