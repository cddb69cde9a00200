//! The list of congestion controls, from which the native tables and the objects
//! for the kernel are made.

use std::path::{Path, PathBuf};

/// A congestion control of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSource {
    /// Its header is `NAME.h`.
    pub name: String,
    /// Where that is.
    pub folder: PathBuf,
    /// Whether only tests have it.
    pub of_tests: bool,
}

/// The controls of the crate in `folder` (that is `narrows-cc`): those of
/// `kernel/controls.list` and, if wanted, those of `tests/kernel/controls.list`.
/// The build is declared to depend on them (`rerun-if-changed`).
///
/// # Panics
/// When a list cannot be read.
pub fn controls(folder: &Path, of_tests: bool) -> Vec<ControlSource> {
    let lists = [("kernel", false), ("tests/kernel", true)];
    let mut found = Vec::new();
    for (place, of_tests) in lists.into_iter().take(1 + usize::from(of_tests)) {
        let folder = folder.join(place);
        let list = folder.join("controls.list");
        println!("cargo::rerun-if-changed={}", folder.display());
        let text =
            std::fs::read_to_string(&list).unwrap_or_else(|e| panic!("{}: {e}", list.display()));
        let names = text.lines().map(str::trim);
        found.extend(
            names
                .filter(|name| !name.is_empty() && !name.starts_with('#'))
                .map(|name| ControlSource {
                    name: name.to_owned(),
                    folder: folder.clone(),
                    of_tests,
                }),
        );
    }
    found
}

/// Writes `nw_list.h` into `folder`: the headers of `controls`, and
/// `NW_CONTROLS(C)`, `NW_TEST_CONTROLS(C)`, which are `C(name)` for each.
///
/// # Panics
/// When it cannot be written.
pub fn write_list(controls: &[ControlSource], folder: &Path) {
    let mut text = "/* Made of controls.list. */\n".to_owned();
    for control in controls {
        text += &format!("#include \"{}.h\"\n", control.name);
    }
    for (word, of_tests) in [("NW_CONTROLS", false), ("NW_TEST_CONTROLS", true)] {
        text += &format!("#define {word}(C)");
        for control in controls.iter().filter(|c| c.of_tests == of_tests) {
            text += &format!(" C({})", control.name);
        }
        text.push('\n');
    }
    std::fs::write(folder.join("nw_list.h"), text).expect("the build's folder can be written");
}
