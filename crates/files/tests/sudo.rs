//! Who owns what is made under sudo, and what stays as it was.
#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use narrows_files as files;

/// `nobody` and its group.
const CALLER: u32 = 65534;

/// Calls `test` as if nobody had called this program by sudo: in a process of its own, as the
/// environment is the process's.
fn under_sudo(name: &str, test: impl FnOnce(&Path)) {
    const WITHIN: &str = "NARROWS_TEST_WITHIN";
    let folder = tempfile::tempdir().expect("a folder");
    if fs::metadata(folder.path()).expect("it is there").uid() != 0 {
        eprintln!("skipped: {name}: not root");
        return;
    }
    if std::env::var_os(WITHIN).is_some() {
        // Where its way may be gone by anybody.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("root may");
        return test(folder.path());
    }
    let program = std::env::current_exe().expect("this program");
    let within = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(WITHIN, "1")
        .env("SUDO_UID", CALLER.to_string())
        .env("SUDO_GID", CALLER.to_string())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&within.stdout);
    assert!(within.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// The owner and the group, of a link itself.
fn owner(path: impl AsRef<Path>) -> (u32, u32) {
    let found = fs::symlink_metadata(path.as_ref()).expect("it is there");
    (found.uid(), found.gid())
}

#[test]
fn what_is_made_under_sudo_is_the_callers() {
    under_sudo("what_is_made_under_sudo_is_the_callers", |root| {
        for (place, of) in [("own", CALLER), ("roots", 0)] {
            let folder = root.join(place);
            fs::create_dir(&folder).unwrap();
            chown(&folder, Some(of), Some(of)).unwrap();
            files::create_dir_all(folder.join("a/b")).unwrap();
            files::write(folder.join("a/file"), "1").unwrap();
            files::create_new(folder.join("new")).unwrap();
            files::append(folder.join("more")).unwrap();
            files::copy(folder.join("a/file"), folder.join("copy")).unwrap();
            files::symlink("a", folder.join("latest")).unwrap();
            for name in ["a", "a/b", "a/file", "new", "more", "copy", "latest"] {
                assert_eq!(owner(folder.join(name)), (CALLER, CALLER), "{place}/{name}");
            }
            assert_eq!(owner(&folder), (of, of));
        }
        // The thread is root's again.
        fs::write(root.join("plain"), "").unwrap();
        assert_eq!(owner(root.join("plain")), (0, 0));
    });
}

#[test]
fn what_was_there_keeps_its_owner_and_nothing_behind_a_link_is_given_away() {
    let name = "what_was_there_keeps_its_owner_and_nothing_behind_a_link_is_given_away";
    under_sudo(name, |root| {
        let folder = root.join("own");
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(CALLER), Some(CALLER)).unwrap();
        let secret = root.join("secret");
        fs::write(&secret, "long before").unwrap();
        fs::write(folder.join("kept"), "before").unwrap();
        fs::create_dir(folder.join("results")).unwrap();
        symlink(&secret, folder.join("link")).unwrap();
        symlink(root, folder.join("away")).unwrap();
        files::write(folder.join("kept"), "after").unwrap();
        files::write(folder.join("link"), "after").unwrap();
        files::append(folder.join("kept")).unwrap();
        files::create_dir_all(folder.join("results")).unwrap();
        files::create_dir_all(folder.join("away")).unwrap();
        assert!(files::create_new(folder.join("link")).is_err());
        assert!(files::create_dir(folder.join("link")).is_err());
        for path in [
            folder.join("kept"),
            folder.join("results"),
            folder.join("link"),
        ] {
            assert_eq!(owner(&path), (0, 0), "{path:?}");
        }
        assert_eq!((owner(&secret), owner(root)), ((0, 0), (0, 0)));
        // As the functions of std::fs do.
        assert_eq!(fs::read_to_string(folder.join("kept")).unwrap(), "after");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "after");
    });
}

#[test]
fn what_writes_by_itself_is_the_callers_where_that_user_may_write() {
    let name = "what_writes_by_itself_is_the_callers_where_that_user_may_write";
    under_sudo(name, |root| {
        let folder = root.join("own");
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(CALLER), Some(CALLER)).unwrap();
        for (path, of) in [(folder.join("page"), CALLER), (root.join("page"), 0)] {
            files::written_by_caller(|| fs::write(&path, "")).unwrap();
            assert_eq!(owner(&path), (of, of));
        }
    });
}

#[test]
fn without_sudo_everything_is_as_by_std() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("theirs"), "").unwrap();
    files::create_dir_all(at("a/b")).unwrap();
    files::create_dir_all(at("a/b")).unwrap();
    files::write(at("a/b/file"), "long").unwrap();
    files::write(at("a/b/file"), "no").unwrap();
    assert_eq!(fs::read_to_string(at("a/b/file")).unwrap(), "no");
    assert!(files::create_new(at("a/b/file")).is_err());
    assert!(files::create_dir_all(at("theirs/a")).is_err());
    assert!(files::write(at("none/file"), "").is_err());
    // A link that leads nowhere yet.
    symlink(at("made"), at("link")).unwrap();
    files::write(at("link"), "x").unwrap();
    assert_eq!(fs::read_to_string(at("made")).unwrap(), "x");
}
