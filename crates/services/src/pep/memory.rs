//! How much memory the process may use, and what the kernel's buffers of TCP hold of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Where memory is limited, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// What the process may use, in bytes.
    pub limit: u64,
    /// The statistics of the control group that limits it, if one does.
    group: Option<PathBuf>,
}

impl Memory {
    /// That of the machine, or of the control group that allows least.
    pub fn of_process() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let machine = total(&read("/proc/meminfo")).unwrap_or(u64::MAX);
        Self::least(machine, Path::new(GROUPS), &read("/proc/self/cgroup"))
    }

    /// That of a machine with so many bytes, or of the group below `groups` that allows least: one
    /// of those in `cgroup`, or one above them.
    pub fn least(machine: u64, groups: &Path, cgroup: &str) -> Self {
        let limits = ["", "memory"].into_iter().flat_map(|controller| {
            let (base, file) = version(groups, controller);
            let own = group(cgroup, controller).map(|own| base.join(own));
            let own = own.unwrap_or_else(|| base.clone());
            let all: Vec<_> = own.ancestors().map(Path::to_path_buf).collect();
            let all = all
                .into_iter()
                .take_while(move |path| path.starts_with(&base));
            all.filter_map(move |path| {
                let most = fs::read_to_string(path.join(file)).ok()?;
                Some((most.trim().parse::<u64>().ok()?, path))
            })
        });
        match limits.min() {
            Some((limit, group)) if limit < machine => Self {
                limit,
                group: Some(group),
            },
            _ => Self {
                limit: machine,
                group: None,
            },
        }
    }

    /// Bytes in buffers of TCP: of the control group, or of the whole machine.
    pub fn in_sockets(&self) -> u64 {
        let bytes = match &self.group {
            Some(group) => {
                let stat = fs::read_to_string(group.join("memory.stat"));
                stat.ok().and_then(|stat| of_group(&stat))
            }
            None => {
                let stat = fs::read_to_string("/proc/self/net/sockstat");
                stat.ok().and_then(|stat| of_machine(&stat))
            }
        };
        bytes.unwrap_or(0)
    }
}

/// Bytes of memory, of what is in `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Where below `groups` those of a controller are, and which file limits them: without its name
/// those of version 2, with it those of version 1.
fn version(groups: &Path, controller: &str) -> (PathBuf, &'static str) {
    match controller {
        "" => (groups.into(), "memory.max"),
        name => (groups.join(name), "memory.limit_in_bytes"),
    }
}

/// The process's own group, of what is in `/proc/self/cgroup`.
fn group<'a>(cgroup: &'a str, controller: &str) -> Option<&'a str> {
    let path = cgroup.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        controllers
            .split(',')
            .any(|name| name == controller)
            .then_some(path)
    })?;
    let path = path.trim_start_matches('/');
    // What is outside of the namespace of groups is not seen.
    (!path.starts_with("..")).then_some(path)
}

/// Bytes in sockets' buffers, of a group's `memory.stat`.
fn of_group(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("sock "))?;
    line.trim().parse().ok()
}

/// Bytes in TCP's buffers, of `/proc/net/sockstat`, which counts pages (net/ipv4/proc.c).
fn of_machine(sockstat: &str) -> Option<u64> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = u64::try_from(page.ok()??).ok()?;
    let line = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    let pages: u64 = words.nth(1)?.parse().ok()?;
    Some(pages * page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(
            total("MemTotal:       24627340 kB\nMemFree: 1 kB\n"),
            Some(24_627_340 << 10)
        );
        assert_eq!(total(""), None);
        let both = "4:memory:/a/b\n1:cpu,cpuacct:/y\n0::/system.slice/a.service\n";
        assert_eq!(group(both, ""), Some("system.slice/a.service"));
        assert_eq!(group(both, "memory"), Some("a/b"));
        assert_eq!(group(both, "cpuacct"), Some("y"));
        assert_eq!(group("0::/\n", ""), Some(""));
        assert_eq!(group("0::/../x\n", ""), None);
        assert_eq!(of_group("anon 1\nsock 4096\nshmem 2\n"), Some(4_096));
        assert_eq!(of_group("anon 1\n"), None);
        let sockstat =
            "sockets: used 290\nTCP: inuse 5 orphan 0 tw 0 alloc 6 mem 3\nUDP: inuse 1 mem 9\n";
        let page = of_machine(sockstat).expect("pages");
        assert!(page >= 3 * 4_096 && page % 3 == 0);
    }

    #[test]
    fn the_group_that_allows_least_limits_memory_be_it_the_own_one_or_one_above_it() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().expect("a folder");
        let groups = folder.path();
        let limited = |path: &str, file: &str, limit: &str| {
            fs::create_dir_all(groups.join(path)).expect("made");
            fs::write(groups.join(path).join(file), format!("{limit}\n")).expect("written");
        };
        let least = |cgroup: &str| {
            let Memory { limit, group } = Memory::least(64 * MIB, groups, cgroup);
            let group = group.map(|g| g.strip_prefix(groups).expect("below").to_path_buf());
            (limit, group)
        };
        let of = |path: &str| Some(PathBuf::from(path));
        limited("a/b", "memory.max", "max");
        assert_eq!(least("0::/a/b\n"), (64 * MIB, None), "the machine's");
        limited("a/b", "memory.max", "33554432");
        assert_eq!(least("0::/a/b\n"), (32 * MIB, of("a/b")));
        limited("a", "memory.max", "16777216");
        assert_eq!(least("0::/a/b\n"), (16 * MIB, of("a")), "above it");
        // Of two versions side by side the first has memory where the second does not.
        limited("memory/c", "memory.limit_in_bytes", "8388608");
        assert_eq!(least("4:memory:/c\n0::/a/b\n"), (8 * MIB, of("memory/c")));
        assert_eq!(least("4:memory:/d\n0::/a\n"), (16 * MIB, of("a")));
        limited("a/c", "memory.max", "1048576");
        assert_eq!(least("0::/a/b\n"), (16 * MIB, of("a")), "none beside it");
        limited("a/b", "memory.max", "134217728");
        limited("a", "memory.max", "134217728");
        assert_eq!(least("0::/a/b\n"), (64 * MIB, None), "more than there is");
    }

    #[test]
    fn this_process_has_a_limit_and_sockets_hold_less() {
        let memory = Memory::of_process();
        assert!(
            memory.limit > 64 << 20 && memory.limit < u64::MAX,
            "{memory:?}"
        );
        assert!(memory.in_sockets() < memory.limit);
    }
}
