//! Machines of QEMU: their arguments, and that none outlives this process.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use narrows_results::Error;

use super::image::Image;
use super::line::{Line, Role};
use super::orders::DEVICES;
use super::seed::hardware_addresses;
use super::{CONTROL, PORT};

/// The program. Machines are of the architecture that this one has been tried on.
const QEMU: &str = "qemu-system-x86_64";

/// What the kernel of a disk without a boot loader is given. Where QEMU runs the instructions of four machines
/// on few processors, a kernel may find that its timer does not work, and a service may take minutes to
/// start. A kernel that panics is to end its machine and not to stand still. Nothing runs in a machine that its
/// kernel has to be guarded against.
const KERNEL_WORDS: &str = "root=LABEL=root rw console=ttyS0 quiet no_timer_check panic=1 mitigations=off \
    systemd.show_status=false systemd.default_timeout_start_sec=900s";

/// What runs the machines' instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypervisor {
    /// The processor, by the kernel's KVM.
    Kvm,
    /// QEMU itself (TCG), some ten times slower.
    Tcg,
}

impl Hypervisor {
    /// KVM where this user may use it and the processor has its instructions; otherwise TCG.
    ///
    /// A processor says so (`vmx`, `svm`). Some virtual machines have `/dev/kvm` without: theirs runs
    /// kernels that were built for it alone, and Debian's stand still in it.
    pub fn usable() -> Self {
        let opened = File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok();
        let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        match opened && can_virtualise(&flags) {
            true => Self::Kvm,
            false => Self::Tcg,
        }
    }

    /// Its name in QEMU.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Whether the flags of a processor in `/proc/cpuinfo` have those of virtual machines.
fn can_virtualise(cpuinfo: &str) -> bool {
    let mut lines = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    let has = |line: &str| {
        line.split_whitespace()
            .any(|flag| matches!(flag, "vmx" | "svm"))
    };
    lines.any(has)
}

/// A machine that runs. Dropping it ends it, and so does the end of this process by whatever cause.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) role: Role,
    child: Child,
    /// Where its webhook is asked.
    pub(super) address: SocketAddr,
    /// What it writes to its console.
    pub(super) console: PathBuf,
    said: PathBuf,
}

/// What a machine is started with.
pub(super) struct Start<'a> {
    pub(super) line: &'a Line,
    pub(super) image: &'a Image,
    pub(super) hypervisor: Hypervisor,
    /// Its memory, in MiB.
    pub(super) memory_mib: u32,
    /// The folder of sockets, seeds and consoles.
    pub(super) folder: &'a Path,
}

/// Where the seed of a role is in the folder of a testbed.
pub(super) fn seed_file(folder: &Path, role: Role) -> PathBuf {
    folder.join(format!("{role}.seed"))
}

impl Start<'_> {
    /// Starts the machine at a place of the line.
    pub(super) fn machine(&self, place: usize) -> Result<Running, Error> {
        let role = self.line.places[place].role;
        let engine = |e: io::Error| Error::Engine(format!("the machine {role}: {e}"));
        let address = free_address().map_err(engine)?;
        let console = self.folder.join(format!("{role}.console"));
        let said = self.folder.join(format!("{role}.qemu"));
        let errors = File::create(&said).map_err(engine)?;
        let mut command = Command::new("setpriv");
        // The kernel ends the machine when this process ends (prctl(2), PR_SET_PDEATHSIG).
        command.args(["--pdeathsig", "KILL", "--", QEMU]);
        command.args(self.arguments(place, address));
        // Ctrl-C is for this process, which then ends its machines.
        command.process_group(0).env("TMPDIR", self.folder);
        let outputs = (errors.try_clone().map_err(engine)?, errors);
        command
            .stdin(Stdio::null())
            .stdout(outputs.0)
            .stderr(outputs.1);
        let child = command.spawn().map_err(|error| {
            Error::Engine(format!(
                "setpriv, which ends machines with this process, cannot be run: {error}"
            ))
        })?;
        Ok(Running {
            role,
            child,
            address,
            console,
            said,
        })
    }

    fn arguments(&self, place: usize, address: SocketAddr) -> Vec<OsString> {
        let role = self.line.places[place].role;
        let [control, near, far] = hardware_addresses(place);
        let mut all: Vec<OsString> = Vec::new();
        let mut add = |key: &str, value: OsString| all.extend([OsString::from(key), value]);
        // KVM in virtual machines may refuse to write what these are read from.
        let processor = match self.hypervisor {
            Hypervisor::Kvm => "host,arch-capabilities=off",
            Hypervisor::Tcg => "max",
        };
        add("-name", format!("narrows-{role}").into());
        add(
            "-machine",
            format!("q35,accel={}", self.hypervisor.word()).into(),
        );
        add("-cpu", processor.into());
        add("-smp", "1".into());
        add("-m", format!("{}M", self.memory_mib).into());
        add("-display", "none".into());
        add("-monitor", "none".into());
        add(
            "-serial",
            joined(
                "file:",
                self.folder.join(format!("{role}.console")).as_os_str(),
            ),
        );
        // Started by no user who may do what this one may not.
        add(
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into(),
        );
        if let Some((kernel, initrd)) = &self.image.kernel {
            add("-kernel", kernel.into());
            add("-initrd", initrd.into());
            add("-append", KERNEL_WORDS.into());
        }
        // What is written to the disk is gone with the machine.
        let disk = format!("if=virtio,snapshot=on,format={},file=", self.image.format);
        add("-drive", joined(&disk, self.image.disk.as_os_str()));
        let seed = seed_file(self.folder, role);
        add(
            "-drive",
            joined("if=virtio,readonly=on,format=raw,file=", seed.as_os_str()),
        );
        let octets = CONTROL.octets();
        let host = Ipv4Addr::new(octets[0], octets[1], octets[2], 2);
        add(
            "-netdev",
            format!(
                "user,id=control,net={CONTROL}/24,host={host},ipv6=off,restrict=on,\
                 hostfwd=tcp:{address}-{CONTROL}:{PORT}"
            )
            .into(),
        );
        add(
            "-device",
            format!("virtio-net-pci,romfile=,netdev=control,mac={control}").into(),
        );
        let last = self.line.places.len() - 1;
        for (device, mac, wire, first) in [
            (DEVICES[0], near, place.checked_sub(1), false),
            (DEVICES[1], far, Some(place).filter(|at| *at < last), true),
        ] {
            let Some(wire) = wire else { continue };
            let ends =
                [true, false].map(|end| self.folder.join(format!("wire{wire}{}", end as u8)));
            let [own, other] = match first {
                true => [&ends[0], &ends[1]],
                false => [&ends[1], &ends[0]],
            };
            let mut netdev = joined(
                &format!("dgram,id={device},local.type=unix,remote.type=unix,local.path="),
                own.as_os_str(),
            );
            netdev.push(joined(",remote.path=", other.as_os_str()));
            add("-netdev", netdev);
            add(
                "-device",
                format!("virtio-net-pci,romfile=,netdev={device},mac={mac}").into(),
            );
        }
        all.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        all
    }
}

/// A value of QEMU's after `before`: commas in it are written twice.
fn joined(before: &str, path: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = before.as_bytes().to_vec();
    for byte in path.as_bytes() {
        bytes.push(*byte);
        if *byte == b',' {
            bytes.push(b',');
        }
    }
    OsString::from_vec(bytes)
}

/// A loopback address with a port that nobody has at the moment.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

impl Running {
    /// Why it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<Error> {
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let hint = match status.contains("127") {
            true => " (apt-get install qemu-system-x86)",
            false => "",
        };
        Some(Error::Engine(format!(
            "the machine {} ended: {status}{hint}: {}",
            self.role,
            on_a_line(&said)
        )))
    }

    /// The last lines of its console.
    pub(super) fn last_lines(&self) -> String {
        let text = fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        let lines: Vec<_> = lines.into_iter().rev().map(on_a_line).collect();
        lines.join(" | ")
    }
}

/// A text of others without what a terminal would obey.
fn on_a_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(plain).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_virtual_machines_if_its_flags_say_so() {
        let flags =
            |flags: &str| format!("processor\t: 0\nflags\t\t: fpu {flags} sse2\nbugs\t: svm\n");
        assert!(can_virtualise(&flags("vmx")));
        assert!(can_virtualise(&flags("svm")));
        assert!(!can_virtualise(&flags("hypervisor vmx_flags")));
    }

    #[test]
    fn a_comma_in_a_path_ends_no_value() {
        let joined = joined("file=", OsStr::new("/tmp/a,readonly=off"));
        assert_eq!(joined, "file=/tmp/a,,readonly=off");
    }
}
