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

/// What the headers of DA-LBE's price models are called, before the control's name.
const MODEL: &str = "dalbe_over_";

/// Writes `nw_models.h` into `made`: the price models of DA-LBE, which are the headers
/// `kernel/dalbe_over_NAME.h` of the crate in `folder` (that is `narrows-cc`);
/// `NW_MODELS(M)`, which is `M(NAME)` for each; their options; and their names. The
/// build depends on them.
///
/// # Panics
/// When they cannot be listed, or it cannot be written.
pub fn write_models(folder: &Path, made: &Path) {
    let folder = folder.join("kernel");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files = entries.map(|entry| entry.expect("a folder can be listed").file_name());
    let mut names: Vec<String> = files
        .filter_map(|file| {
            let name = file.to_str()?.strip_prefix(MODEL)?.strip_suffix(".h")?;
            Some(name.to_owned())
        })
        .collect();
    names.sort_unstable();
    let mut text = format!("/* Made of the headers {MODEL}NAME.h. */\n");
    for name in &names {
        text += &format!("#include \"{MODEL}{name}.h\"\n");
    }
    let all = |each: &dyn Fn(&String) -> String| names.iter().map(each).collect::<String>();
    text += &format!("#define NW_MODELS(M){}\n", all(&|n| format!(" M({n})")));
    let options = all(&|n| format!(" nw_model_{n}_OPTIONS(P)"));
    text += &format!("#define NW_MODEL_OPTIONS(P){options}\n");
    text += &format!("#define NW_MODEL_NAMES \"{}\"\n", names.join(" "));
    std::fs::write(made.join("nw_models.h"), text).expect("the build's folder can be written");
}
