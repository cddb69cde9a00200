//! The congestion controls in a kernel's tree: the C that the BPF build and the
//! simulator run, with the glue for a kernel that it is compiled into.

use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::changes::CONTROLS_FOLDER;

// NAMES, those of the list; FILES, names and texts of the C.
include!(concat!(env!("OUT_DIR"), "/controls.rs"));

/// The names that `setsockopt(TCP_CONGESTION)` takes in a kernel that has them.
pub fn registered_names() -> Vec<String> {
    NAMES.iter().map(|name| format!("nw_{name}")).collect()
}

/// What goes into a kernel: names and texts of files, in the order of their names.
/// What depends on the tree is not among them.
pub(crate) fn texts() -> impl Iterator<Item = (String, String)> {
    let files = FILES
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    files.chain(made())
}

/// SHA-256, in hexadecimal, of [`texts`].
pub(crate) fn digest() -> String {
    let mut digest = Sha256::new();
    for (name, text) in texts() {
        for part in [name, text] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
    hexadecimal(&digest.finalize())
}

/// Two digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files that the list makes.
fn made() -> Vec<(String, String)> {
    let list: String = NAMES.iter().map(|name| format!(" C({name})")).collect();
    let objects: String = NAMES.iter().map(|name| format!(" nw_{name}.o")).collect();
    let mut made = vec![
        (
            "nw_controls.h".to_owned(),
            format!("/* Made of controls.list. */\n#define NW_CONTROLS(C){list}\n"),
        ),
        (
            "Makefile".to_owned(),
            format!("obj-y := registry.o{objects}\n"),
        ),
    ];
    made.extend(NAMES.iter().map(|name| {
        let text = format!(
            "#define NW_ALGORITHM {name}\n#define NW_HEADER \"{name}.h\"\n#include \"algorithm.c\"\n"
        );
        (format!("nw_{name}.c"), text)
    }));
    made
}

/// Puts all of it into the tree at `root`, with what the glue has to know of it.
///
/// # Errors
/// When a file of the tree cannot be read, or none be written.
pub(crate) fn place(root: &Path) -> io::Result<()> {
    let folder = root.join(CONTROLS_FOLDER);
    fs::create_dir_all(&folder)?;
    for (name, text) in texts() {
        fs::write(folder.join(name), text)?;
    }
    let tcp = fs::read_to_string(root.join("include/net/tcp.h"))?;
    let socket = fs::read_to_string(root.join("include/linux/tcp.h"))?;
    fs::write(folder.join("nw_tree.h"), tree_header(&tcp, &socket))
}

/// What differs between trees, of the texts of include/net/tcp.h and
/// include/linux/tcp.h.
fn tree_header(tcp: &str, socket: &str) -> String {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (tcp, socket) = (flat(tcp), flat(socket));
    let has = |yes: bool| u32::from(yes);
    format!(
        "/* Made of the tree's own text. */\n\
         #define NW_TREE_RECEIVED_CE {}\n\
         #define NW_TREE_TX_START {}\n\
         #define NW_TREE_ACK_FLAGS{}\n",
        has(socket.contains("u32 received_ce;")),
        has(tcp.contains("(*cwnd_event_tx_start)(")),
        if tcp.contains("__tcp_send_ack(struct sock *sk, u32 rcv_nxt, u16 flags)") {
            " , 0"
        } else {
            ""
        },
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_control_of_the_list_is_an_object_and_a_name() {
        let texts: Vec<_> = texts().collect();
        let text = |name: &str| {
            let found = texts.iter().find(|(n, _)| n == name);
            found.unwrap_or_else(|| panic!("{name}")).1.as_str()
        };
        for name in narrows_cc::names() {
            assert!(text("Makefile").contains(&format!(" nw_{name}.o")));
            assert!(text("nw_controls.h").contains(&format!(" C({name})")));
            assert!(text(&format!("nw_{name}.c")).contains(&format!("\"{name}.h\"")));
            assert!(text(&format!("{name}.h")).contains("SPDX"));
            assert!(registered_names().contains(&format!("nw_{name}")));
        }
        assert!(texts.iter().all(|(name, _)| name != "native.h"));
    }

    /// What trees differ in, as in Linux 6.12 and as in 7.3.
    fn tree_headers() -> [String; 2] {
        let old = tree_header("void __tcp_send_ack(struct sock *sk, u32 rcv_nxt);", "");
        let new = tree_header(
            "void (*cwnd_event_tx_start)(struct sock *sk);\n\
             void __tcp_send_ack(struct sock *sk,\n\t\tu32 rcv_nxt, u16 flags);",
            "\tu32\treceived_ce;\t/* marks */",
        );
        [old, new]
    }

    /// All that is built into a kernel, and not only one control: what a tree's compiler
    /// refuses is found here, not after minutes of a build.
    #[test]
    fn every_control_compiles_with_what_is_built_into_a_kernel_around_it() {
        let stubs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stubs");
        for header in tree_headers() {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in texts() {
                fs::write(folder.path().join(name), text).unwrap();
            }
            fs::write(folder.path().join("nw_tree.h"), &header).unwrap();
            let units = NAMES.iter().map(|name| format!("nw_{name}.c"));
            for unit in units.chain(["registry.c".to_owned()]) {
                let compiled = Command::new("cc")
                    .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror"])
                    // Hooks and file operations have arguments that not all use.
                    .args(["-Wno-unused-parameter", "-fsyntax-only", "-I."])
                    .arg("-isystem")
                    .arg(&stubs)
                    .arg(&unit)
                    .current_dir(folder.path())
                    .output()
                    .expect("the tests were built with a C compiler");
                let said = String::from_utf8_lossy(&compiled.stderr);
                assert!(compiled.status.success(), "{unit} with {header}{said}");
            }
        }
    }

    #[test]
    fn what_trees_differ_in_is_read_in_them() {
        let [old, new] = tree_headers();
        assert!(old.contains("RECEIVED_CE 0") && old.contains("TX_START 0"));
        assert!(old.ends_with("#define NW_TREE_ACK_FLAGS\n"));
        assert!(new.contains("RECEIVED_CE 1") && new.contains("TX_START 1"));
        assert!(new.ends_with("#define NW_TREE_ACK_FLAGS , 0\n"));
    }
}
