//! `packaging/cluster/slurm.sh` in a Slurm of one node, which the test starts.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::cluster::{assert_merged, command, file, place};
use crate::program::ended;

/// Looks for a node that is idle, one every 100 ms.
const LOOKS: usize = 600;

/// Programs that end with the test.
struct Daemons(Vec<Child>);

impl Daemons {
    fn start(&mut self, at: &Path, words: &[&str]) {
        let mut daemon = command(at, words);
        let log = fs::File::create(at.join(format!("{}.out", words[0]))).expect("a file");
        daemon
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.0.push(daemon.spawn().expect("it starts"));
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for daemon in self.0.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Why there can be no Slurm here.
fn missing() -> Option<String> {
    let programs = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo"];
    let found = |name: &&str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).exists())
    };
    if let Some(name) = programs.iter().find(|name| !found(name)) {
        return Some(format!(
            "no {name} (apt-get install slurmctld slurmd slurm-client munge)"
        ));
    }
    let root = nix::unistd::geteuid().is_root();
    (!root).then(|| "slurmd starts jobs as root".to_owned())
}

#[test]
fn a_real_slurm_runs_the_array_and_merges_its_shards() {
    if let Some(why) = missing() {
        eprintln!("skipped: a_real_slurm_runs_the_array_and_merges_its_shards: {why}");
        return;
    }
    let at = place();
    let slurm = tempfile::tempdir().expect("a folder");
    let here = slurm.path();
    let folder = here.to_str().expect("UTF-8");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().expect("a name");
    // Both are held until both are known, so that they differ.
    let ports = [0; 2].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a port"));
    let [control, node] = ports
        .each_ref()
        .map(|p| p.local_addr().expect("it is bound").port());
    drop(ports);
    for name in ["state", "spool"] {
        fs::create_dir(here.join(name)).expect("a folder");
    }
    let key = here.join("key");
    fs::write(&key, [7; 1024]).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    let conf = here.join("slurm.conf");
    let text = format!(
        "ClusterName=narrows\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\n\
        SlurmdPort={node}\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
        AuthInfo=socket={folder}/munge\nCredType=cred/munge\nStateSaveLocation={folder}/state\n\
        SlurmdSpoolDir={folder}/spool\nSlurmctldPidFile={folder}/slurmctld.pid\n\
        SlurmdPidFile={folder}/slurmd.pid\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
        MpiDefault=none\nReturnToService=2\n\
        NodeName={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory=2048 State=UNKNOWN\n\
        PartitionName=all Nodes=ALL Default=YES State=UP\n"
    );
    fs::write(&conf, text).expect("a file");
    let of_folder = |option: &str, name: &str| format!("--{option}={folder}/{name}");
    let munge = [
        of_folder("key-file", "key"),
        of_folder("socket", "munge"),
        of_folder("pid-file", "munged.pid"),
        of_folder("log-file", "munged.log"),
        of_folder("seed-file", "seed"),
    ];
    let munge: Vec<&str> = munge.iter().map(String::as_str).collect();
    let conf = conf.to_str().expect("UTF-8");
    let mut daemons = Daemons(Vec::new());
    daemons.start(
        here,
        &[&["munged", "--foreground", "--force"][..], &munge].concat(),
    );
    daemons.start(here, &["slurmctld", "-D", "-f", conf]);
    daemons.start(here, &["slurmd", "-D", "-f", conf]);
    let of_slurm = |words: &[&str]| -> Command {
        let mut one = command(at.path(), &[&["timeout", "120"][..], words].concat());
        one.env("SLURM_CONF", conf).env("CAMPAIGN", "mine.toml");
        one
    };
    let idle = (0..LOOKS).any(|_| {
        sleep(Duration::from_millis(100));
        let said = of_slurm(&["sinfo", "-h", "-o", "%T"])
            .output()
            .expect("sinfo");
        said.stdout.trim_ascii() == b"idle"
    });
    let logs = || -> String {
        let names = ["munged.out", "slurmctld.out", "slurmd.out"];
        let read = |name| fs::read_to_string(here.join(name)).unwrap_or_default();
        names.map(read).join("\n")
    };
    assert!(idle, "no node is idle: {}", logs());

    let submit = |words: &[&str]| {
        let wait = ["sbatch", "--wait", "--cpus-per-task=1"];
        of_slurm(&[&wait[..], words].concat())
            .output()
            .expect("sbatch")
    };
    let path = |name: &str| file(name).to_str().expect("UTF-8").to_owned();
    let (array, merge) = (path("slurm.sh"), path("slurm-merge.sh"));
    // There is no store yet: the status of a script is that of its job.
    ended(&submit(&[&merge]), 2);
    ended(&submit(&["--array=1-3", &array]), 0);
    ended(&submit(&[&merge]), 0);
    assert_merged(at.path(), &at.path().join("merged"));
}
