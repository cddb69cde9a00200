//! What is packed of the program: manual pages, units, and the package itself; and the self-test.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::tree::root;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn narrows(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command.args(words).output().expect("the program starts")
}

/// The first of `tools` that is not there.
fn missing<'a>(tools: &[&'a str]) -> Option<&'a str> {
    let is_there = |tool: &&&str| Command::new(**tool).arg("--version").output().is_ok();
    tools.iter().find(|tool| !is_there(tool)).copied()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<_> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_self_test_passes_and_says_so() {
    let output = narrows(&["selftest"]);
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{said}{}",
        text(&output.stderr)
    );
    assert_eq!(
        said.lines().filter(|l| l.starts_with("ok ")).count(),
        20,
        "{said}"
    );
    assert!(said.contains("all 20 runs are as they should be"), "{said}");
}

#[test]
fn every_manual_page_is_set_without_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_str().expect("UTF-8");
    assert!(narrows(&["man", at]).status.success());
    let pages = names(folder.path());
    for page in [
        "narrows.1",
        "narrows-up.1",
        "narrows-selftest.1",
        "narrows-pep-serve.1",
    ] {
        assert!(pages.iter().any(|p| p == page), "{page}: {pages:?}");
    }
    if missing(&["groff"]).is_some() {
        eprintln!("skipped: every_manual_page_is_set_without_a_warning: there is no groff");
        return;
    }
    for page in pages {
        let mut groff = Command::new("groff");
        groff
            .args(["-man", "-Kutf8", "-Tutf8", "-ww", "-z"])
            .arg(folder.path().join(&page));
        let output = groff.output().expect("it starts");
        // Of its own macros, which it uses before they are defined, and of long words.
        let said = text(&output.stderr);
        let ours = |line: &&str| line.contains(&page) && !line.contains("cannot adjust line");
        let wrong: Vec<_> = said.lines().filter(ours).collect();
        assert!(
            output.status.success() && wrong.is_empty(),
            "{page}: {wrong:?}"
        );
    }
}

#[test]
fn units_start_a_command_that_there_is() {
    let folder = root().join("packaging");
    let units = names(&folder)
        .into_iter()
        .filter(|n| n.ends_with(".service"));
    let units: Vec<_> = units.collect();
    assert!(!units.is_empty());
    for unit in units {
        let contents = fs::read_to_string(folder.join(&unit)).expect("a unit");
        let start = contents
            .lines()
            .find_map(|l| l.strip_prefix("ExecStart="))
            .expect(&unit);
        let words = start.strip_prefix("/usr/local/bin/narrows ").expect(start);
        // Up to the first that is a file.
        let words: Vec<_> = words
            .split(' ')
            .take_while(|w| !w.starts_with('/'))
            .collect();
        let output = narrows(&[&words[..], &["--help"]].concat());
        assert!(
            output.status.success(),
            "{unit}: {words:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn each_image_has_all_that_its_program_needs_and_comes_out_the_same_twice() {
    let test = "each_image_has_all_that_its_program_needs_and_comes_out_the_same_twice";
    if let Some(tool) = missing(&["python3", "ldd", "tar", "strip", "unshare", "sha256sum"]) {
        eprintln!("skipped: {test}: there is no {tool}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let program = at("narrows");
    let mut strip = Command::new("strip");
    strip
        .arg("-o")
        .arg(&program)
        .arg(env!("CARGO_BIN_EXE_narrows"));
    assert!(strip.status().expect("it starts").success());
    let out = at("out");
    fs::create_dir(&out).expect("a folder");
    let make = |file: &Path| {
        let output = Command::new(root().join("scripts/oci"))
            .arg(file)
            .args([&program, &program])
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("OCI_COMPRESSION", "1")
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let archive = out.join("narrows-oci.tar");
    let names = make(&archive);
    make(&at("again.tar"));
    let read = |path: &Path| fs::read(path).expect("an archive");
    assert!(
        read(&archive) == read(&at("again.tar")),
        "two images differ"
    );
    let sums = Command::new("sha256sum")
        .arg("narrows-oci.tar")
        .current_dir(&out)
        .output();
    fs::write(out.join("SHA256SUMS"), sums.expect("it starts").stdout).expect("a file");
    let mut check = Command::new(root().join("scripts/check-dist"));
    let output = check.arg(&out).output().expect("it starts");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    if said.contains("skipped  programs in folders") {
        eprintln!("skipped: {test}: {said}");
        return;
    }
    for image in [
        "narrows",
        "narrows-source",
        "narrows-sink",
        "narrows-observer",
        "narrows-box",
    ] {
        assert!(names.contains(&format!("localhost/{image}:")), "{names}");
        assert!(
            said.contains(&format!("ok       the image {image} as user ")),
            "{said}"
        );
    }
}

/// Builds the package into `out`; its bytes.
fn package(out: &Path) -> Result<(String, Vec<u8>), String> {
    let output = Command::new(root().join("scripts/deb"))
        .arg(env!("CARGO_BIN_EXE_narrows"))
        .arg(out)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("DEB_COMPRESSION", "none")
        .output()
        .expect("it starts");
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    let file = text(&output.stdout).trim_end().to_owned();
    let bytes = fs::read(&file).expect("the package");
    Ok((file, bytes))
}

#[test]
fn a_package_has_all_of_the_program_and_comes_out_the_same_twice() {
    let test = "a_package_has_all_of_the_program_and_comes_out_the_same_twice";
    let tools = [
        "dpkg-deb",
        "dpkg-shlibdeps",
        "dpkg-architecture",
        "strip",
        "gzip",
        "python3",
    ];
    if let Some(tool) = missing(&tools) {
        eprintln!("skipped: {test}: there is no {tool}");
        return;
    }
    let python = Command::new("python3")
        .args(["-c", "import tomllib"])
        .status();
    if !python.is_ok_and(|s| s.success()) {
        eprintln!("skipped: {test}: this python3 is older than 3.11");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, first) = match package(&folder.path().join("one")) {
        Ok(made) => made,
        // A program that Debian's packages do not have the libraries of.
        Err(why) if why.contains("dpkg-shlibdeps does not say") => {
            eprintln!("skipped: {test}: {}", why.trim_end());
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let (_, second) = package(&folder.path().join("two")).expect("it was made before");
    assert!(first == second, "two builds differ");
    let ask = |words: &[&str]| {
        text(
            &Command::new("dpkg-deb")
                .args(words)
                .output()
                .unwrap()
                .stdout,
        )
    };
    let field = |name: &str| ask(&["-f", &file, name]).trim_end().to_owned();
    assert_eq!(field("Package"), "narrows");
    assert!(field("Version").starts_with(env!("CARGO_PKG_VERSION")));
    assert!(field("Depends").contains("libc6"), "{}", field("Depends"));
    let contents = ask(&["--contents", &file]);
    for path in [
        "./usr/bin/narrows",
        "./usr/share/man/man1/narrows-up.1.gz",
        "./usr/share/bash-completion/completions/narrows",
        "./usr/share/zsh/vendor-completions/_narrows",
        "./usr/share/fish/vendor_completions.d/narrows.fish",
        "./usr/share/doc/narrows/copyright",
        "./usr/share/doc/narrows/changelog.Debian.gz",
        "./usr/share/doc/narrows/sbom.cdx.json.gz",
        "./usr/share/doc/narrows/examples/pep.toml",
    ] {
        assert!(
            contents.lines().any(|l| l.ends_with(path)),
            "{path}: {contents}"
        );
    }
    assert!(
        contents.lines().all(|l| l.contains(" root/root ")),
        "{contents}"
    );
    let tree = folder.path().join("tree");
    assert!(
        Command::new("dpkg-deb")
            .args(["-x", &file])
            .arg(&tree)
            .status()
            .unwrap()
            .success()
    );
    for unit in names(&root().join("packaging")) {
        if unit.ends_with(".service") || unit.ends_with(".socket") {
            let packed = fs::read_to_string(tree.join("usr/lib/systemd/system").join(&unit));
            assert!(!packed.expect(&unit).contains("/usr/local"), "{unit}");
        }
    }
    let program = Command::new(tree.join("usr/bin/narrows"))
        .arg("--version")
        .output();
    assert_eq!(
        program.expect("it starts").stdout,
        narrows(&["--version"]).stdout
    );
}
