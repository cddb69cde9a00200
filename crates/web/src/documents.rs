//! Scenario and campaign files: those of a folder, and those of the catalogue.

mod layout;
pub(crate) mod path;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use narrows::files::write_whole;
use narrows::results::folder::digest_of_bytes;
use narrows::scenario::catalog::{self, CatalogEntry};
use narrows::scenario::{FileKind, Loaded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::body::{self, Json};
use crate::error::{Answer, ApiError};
use crate::state::{Shared, Work, aside};

/// The longest document: what the laboratory reads (a mistaken file is longer).
pub(crate) const LONGEST: u64 = 1 << 20;

/// Documents of a folder that are listed, and folders that are looked into.
const MOST: usize = 2000;

/// How deep folders are looked into.
const DEEPEST: usize = 6;

/// The folder of documents, and what is known of its files.
pub(crate) struct Documents {
    root: PathBuf,
    /// Layouts of documents of the catalogue, by name, for as long as the program runs.
    of_catalogue: Mutex<BTreeMap<String, Layout>>,
    /// Held while a file is compared and written.
    writing: Mutex<()>,
}

/// Where the page draws the nodes of a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    /// By name.
    #[serde(default)]
    pub(crate) nodes: BTreeMap<String, Position>,
}

/// A place in the drawing, in its own units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Position {
    /// To the right.
    pub(crate) x: f64,
    /// Downwards.
    pub(crate) y: f64,
}

/// Which document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    /// A file, by its path below the folder.
    File(PathBuf),
    /// An entry of the catalogue.
    Catalog(CatalogEntry),
}

/// All documents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct List {
    /// Those of the folder, then those of the catalogue, by name.
    documents: Vec<Listed>,
    /// Whether there were more than are listed.
    more: bool,
}

/// A document in the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// `file/PATH` or `catalog/NAME`.
    id: String,
    /// Its path or name.
    name: String,
    /// `scenario`, `campaign` or `collection`.
    kind: &'static str,
    /// `folder` or `catalog`.
    source: &'static str,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

/// A document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Document {
    /// As it was asked for.
    id: String,
    /// `scenario`, `campaign` or `collection`.
    kind: &'static str,
    /// All of it.
    text: String,
    /// The digest of the text: what a change of it is based on.
    revision: String,
    /// Whether it can be changed.
    writable: bool,
    /// Where its nodes are drawn.
    layout: Layout,
}

/// A new text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Put {
    /// All of it.
    text: String,
    /// The revision that it is based on; `null` for a document that is not there yet.
    revision: Option<String>,
}

/// What a written text is called.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Written {
    /// The digest of the text.
    revision: String,
}

impl Documents {
    /// Those in and below `root`.
    pub(crate) fn of(root: &Path) -> std::io::Result<Self> {
        Ok(Self {
            root: root.canonicalize()?,
            of_catalogue: Mutex::default(),
            writing: Mutex::default(),
        })
    }

    /// The folder, with links followed.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The document called `id`, which need not be there.
    pub(crate) fn id(&self, id: &str) -> Answer<Id> {
        let unknown = || ApiError::not_found(format!("document `{}`", clipped(id)));
        match id.split_once('/') {
            Some(("file", path)) => Ok(Id::File(path::below(path, "toml").ok_or_else(unknown)?)),
            Some(("catalog", name)) => catalog::entry(name).map(Id::Catalog).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }

    /// The document with its text.
    pub(crate) fn load(&self, id: &Id) -> Answer<Loaded> {
        match id {
            Id::Catalog(entry) => Ok(Loaded::from(*entry)),
            Id::File(path) => {
                let text = self.read(path)?;
                Ok(self.with_text(path, &text))
            }
        }
    }

    /// A text in the place of the document `id`, or of a new one in the folder.
    pub(crate) fn draft(&self, id: Option<&Id>, text: &str) -> Loaded {
        match id {
            Some(Id::Catalog(entry)) => Loaded::from(*entry).with_text(text),
            Some(Id::File(path)) => self.with_text(path, text),
            None => self.with_text(Path::new("scenario.toml"), text),
        }
    }

    fn with_text(&self, path: &Path, text: &str) -> Loaded {
        let folder = self.root.join(path);
        let folder = folder.parent().unwrap_or(&self.root);
        Loaded::of_text(&path.display().to_string(), text, &self.root, folder)
    }

    /// The text of a file of the folder.
    fn read(&self, path: &Path) -> Answer<String> {
        let missing = || ApiError::not_found(format!("document `file/{}`", path.display()));
        let full = path::existing(&self.root, path).ok_or_else(missing)?;
        let facts = fs::metadata(&full).map_err(|_| missing())?;
        if !facts.is_file() {
            return Err(missing());
        }
        if facts.len() > LONGEST {
            let message = format!(
                "{} bytes are more than a document has, {LONGEST}",
                facts.len()
            );
            return Err(ApiError::unusable(message));
        }
        let bytes = fs::read(&full).map_err(|error| {
            ApiError::new(
                StatusCode::FORBIDDEN,
                format!("{}: {error}", path.display()),
            )
        })?;
        String::from_utf8(bytes).map_err(|_| ApiError::unusable("the file is not UTF-8"))
    }

    /// Writes a file of the folder; a refusal names it by its path below the folder.
    fn write(&self, full: &Path, content: &[u8]) -> Answer<()> {
        write_whole(full, content).map_err(|error| {
            let mut error = ApiError::from(narrows::Error::from(error));
            let above = format!("{}/", self.root.display());
            error.body.message = error.body.message.replace(&above, "");
            error
        })
    }

    fn document(&self, name: &str) -> Answer<Document> {
        let id = self.id(name)?;
        let loaded = self.load(&id)?;
        let text = loaded.text().into_owned();
        Ok(Document {
            id: name.to_owned(),
            kind: kind_word(&loaded),
            revision: digest_of_bytes(text.as_bytes()),
            text,
            writable: matches!(id, Id::File(_)),
            layout: self.layout(&id),
        })
    }

    fn put(&self, name: &str, put: &Put) -> Answer<Written> {
        if name
            .strip_prefix("file/")
            .is_some_and(|path| path::below(path, "toml").is_none())
        {
            let message = format!(
                "the name: found `{}`; allowed: {}",
                clipped(name),
                path::ALLOWED
            );
            return Err(ApiError::unusable(message));
        }
        let Id::File(path) = self.id(name)? else {
            let message = "the catalogue cannot be changed; save it under a name of its own";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        };
        if put.text.len() as u64 > LONGEST {
            let message = format!("a document has at most {LONGEST} bytes");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = match self.read(&path) {
            Ok(text) => Some(text),
            Err(error) if error.status == StatusCode::NOT_FOUND => None,
            Err(error) => return Err(error),
        };
        let revision = present
            .as_ref()
            .map(|text| digest_of_bytes(text.as_bytes()));
        if revision != put.revision {
            let current = present.map(|text| json!({ "text": text, "revision": revision }));
            let message = match current {
                Some(_) => "the file was changed by others since",
                None => "the file is no longer there",
            };
            return Err(ApiError::new(StatusCode::CONFLICT, message)
                .hint("put it with the revision of what is there now, to replace that")
                .with(json!({ "current": current })));
        }
        let full = path::writable(&self.root, &path).ok_or_else(|| {
            let message = format!("`{}` is no place for a file in the folder", path.display());
            ApiError::unusable(message)
                .hint("its folder has to be there, and no link out of this one")
        })?;
        self.write(&full, put.text.as_bytes())?;
        Ok(Written {
            revision: digest_of_bytes(put.text.as_bytes()),
        })
    }

    /// All documents; of folders whose name begins with a dot, and of results, none.
    fn list(&self) -> List {
        let mut found = Vec::new();
        let more = self.collect(Path::new(""), 0, &mut found);
        found.sort();
        let of_folder = found.into_iter().filter_map(|path| {
            let text = self.read(&path).ok()?;
            let loaded = self.with_text(&path, &text);
            let name = path.to_str()?.to_owned();
            listed(&loaded, "file", name)
        });
        let entries = catalog::entries().map(|entry| {
            let loaded = Loaded::from(entry);
            listed(&loaded, "catalog", entry.name.to_owned())
        });
        List {
            documents: of_folder.chain(entries.flatten()).collect(),
            more,
        }
    }

    /// The document that `name` is in the folder `from`: a path, or a name in the catalogue.
    #[cfg(target_os = "linux")]
    pub(crate) fn id_of(&self, from: &Path, name: &str) -> Option<String> {
        if let Ok(full) = from.join(name).canonicalize() {
            let below = full.strip_prefix(&self.root).ok()?;
            return Some(format!(
                "file/{}",
                path::below(below.to_str()?, "toml")?.display()
            ));
        }
        catalog::entry(name).map(|entry| format!("catalog/{}", entry.name))
    }

    /// What changes when files of the folder do: their names, lengths and times.
    pub(crate) fn fingerprint(&self) -> Vec<(PathBuf, u64, Option<std::time::SystemTime>)> {
        let mut found = Vec::new();
        self.collect(Path::new(""), 0, &mut found);
        found.sort();
        let facts = found.into_iter().map(|path| {
            let facts = fs::metadata(self.root.join(&path)).ok();
            let length = facts.as_ref().map_or(0, fs::Metadata::len);
            (path, length, facts.and_then(|facts| facts.modified().ok()))
        });
        facts.collect()
    }

    /// Adds the files below `folder` that may be documents; whether there are too many.
    fn collect(&self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> bool {
        let Ok(entries) = fs::read_dir(self.root.join(folder)) else {
            return false;
        };
        let mut more = false;
        for entry in entries.flatten() {
            if found.len() >= MOST {
                return true;
            }
            let name = entry.file_name();
            let below = folder.join(&name);
            // What has another name cannot be asked for, either.
            if name.to_str().and_then(path::plain).is_none() {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    let skipped = ["results", "target", "node_modules"]
                        .iter()
                        .any(|n| name == *n);
                    if depth < DEEPEST && !skipped {
                        more |= self.collect(&below, depth + 1, found);
                    }
                }
                Ok(_) if below.extension().is_some_and(|end| end == "toml") => {
                    found.push(below);
                }
                _ => {}
            }
        }
        more
    }
}

/// A document in the list; `None` of TOML that is something else.
fn listed(loaded: &Loaded, place: &'static str, name: String) -> Option<Listed> {
    #[derive(Deserialize)]
    struct Head {
        version: Option<Value>,
        title: Option<String>,
    }
    let summary = match toml::from_str::<Head>(&loaded.text()) {
        Ok(head) => {
            head.version.as_ref()?;
            head.title
        }
        // It may become one, once it can be read.
        Err(_) => None,
    };
    Some(Listed {
        id: format!("{place}/{name}"),
        name,
        kind: kind_word(loaded),
        source: if place == "file" { "folder" } else { "catalog" },
        summary,
    })
}

/// What a document is; what does not say so is a scenario.
pub(crate) fn kind_word(loaded: &Loaded) -> &'static str {
    match loaded.kind() {
        Ok(FileKind::Campaign) => "campaign",
        Ok(FileKind::Collection) => "collection",
        Ok(FileKind::Scenario) | Err(_) => "scenario",
    }
}

/// At most a few words of what was asked for.
pub(crate) fn clipped(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(80).collect()
}

/// Lists all documents.
pub(crate) async fn list(State(state): State<Shared>) -> Answer<Json<List>> {
    aside(&state, Work::Quick, |lab| Ok(Json(lab.documents.list()))).await
}

/// Gives one.
pub(crate) async fn get(
    State(state): State<Shared>,
    body::Path(id): body::Path<String>,
) -> Answer<Json<Document>> {
    aside(&state, Work::Quick, move |lab| {
        lab.documents.document(&id).map(Json)
    })
    .await
}

/// Writes one.
pub(crate) async fn put(
    State(state): State<Shared>,
    body::Path(id): body::Path<String>,
    Json(put): Json<Put>,
) -> Answer<Json<Written>> {
    let written = aside(&state, Work::Quick, move |lab| {
        lab.documents.put(&id, &put).map(Json)
    })
    .await?;
    state.stream.send("files", &json!({}));
    Ok(written)
}

/// Writes where the nodes of one are drawn.
pub(crate) async fn put_layout(
    State(state): State<Shared>,
    body::Path(id): body::Path<String>,
    Json(layout): Json<Layout>,
) -> Answer<Json<Value>> {
    aside(&state, Work::Quick, move |lab| {
        lab.documents.put_layout(&id, layout)?;
        Ok(Json(json!({})))
    })
    .await
}
