//! The units of `packaging/` under a systemd that runs, in a container of its own: socket
//! activation, notify, reload, watchdog, drain.
//!
//! `NARROWS_SYSTEMD_TREE` names a tree with systemd, of a release whose C library is not older than
//! this machine's: `mmdebstrap --variant=apt --include=systemd,dbus,iproute2 bookworm DIR`. It is not
//! changed.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;

use crate::NARROWS;

/// What is done inside; each line of `steps` is one that was reached.
const CHECK: &str = r#"
exec >/check/log 2>&1
set -x
step() { echo "$*" >>/check/steps; }
ip link set lo up
ip addr add 10.0.0.1/24 dev lo
perl -MIO::Socket::INET -e '
    my $l = IO::Socket::INET->new(Listen => 9, LocalAddr => "10.0.0.1", LocalPort => 80, ReuseAddr => 1) or die;
    $SIG{CHLD} = "IGNORE";
    while (my $c = $l->accept) { next if fork; while (<$c>) { print $c $_; $c->flush; } exit; }' &
# Asks for 10.0.0.1, port 80; says a word for each line of its input, and what came back.
cat >/tmp/ask <<'END'
use IO::Socket::INET;
my $s = IO::Socket::INET->new(PeerHost => '10.0.0.1', PeerPort => 8803, Timeout => 20) or die "no: $@";
$s->autoflush(1);
print $s pack('C*', 1, 6, 0x22, 0x63, 10, 5, 0, 80, (0) x 10, 255, 255, 10, 0, 0, 1);
read($s, my $answer, 4) == 4 or die 'no answer';
$| = 1;
while (<STDIN>) { print $s $_; print scalar <$s>; }
END
ask() { echo "$1" | timeout 20 perl /tmp/ask; }
systemctl start narrows-pep.socket
[ "$(systemctl is-active narrows-pep.service)" = inactive ] && step 'only the socket'
[ "$(ask hello)" = hello ] && step 'activated by a client'
[ "$(systemctl is-active narrows-pep.service)" = active ] && step 'said that it is ready'
pid=$(systemctl show -p MainPID --value narrows-pep.service)
[ "$(awk '/^Uid:/ { print $2 }' /proc/$pid/status)" != 0 ] && step 'not root'
ulimit=$(awk '/^Max open files/ { print $4 }' /proc/$pid/limits)
# As many as the unit says, or as this machine gives anybody.
{ [ "$ulimit" -ge 131254 ] || [ "$ulimit" = "$(ulimit -Hn)" ]; } && step 'descriptors'
mkfifo /tmp/words
perl /tmp/ask </tmp/words >/tmp/received &
exec 8>/tmp/words
echo one >&8
sed -i 's/^drain.*/drain = "21s"/' /etc/narrows/pep.toml
systemctl reload narrows-pep.service
said() { journalctl -u narrows-pep.service --no-pager | grep -q "$1"; }
for _ in $(seq 100); do said '"reloaded"' && break; sleep 0.1; done
said '"reloaded"' && step 'reloaded'
[ "$(systemctl show -p MainPID --value narrows-pep.service)" = "$pid" ] && step 'the same process'
echo two >&8
for _ in $(seq 100); do grep -q two /tmp/received && break; sleep 0.1; done
grep -q two /tmp/received && step 'no tunnel was lost'
systemctl stop narrows-pep.service 8>&- &
for _ in $(seq 100); do [ "$(systemctl is-active narrows-pep.service)" = deactivating ] && break; sleep 0.1; done
echo three >&8
for _ in $(seq 100); do grep -q three /tmp/received && break; sleep 0.1; done
grep -q three /tmp/received && step 'served while it drains'
exec 8>&-
wait %2 %3
[ "$(systemctl show -p Result --value narrows-pep.service)" = success ] && step 'drained'
cp /etc/narrows/pep.toml /tmp/good.toml
echo nonsense >>/etc/narrows/pep.toml
systemctl start narrows-pep.service || step 'not started before it is ready'
systemctl stop narrows-pep.service
systemctl reset-failed narrows-pep.service
cat /tmp/good.toml >/etc/narrows/pep.toml
[ "$(ask again)" = again ] && step 'the next one serves'
pid=$(systemctl show -p MainPID --value narrows-pep.service)
kill -STOP "$pid"
for _ in $(seq 300); do
    now=$(systemctl show -p MainPID --value narrows-pep.service)
    [ "$now" != "$pid" ] && [ "$now" != 0 ] && break
    sleep 0.1
done
[ "$now" != "$pid" ] && [ "$now" != 0 ] && step 'the watchdog has it started again'
[ "$(ask third)" = third ] && step 'and it serves'
journalctl -u narrows-pep.service --no-pager | tail -40
"#;

const STEPS: [&str; 14] = [
    "only the socket",
    "activated by a client",
    "said that it is ready",
    "not root",
    "descriptors",
    "reloaded",
    "the same process",
    "no tunnel was lost",
    "served while it drains",
    "drained",
    "not started before it is ready",
    "the next one serves",
    "the watchdog has it started again",
    "and it serves",
];

#[test]
fn the_units_do_under_systemd_what_they_say() {
    let test = "the_units_do_under_systemd_what_they_say";
    let skipped = |why: &str| eprintln!("skipped: {test}: {why}");
    let Some(tree) = env::var_os("NARROWS_SYSTEMD_TREE") else {
        return skipped("NARROWS_SYSTEMD_TREE names no tree with systemd (docs/pep.md)");
    };
    if !geteuid().is_root() {
        return skipped("not root");
    }
    let here = Command::new("systemd-nspawn").arg("--version").output();
    if here.is_err() {
        return skipped("there is no systemd-nspawn (systemd-container)");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let write = |name: &str, text: &str| fs::write(at.join(name), text).expect("written");
    write("run", CHECK);
    write("steps", "");
    write(
        "check.service",
        "[Unit]\nRequires=basic.target dbus.socket\nAfter=basic.target dbus.socket\n\
         SuccessAction=poweroff-force\nFailureAction=poweroff-force\n\
         [Service]\nType=oneshot\nTimeoutStartSec=180\nExecStart=/bin/sh /check/run\n",
    );
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let unit = |name: &str| fs::read_to_string(packaging.join(name)).expect("a unit");
    // As it is, but for how long a watchdog waits.
    let service = unit("narrows-pep.service").replace("WatchdogSec=30", "WatchdogSec=2");
    write("narrows-pep.service", &service);
    write("narrows-pep.socket", &unit("narrows-pep.socket"));
    let config = unit("pep.toml").replace("\"0.0.0.0/0 ports 80-443\"", "\"10.0.0.1 port 80\"");
    let (head, listener) = config.split_once("[[listener]]").expect("one");
    let config = format!("{head}drain = \"20s\"\n[[listener]]{listener}");
    fs::create_dir(at.join("narrows")).expect("a folder");
    write("narrows/pep.toml", &config);
    let bind = |from: &str, to: &str| format!("--bind={}:{to}", at.join(from).display());
    let system = "/etc/systemd/system";
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "5",
        "300",
        "systemd-nspawn",
        "--quiet",
        "--register=no",
    ]);
    command.args([
        "--keep-unit",
        "--private-network",
        "--volatile=overlay",
        "--boot",
    ]);
    command.arg("--directory").arg(&tree);
    command.arg(format!("--bind-ro={NARROWS}:/usr/local/bin/narrows"));
    command.arg(bind("", "/check"));
    command.arg(bind("narrows", "/etc/narrows"));
    for name in ["check.service", "narrows-pep.service", "narrows-pep.socket"] {
        command.arg(bind(name, &format!("{system}/{name}")));
    }
    command.args(["systemd.unit=check.service", "systemd.show_status=0"]);
    let output = command.output().expect("it starts");
    let steps = fs::read_to_string(at.join("steps")).expect("steps");
    let log = fs::read_to_string(at.join("log")).unwrap_or_default();
    let boot = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!log.is_empty(), "no systemd ran in the container: {boot}");
    let steps: Vec<_> = steps.lines().collect();
    assert_eq!(steps, STEPS, "{log}");
}
