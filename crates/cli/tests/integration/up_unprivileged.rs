//! Topologies of a user without any rights, in a user namespace. Run by root, which makes such a
//! user.

use std::process::Output;

use narrows_linux::machine::Need;

use crate::machine_rig::{Stage, has, text};
use crate::up::PAIR;

/// A TUN file that all may open, for this mount namespace alone.
const TUN: &str = "mknod tun c 10 200; chmod 666 tun; mount --bind tun /dev/net/tun";

/// Runs `script` as root of a stage with `lab.toml`; `None` where `test` cannot run.
fn as_user(test: &str, script: &str) -> Option<(Stage, Output)> {
    if !has(test, &[Need::Live]) {
        return None;
    }
    let stage = Stage::set();
    stage.write("lab.toml", PAIR);
    let script = format!("{TUN}; {script}");
    let tools = ["unshare", "mount", "mknod", "setpriv"];
    let output = stage.run_or_skip(test, &script, &tools)?;
    let said = text(&output.stderr);
    if said.contains("lets no user make a user namespace") {
        eprintln!("skipped: {test}: {}", said.trim_end());
        return None;
    }
    Some((stage, output))
}

#[test]
fn a_user_without_rights_has_topologies_of_its_own() {
    let script = "$NOBODY ./narrows up lab.toml; \
                  $NOBODY ./narrows enter client -- getent hosts server; \
                  $NOBODY ./narrows enter client -- sh -c 'id -u; cat /proc/net/dev | wc -l'; \
                  $NOBODY ./narrows status; $NOBODY ./narrows down; $NOBODY ./narrows status";
    let Some((stage, output)) = as_user("a user's topology", script) else {
        return;
    };
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    // The address by its name, the user's own number, two devices below two lines of head.
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines
            .iter()
            .any(|l| l.contains("server") && l.contains("pair-server")),
        "{said}"
    );
    assert!(lines.windows(2).any(|w| w == ["65534", "4"]), "{said}");
    assert!(
        said.ends_with("pair is down\nno topology is up\n"),
        "{said}"
    );
    assert_eq!(stage.left(&["lab.toml", "tun"]), Vec::<String>::new());
}

#[test]
fn folders_that_are_links_or_another_users_are_not_used() {
    let script = "mkdir -m 777 own target; ln -s $PWD/target own/narrows; \
                  ln -s $PWD/target $TMPDIR/narrows-65534; \
                  export XDG_RUNTIME_DIR=$PWD/own; \
                  if $NOBODY ./narrows up lab.toml; then echo up; fi; ls target; \
                  rm own/narrows $TMPDIR/narrows-65534; mkdir -m 777 own/narrows; \
                  if $NOBODY ./narrows up lab.toml; then \
                    ls own/narrows; $NOBODY ./narrows down; else echo no; fi";
    let Some((_stage, output)) = as_user("folders of others", script) else {
        return;
    };
    // First there is no place at all, then there is that for temporary files.
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(
        complained.contains("narrows-65534 is not this user's own directory"),
        "{complained}"
    );
    assert!(said.ends_with("pair is down\n"), "{said}{complained}");
    let folders = said
        .lines()
        .filter(|l| l.contains(".topology") || *l == "up");
    assert_eq!(folders.count(), 0, "{said}");
}
