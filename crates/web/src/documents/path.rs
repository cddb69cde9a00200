//! Paths that come by HTTP: never out of the folder, neither by their words nor by links.

use std::path::{Component, Path, PathBuf};

/// The longest path.
const LONGEST: usize = 512;

/// The longest name in it: Linux takes 255 bytes, and `.layout.json.part` is written behind it.
const LONGEST_NAME: usize = 255 - ".layout.json.part".len();

/// What can be the name of a document of the folder.
pub(crate) const ALLOWED: &str = "a path below the folder that ends in `.toml`: names with \
    slashes between them, none of which begins with a dot, is longer than 238 bytes, or has a \
    backslash or a control character in it; of 512 bytes together";

/// `path` as a path below a folder, of a file with this ending: plain names with slashes, none
/// of them hidden.
pub(crate) fn below(path: &str, ending: &str) -> Option<PathBuf> {
    let path = plain(path)?;
    let ends = path.extension().is_some_and(|own| own == ending);
    ends.then_some(path)
}

/// `path` as plain names with slashes, none of them hidden.
pub(crate) fn plain(path: &str) -> Option<PathBuf> {
    let odd = |c: char| c.is_control() || c == '\\';
    if path.is_empty() || path.len() > LONGEST || path.contains(odd) {
        return None;
    }
    let parts = path.split('/');
    if !parts
        .clone()
        .all(|part| !part.is_empty() && !part.starts_with('.') && part.len() <= LONGEST_NAME)
    {
        return None;
    }
    let path: PathBuf = parts.collect();
    let normal = |part| matches!(part, Component::Normal(_));
    path.components().all(normal).then_some(path)
}

/// The file `path` below `root`, if with all links followed it is there and lies in `root`.
pub(crate) fn existing(root: &Path, path: &Path) -> Option<PathBuf> {
    let full = root.join(path).canonicalize().ok()?;
    full.starts_with(root).then_some(full)
}

/// Where the file `path` below `root` is to be written: it, or what it is a link to, if with all
/// links followed that lies in `root`.
pub(crate) fn writable(root: &Path, path: &Path) -> Option<PathBuf> {
    let is_link = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|facts| facts.is_symlink())
    };
    let folder = existing(root, path.parent()?).filter(|folder| folder.is_dir())?;
    let mut full = folder.join(path.file_name()?);
    if is_link(&full) {
        full = existing(root, path)?;
    }
    // What is written first has this name; a link there would be followed.
    let mut part = full.clone().into_os_string();
    part.push(".part");
    // Neither are folders, pipes and devices written.
    let odd = |path: &Path| path.symlink_metadata().is_ok_and(|facts| !facts.is_file());
    (!odd(&full) && !odd(Path::new(&part))).then_some(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_below_the_folder_are_paths() {
        for good in ["a.toml", "a/b c/d.toml", "ü.toml"] {
            assert_eq!(below(good, "toml"), Some(PathBuf::from(good)), "{good}");
        }
        for bad in [
            "",
            "/a.toml",
            "../a.toml",
            "a/../b.toml",
            "a//b.toml",
            "./a.toml",
            ".a.toml",
            "a/.git/b.toml",
            "a.toml/",
            "a\\b.toml",
            "a\0.toml",
            "a.json",
            "toml",
            "C:/..",
        ] {
            assert_eq!(below(bad, "toml"), None, "{bad:?}");
        }
        for long in [239 - 5, 250, 600] {
            assert_eq!(below(&format!("{}.toml", "a".repeat(long)), "toml"), None);
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_folder_are_neither_read_nor_written_through() {
        let at = tempfile::tempdir().expect("a folder");
        let root = at.path().join("root");
        std::fs::create_dir_all(root.join("in")).expect("a folder");
        std::fs::write(at.path().join("outside.toml"), "").expect("a file");
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, root.join(name)).expect("a link");
        };
        link("../outside.toml", "out.toml");
        link("..", "up");
        link("in", "inner");
        link("../outside.toml", "new.toml.part");
        let root = root.canonicalize().expect("it is there");
        assert_eq!(existing(&root, Path::new("out.toml")), None);
        assert_eq!(existing(&root, Path::new("up/outside.toml")), None);
        assert_eq!(writable(&root, Path::new("up/x.toml")), None);
        assert_eq!(writable(&root, Path::new("new.toml")), None);
        assert_eq!(writable(&root, Path::new("out.toml")), None);
        assert_eq!(writable(&root, Path::new("missing/x.toml")), None);
        let inner = root.join("in/x.toml");
        assert_eq!(writable(&root, Path::new("inner/x.toml")), Some(inner));
    }
}
