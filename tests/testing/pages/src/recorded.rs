//! Recorded pages: a folder of WARC files, with one page (or one edition of a page) per file.
//!
//! `NAME.warc` or `NAME.warc.gz` is a page; `NAME.v1.warc.gz`, `NAME.v2.warc.gz`, … are its editions, oldest
//! first. An optional `INDEX.tsv` in the folder contains the URL at which a page's load begins and the hosts
//! that must not resolve.
mod edition;
mod index;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use longhaul_replay::warc::LoadError;

use crate::Page;
pub(crate) use edition::Edition;
use index::Index;
pub use index::IndexFault;

/// Maximum number of files in one folder: many more than any collection of pages has, and still quickly
/// listed.
const MAX_FILES: usize = 10_000;
/// Name of the index file.
const INDEX: &str = "INDEX.tsv";

/// Errors of a folder of recordings. The messages contain the file, the error and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder cannot be listed.
    #[error("cannot read the folder {}: {error}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// It contains no WARC file.
    #[error(
        "{} contains no recorded page: it needs files named PAGE.warc or PAGE.warc.gz (record them with \
         `wget --warc-file`, pywb or Browsertrix)", .folder.display()
    )]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
    /// It contains too many files.
    #[error("{} contains more than {MAX_FILES} files: move the recordings to a separate folder", .folder.display())]
    TooMany {
        /// The folder.
        folder: PathBuf,
    },
    /// It contains no page of this name.
    #[error("{} contains no page named `{name}`; existing pages are: {}", .folder.display(), .names.join(", "))]
    Unknown {
        /// The folder.
        folder: PathBuf,
        /// The requested name.
        name: String,
        /// The names of its pages.
        names: Vec<String>,
    },
    /// Two files are the same edition of the same page.
    #[error("{} and {} are both `{name}`: rename or remove one", .one.display(), .other.display())]
    Twice {
        /// The page.
        name: String,
        /// The first file.
        one: PathBuf,
        /// The second file.
        other: PathBuf,
    },
    /// A recording is damaged.
    #[error("the recording {} cannot be used: {error}; record the page again or remove the file", .file.display())]
    Warc {
        /// The file.
        file: PathBuf,
        /// The error, which contains the record.
        error: LoadError,
    },
    /// A recording contains no page.
    #[error(
        "the recording {} contains no HTML page; remove it, or enter its page's URL in column main_url of {INDEX}",
        .file.display()
    )]
    NoPage {
        /// The file.
        file: PathBuf,
    },
    /// The index is damaged.
    #[error("{}: {fault}; correct the line or remove the file", .file.display())]
    Index {
        /// The file.
        file: PathBuf,
        /// Its error.
        fault: IndexFault,
    },
}

/// Returns all pages of a folder, sorted by name, each in its first edition.
///
/// # Errors
/// The folder contains no WARC file, or an invalid one.
pub fn folder(path: &Path) -> Result<Vec<Page>, FolderError> {
    let index = read_index(path)?;
    let listed = list(path)?;
    let load = |(name, files): (&String, &Editions)| load(name, files, &index);
    listed.iter().map(load).collect()
}

/// Returns the names of the pages of a folder, sorted, without reading the recordings.
///
/// # Errors
/// The folder cannot be listed or contains no WARC file.
pub fn names(path: &Path) -> Result<Vec<String>, FolderError> {
    Ok(list(path)?.into_keys().collect())
}

/// Returns one page of a folder, in its first edition; files of other pages are not read.
///
/// # Errors
/// There is no such page, or its files are invalid.
pub fn named(path: &Path, name: &str) -> Result<Page, FolderError> {
    let listed = list(path)?;
    let Some(files) = listed.get(name) else {
        return Err(FolderError::Unknown {
            folder: path.to_owned(),
            name: name.to_owned(),
            names: listed.into_keys().collect(),
        });
    };
    load(name, files, &read_index(path)?)
}

/// Files of one page by edition; a file without a number is edition 0.
type Editions = BTreeMap<u32, PathBuf>;

fn list(folder: &Path) -> Result<BTreeMap<String, Editions>, FolderError> {
    let unreadable = |error| FolderError::Folder {
        folder: folder.to_owned(),
        error,
    };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        if files.len() >= MAX_FILES {
            return Err(FolderError::TooMany {
                folder: folder.to_owned(),
            });
        }
        files.push(entry.map_err(unreadable)?.path());
    }
    // Sorted, because the order of a folder depends on the file system and errors must be reproducible.
    files.sort();
    let mut pages: BTreeMap<String, Editions> = BTreeMap::new();
    for file in files {
        let Some((name, edition)) = file.file_name().and_then(|name| split_name(name.to_str()?)) else {
            continue;
        };
        let editions = pages.entry(name.to_owned()).or_default();
        if let Some(one) = editions.get(&edition) {
            return Err(FolderError::Twice {
                name: name.to_owned(),
                one: one.clone(),
                other: file,
            });
        }
        editions.insert(edition, file);
    }
    if pages.is_empty() {
        return Err(FolderError::Empty {
            folder: folder.to_owned(),
        });
    }
    Ok(pages)
}

/// Returns page and edition of a file name; `None` if it is not the name of a WARC file.
fn split_name(file: &str) -> Option<(&str, u32)> {
    let stem = file.strip_suffix(".gz").unwrap_or(file).strip_suffix(".warc")?;
    let edition = stem
        .rsplit_once(".v")
        .and_then(|(name, edition)| Some((name, edition.parse().ok()?)));
    let (name, edition) = edition.unwrap_or((stem, 0));
    (!name.is_empty()).then_some((name, edition))
}

fn read_index(folder: &Path) -> Result<Index, FolderError> {
    let file = folder.join(INDEX);
    Index::read(&file).map_err(|fault| FolderError::Index { file, fault })
}

fn load(name: &str, files: &Editions, index: &Index) -> Result<Page, FolderError> {
    let states = files.values().map(|file| edition::State::open(file, index));
    let states: Vec<_> = states.collect::<Result<_, _>>()?;
    Ok(Edition::first(states).page(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_contain_page_and_edition() {
        for (file, expected) in [
            ("heise.v2.warc.gz", Some(("heise", 2))),
            ("reddit.warc.gz", Some(("reddit", 0))),
            ("a.b.warc", Some(("a.b", 0))),
            ("a.vx.warc", Some(("a.vx", 0))),
            (".warc", None),
            ("README.md", None),
            ("x.gz", None),
        ] {
            assert_eq!(split_name(file), expected, "{file}");
        }
    }
}
