//! Finding scenarios and campaigns: in files, or in the catalogue by name.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::campaign::{Campaign, Shelf, count_cells};
use crate::catalog::{self, CatalogEntry};
use crate::collection::Collection;
use crate::draft::Draft;
use crate::outline::Outline;
use crate::refusal::{Refusal, nearest};
use crate::source::Spot;
use crate::tree::{self, LONGEST_FILE, Node, Value};

/// A file that was found, not yet checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its name in messages: its path, or its name in the catalogue.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
    place: Place,
}

/// Where the files lie that a file names.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In and below this folder; the current one if it is empty.
    Folder(PathBuf),
    /// In and below `folder`, and nowhere outside of `root`, wherever links lead.
    Within { root: PathBuf, folder: PathBuf },
    /// Beside this one in the catalogue.
    Catalog(CatalogEntry),
}

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// One run.
    Scenario,
    /// A matrix of them.
    Campaign,
    /// Campaigns that are run together.
    Collection,
}

/// Kind, title, source and size of a file, for lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// What it describes.
    pub kind: FileKind,
    /// What it is about, in a line.
    pub title: Option<String>,
    /// Where it is published.
    pub source: Option<String>,
    /// Cells of a campaign, campaigns of a collection; 1 of a scenario.
    pub parts: usize,
}

/// Opens `name`: a file if there is one, else an entry of the catalogue.
///
/// # Errors
/// If it is neither, or the file cannot be read or is too long to be one of
/// ours.
pub fn load(name: &str) -> Result<Loaded, Refusal> {
    let path = Path::new(name);
    if path.is_file() {
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        return Ok(Loaded {
            name: name.to_owned(),
            bytes: read(path)?,
            place: Place::Folder(folder),
        });
    }
    let entry = catalog::entry(name).ok_or_else(|| {
        let refusal = Refusal::new(
            "",
            format!("`{}`, which is neither", tree::clipped(name)),
            "a file or the name of an entry of the catalogue",
        );
        let known = || catalog::entries().map(|e| e.name);
        let slashed = name.replace('.', "/");
        let slashed = known().find(|known| *known == slashed);
        match (
            slashed.or_else(|| nearest(name, known())),
            fs::metadata(path),
        ) {
            (Some(near), _) => refusal.with_help(format!("did you mean `{near}`?")),
            (None, Err(e)) if e.kind() == ErrorKind::PermissionDenied => refusal
                .with_help(format!("{}: {e}", path.display()))
                .of_file(&e),
            (None, _) => refusal.with_help("`narrows list` shows the catalogue"),
        }
    })?;
    Ok(Loaded::from(entry))
}

impl From<CatalogEntry> for Loaded {
    fn from(entry: CatalogEntry) -> Self {
        Self {
            name: entry.file(),
            bytes: entry.text.as_bytes().to_vec(),
            place: Place::Catalog(entry),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let name = path.display().to_string();
    let refusal =
        |found: String, allowed: &str| Refusal::at(&Spot::whole(&name, ""), "file", found, allowed);
    let cannot = |e: std::io::Error| refusal(e.to_string(), "a file that can be read").of_file(&e);
    let length = fs::metadata(path).map_err(cannot)?.len();
    if length > LONGEST_FILE as u64 {
        let allowed = format!("a file of at most {LONGEST_FILE} bytes");
        return Err(refusal(format!("{length} bytes"), &allowed));
    }
    read_regular(path).map_err(cannot)
}

/// What the regular file that `path` leads to has in it.
fn read_regular(path: &Path) -> std::io::Result<Vec<u8>> {
    let unusable = |why: String| std::io::Error::new(ErrorKind::InvalidData, why);
    // Opening a pipe may never return. `narrows_files::open_regular`, which also finds one that comes
    // in between, needs a package of Linux, and the simulator is to need none.
    if !fs::metadata(path)?.is_file() {
        return Err(unusable("it is no regular file".to_owned()));
    }
    let file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    // Not by the length that it says: files of the kernel say that they are empty.
    file.take(LONGEST_RECORDING + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_RECORDING {
        return Err(unusable(format!(
            "it has more than {LONGEST_RECORDING} bytes"
        )));
    }
    Ok(bytes)
}

impl Loaded {
    /// A text that is called `name` in messages. The files that it names are below `folder`, and
    /// of those only what lies in `root` with all links followed is opened: the text may be
    /// anybody's.
    pub fn of_text(name: &str, text: &str, root: &Path, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
            place: Place::Within {
                root: root.to_path_buf(),
                folder: folder.to_path_buf(),
            },
        }
    }

    /// The same file with another text.
    #[must_use]
    pub fn with_text(self, text: &str) -> Self {
        Self {
            bytes: text.as_bytes().to_vec(),
            ..self
        }
    }

    /// What it describes, as far as it says so.
    ///
    /// # Errors
    /// If it is no TOML, or says that it is something else.
    pub fn kind(&self) -> Result<FileKind, Refusal> {
        self.kind_of(&tree::read(&self.name, &self.bytes)?)
    }

    fn kind_of(&self, root: &Node) -> Result<FileKind, Refusal> {
        match root.at("kind").map(Node::as_text) {
            None | Some(Some("scenario")) => Ok(FileKind::Scenario),
            Some(Some("campaign")) => Ok(FileKind::Campaign),
            Some(Some("collection")) => Ok(FileKind::Collection),
            Some(_) => Err(root.refuse("kind", "`scenario`, `campaign` or `collection`")),
        }
    }

    /// The scenario in it, as it was written.
    ///
    /// # Errors
    /// If it is no TOML, or of another kind.
    pub fn draft(&self) -> Result<Draft, Refusal> {
        let root = tree::read(&self.name, &self.bytes)?;
        if self.kind_of(&root)? != FileKind::Scenario {
            let help = format!("run it with `narrows campaign {}`", self.short_name());
            return Err(root.refuse("kind", "a scenario").with_help(help));
        }
        Ok(Draft {
            place: self.place.clone(),
            ..Draft::of(root)
        })
    }

    /// The campaign in it, with `sets` applied to every cell.
    ///
    /// # Errors
    /// What [`Campaign::read`] refuses, and what is of another kind.
    pub fn campaign(&self, sets: &[String]) -> Result<Campaign, Refusal> {
        let root = tree::read(&self.name, &self.bytes)?;
        if self.kind_of(&root)? == FileKind::Scenario {
            let help = format!("run it with `narrows run {}`", self.short_name());
            let refusal = root.refuse("kind", "`kind = \"campaign\"`");
            return Err(refusal.with_help(help));
        }
        Campaign::read(&self.name, &self.bytes, self, sets)
    }

    /// Its [`Heading`]. Neither its scenario nor its cells are checked.
    ///
    /// # Errors
    /// If it is no TOML, of no kind, or a campaign whose cells cannot be named.
    pub fn heading(&self) -> Result<Heading, Refusal> {
        let root = tree::read(&self.name, &self.bytes)?;
        let kind = self.kind_of(&root)?;
        let text = |key| root.at(key).and_then(Node::as_text).map(str::to_owned);
        Ok(Heading {
            kind,
            title: text("title"),
            source: text("source"),
            parts: match kind {
                FileKind::Scenario => 1,
                FileKind::Campaign => count_cells(&root, self)?,
                FileKind::Collection => self.collection()?.campaigns.len(),
            },
        })
    }

    /// What a check of it goes through: the tables and elements of its scenario, and how many
    /// cells check it again, of a campaign.
    ///
    /// # Errors
    /// If it is no TOML.
    pub fn size(&self) -> Result<(usize, usize), Refusal> {
        let root = tree::read(&self.name, &self.bytes)?;
        let base = root.at("base").and_then(Node::as_text);
        let base = base.and_then(|path| tree::read(path, &self.open(path).ok()?).ok());
        let scenario = root.at("scenario").or(base.as_ref()).unwrap_or(&root);
        let axes = root.at("axis").map(|axis| match &axis.value {
            Value::Table(axes) => axes.0.iter().map(|(_, axis)| axis.count()).collect(),
            _ => Vec::new(),
        });
        let axes = axes.unwrap_or_default();
        let cells = axes.into_iter().fold(1, usize::saturating_mul);
        Ok((Outline::of(scenario).size(), cells))
    }

    /// The collection in it.
    ///
    /// # Errors
    /// What [`Collection::read`] refuses.
    pub fn collection(&self) -> Result<Collection, Refusal> {
        Collection::read(&self.name, &self.bytes)
    }

    /// The campaign or scenario that a collection in this file calls `name`: a file beside it,
    /// or an entry of the catalogue.
    ///
    /// # Errors
    /// If it is neither, or the file cannot be read.
    pub fn beside(&self, name: &str) -> Result<Self, Refusal> {
        match &self.place {
            Place::Folder(folder) if folder.join(name).is_file() => {
                load(&folder.join(name).to_string_lossy())
            }
            Place::Within { root, folder } => match within(root, folder, name) {
                Some(path) => load(&path.to_string_lossy()),
                None => catalog::entry(name).map(Self::from).ok_or_else(|| {
                    let found = format!("`{}`, which is neither", tree::clipped(name));
                    let allowed = "a file of the folder or the name of an entry of the catalogue";
                    Refusal::new("", found, allowed)
                }),
            },
            _ => load(name),
        }
    }

    /// Its text, as far as it is one.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// What it is called on a command line: its path, or its name in the catalogue.
    pub fn short_name(&self) -> &str {
        match &self.place {
            Place::Folder(_) | Place::Within { .. } => &self.name,
            Place::Catalog(entry) => entry.name,
        }
    }
}

/// Files beside it.
impl Shelf for Loaded {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        self.place.open(path)
    }
}

impl Shelf for Place {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Catalog(entry) => entry.shelf().open(path),
            Self::Folder(folder) => Beside(folder).open(path),
            Self::Within { root, folder } => match within(root, folder, path) {
                Some(path) => read_regular(&path).map_err(|e| e.to_string()),
                None => Err("there is no such file in the folder".to_owned()),
            },
        }
    }
}

/// The file `path` below `folder`, if it lies in `root` with all links followed.
fn within(root: &Path, folder: &Path, path: &str) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let path = folder.join(path).canonicalize().ok()?;
    path.starts_with(root).then_some(path)
}

/// The files in and below a folder; those of the current one if it is empty.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a>(pub &'a Path);

impl Shelf for Beside<'_> {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        read_regular(&self.0.join(path)).map_err(|e| e.to_string())
    }
}

/// The longest recording that is read: mahimahi's longest are below 2 MB; the
/// bound catches slips.
const LONGEST_RECORDING: u64 = 64 << 20;

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_text_opens_no_file_outside_of_its_root() {
        let at = tempfile::tempdir().expect("a folder");
        let root = at.path().join("root");
        fs::create_dir_all(root.join("in")).expect("a folder");
        for file in ["outside.csv", "root/beside.csv", "root/in/own.csv"] {
            fs::write(at.path().join(file), "1").expect("a file");
        }
        std::os::unix::fs::symlink("../../outside.csv", root.join("in/link.csv")).expect("a link");
        let loaded = Loaded::of_text("t", "", &root, &root.join("in"));
        let opened = |name: &str| loaded.open(name).is_ok();
        assert!(opened("own.csv") && opened("../beside.csv"));
        for name in ["../../outside.csv", "link.csv", "/etc/passwd"] {
            assert!(!opened(name), "{name}");
        }
    }

    #[test]
    fn a_file_that_a_text_names_is_a_regular_one() {
        let at = tempfile::tempdir().expect("a folder");
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, at.path().join(name)).expect("a link");
        };
        link("/dev/zero", "zero.csv");
        link(".", "folder.csv");
        // It says its length, but has no bytes on the disk.
        let long = fs::File::create(at.path().join("long.csv")).expect("a file");
        long.set_len(LONGEST_RECORDING + 1).expect("a length");
        for (name, why) in [
            ("zero.csv", "regular file"),
            ("folder.csv", "regular file"),
            ("long.csv", "it has more than"),
        ] {
            let refused = Beside(at.path()).open(name).expect_err(name);
            assert!(refused.contains(why), "{name}: {refused}");
        }
    }
}
