//! The changes on small trees with the functions that they edit: the result where the text
//! is as expected, and the error where it is not.

use std::fs;
use std::path::Path;

use narrows_kernel::{Misfit, changes};

/// Files with the functions that the changes name, and hardly more.
const TREE: [(&str, &str); 11] = [
    (
        "arch/um/os-Linux/util.c",
        "#include <os.h>\n\nssize_t os_getrandom(void *buf, size_t len, unsigned int flags)\n{\n\
         \treturn getrandom(buf, len, flags);\n}\n",
    ),
    (
        "drivers/char/random.c",
        "static void _mix_pool_bytes(const void *buf, size_t len)\n{\n\tupdate(buf, len);\n}\n\n\
         void __init random_init_early(const char *line)\n{\n\
         \t_mix_pool_bytes(init_utsname(), sizeof(*(init_utsname())));\n\
         \t_mix_pool_bytes(line, strlen(line));\n}\n",
    ),
    (
        "arch/um/include/linux/time-internal.h",
        "#define TIMER_MULTIPLIER 256\n",
    ),
    (
        "arch/um/kernel/time.c",
        "static u64 timer_read(struct clocksource *cs)\n{\n\tif (may())\n\
         \t\ttime_travel_update_time_rel(TIMER_MULTIPLIER);\n\treturn now();\n}\n",
    ),
    (
        "arch/um/Kconfig",
        "config HZ\n\tint\n\tdefault 100\n\nconfig B\n",
    ),
    (
        "include/net/tcp.h",
        "#define TCP_CONG_NEEDS_ECN\t0x2\n\n\
         static inline bool tcp_ca_needs_ecn(const struct sock *sk)\n{\n\treturn true;\n}\n",
    ),
    (
        "net/ipv4/tcp_cong.c",
        "void tcp_init_congestion_control(struct sock *sk)\n{\n\tINET_ECN_xmit(sk);\n}\n\n\
         void other(struct sock *sk)\n{\n\tINET_ECN_xmit(sk);\n}\n",
    ),
    (
        "net/ipv4/tcp_output.c",
        "static void tcp_ecn_send(struct sock *sk)\n{\n\tif (a)\n\t\tINET_ECN_xmit(sk);\n\
         \telse\n\t\tINET_ECN_xmit(sk);\n}\n",
    ),
    ("fs/hostfs/hostfs_user.c", ""),
    (
        "arch/x86/um/user-offsets.c",
        "\tDEFINE_LONGS(HOST_FP_SIZE, 2696);\n",
    ),
    ("net/ipv4/Makefile", "obj-y := tcp.o\n"),
];

/// The functions of hostfs that write, each with a call that does.
const WRITERS: [(&str, &str); 12] = [
    ("open_file", "open64(path, mode)"),
    ("write_file", "pwrite64(fd, buf, len, at)"),
    ("file_create", "open64(name, mode)"),
    ("set_attr", "chmod(file, mode)"),
    ("make_symlink", "symlink(to, from)"),
    ("unlink_file", "unlink(file)"),
    ("do_mkdir", "mkdir(file, mode)"),
    ("hostfs_do_rmdir", "rmdir(file)"),
    ("do_mknod", "mknod(file, mode, dev)"),
    ("link_file", "link(to, from)"),
    ("rename_file", "rename(from, to)"),
    ("rename2_file", "syscall(SYS_renameat2, from, to)"),
];

fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in TREE {
        write(root.path(), name, text);
    }
    let hostfs = WRITERS.map(|(name, call)| {
        format!("int {name}(int w)\n{{\n\tint n;\n\n\tn = {call};\n\treturn n;\n}}\n\n")
    });
    write(root.path(), "fs/hostfs/hostfs_user.c", &hostfs.concat());
    root
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap()
}

/// Makes all changes; the names of those that had to be made, or the first refusal.
fn make(root: &Path) -> Result<Vec<&'static str>, Misfit> {
    let mut made = Vec::new();
    for change in changes() {
        if change.make(root)? {
            made.push(change.name);
        }
    }
    Ok(made)
}

/// What is said of the tree whose file `name` has `to` where `from` was.
fn said(name: &str, from: &str, to: &str) -> String {
    let root = tree();
    let text = read(root.path(), name);
    assert!(text.contains(from), "{name}: {from}");
    write(root.path(), name, &text.replace(from, to));
    make(root.path()).unwrap_err().to_string()
}

#[test]
fn a_tree_of_the_expected_kind_gets_every_change() {
    let root = tree();
    let made = make(root.path()).unwrap();
    let all: Vec<_> = changes().iter().map(|change| change.name).collect();
    assert_eq!(made, all);
    let read = |name| read(root.path(), name);
    let util = read("arch/um/os-Linux/util.c");
    assert!(util.contains("__uml_setup(\"narrows_seed=\"") && !util.contains("return getrandom"));
    let random = read("drivers/char/random.c");
    let sealed = random.find("narrows_sealed = true").unwrap();
    assert!(sealed < random.find("init_utsname").unwrap());
    let time = read("arch/um/kernel/time.c");
    assert!(time.contains("time_travel_update_time_rel(narrows_read_cost())"));
    assert!(read("arch/um/Kconfig").contains("config HZ\n\tint\n\tdefault 1000\n"));
    assert!(read("include/net/tcp.h").contains("TCP_CONG_NW_ECT_1"));
    let control = read("net/ipv4/tcp_cong.c");
    assert_eq!(control.matches("nw_ecn_xmit(sk)").count(), 1);
    assert_eq!(
        control.matches("INET_ECN_xmit(sk)").count(),
        1,
        "of other()"
    );
    let output = read("net/ipv4/tcp_output.c");
    assert_eq!(output.matches("nw_ecn_xmit(sk)").count(), 2);
    let hostfs = read("fs/hostfs/hostfs_user.c");
    assert_eq!(hostfs.matches("return -EROFS;").count(), WRITERS.len());
    assert!(read("net/ipv4/Makefile").ends_with("obj-y += narrows/\n"));
}

#[test]
fn what_a_tree_has_already_is_left_as_it_is() {
    let root = tree();
    write(
        root.path(),
        "arch/um/Kconfig",
        "config HZ\n\tint\n\tdefault 1000\n",
    );
    write(root.path(), "arch/x86/um/user-offsets.c", "\n");
    let made = make(root.path()).unwrap();
    assert!(!made.contains(&"tick") && !made.contains(&"floating-point state"));
}

#[test]
fn each_change_refuses_a_tree_that_is_different_and_says_what_it_looked_for() {
    insta::assert_snapshot!(
        said("arch/um/os-Linux/util.c", "return getrandom(buf, len, flags);", "return 0;"),
        @"this tree cannot take the change `seeded randomness`: arch/um/os-Linux/util.c: os_getrandom() has no `return getrandom(buf, len, flags);`"
    );
    insta::assert_snapshot!(
        said("drivers/char/random.c", "_mix_pool_bytes(const", "_mix_pool(const"),
        @"this tree cannot take the change `seeded randomness`: drivers/char/random.c: it has no function _mix_pool_bytes()"
    );
    insta::assert_snapshot!(
        said("arch/um/kernel/time.c", "TIMER_MULTIPLIER", "COST"),
        @"this tree cannot take the change `clock`: arch/um/kernel/time.c: timer_read() has no `time_travel_update_time_rel(TIMER_MULTIPLIER);`"
    );
    insta::assert_snapshot!(
        said("net/ipv4/tcp_output.c", "INET_ECN_xmit(sk);", "mark(sk);"),
        @"this tree cannot take the change `ECT(1)`: net/ipv4/tcp_output.c: tcp_ecn_send() has no `INET_ECN_xmit(sk);`"
    );
    insta::assert_snapshot!(
        said("arch/x86/um/user-offsets.c", "2696", "4096"),
        @"this tree cannot take the change `floating-point state`: arch/x86/um/user-offsets.c: it has no `DEFINE_LONGS(HOST_FP_SIZE, 2696)`"
    );
}

#[test]
fn a_host_that_could_be_written_in_an_unknown_way_is_refused() {
    insta::assert_snapshot!(
        said("fs/hostfs/hostfs_user.c", "int write_file(int w)", "int copy_file(int w)"),
        @"this tree cannot take the change `read-only host`: fs/hostfs/hostfs_user.c: it has no function write_file()"
    );
    let root = tree();
    let name = "fs/hostfs/hostfs_user.c";
    let more = "int zero_file(int fd)\n{\n\tint n;\n\n\tn = fallocate(fd);\n\treturn n;\n}\n";
    let text = read(root.path(), name) + more;
    write(root.path(), name, &text);
    insta::assert_snapshot!(
        make(root.path()).unwrap_err(),
        @"this tree cannot take the change `read-only host`: fs/hostfs/hostfs_user.c: it calls `fallocate(` where no tree that was tried does"
    );
}
