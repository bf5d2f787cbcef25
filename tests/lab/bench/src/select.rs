//! Selection of pages by name.
use std::path::{Path, PathBuf};

use longhaul_pages::{Page, recorded, reference};

use crate::job::PageChoice;

/// Errors of selecting pages.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// The name is neither a page nor a folder.
    #[error("`{0}` is neither a reference page nor a folder of WARC files; reference pages are: {known}", known = reference::names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// The folder's recordings cannot be read.
    #[error(transparent)]
    Recorded(#[from] recorded::FolderError),
    /// The folder does not contain the page.
    #[error("{} has no page `{name}`; existing pages are: {known}", folder.display())]
    NotRecorded {
        /// The folder.
        folder: PathBuf,
        /// The requested page.
        name: String,
        /// The existing pages.
        known: String,
    },
}

/// Returns the pages for an argument of `--pages`: `reference`, a reference page's name, a folder of
/// recordings, or `FOLDER:NAME`.
///
/// # Errors
/// There is no such page or folder, or a recording is invalid.
pub fn pages(asked: &[String]) -> Result<Vec<PageChoice>, SelectError> {
    let mut chosen = Vec::new();
    for name in asked {
        for page in select(name)? {
            if !chosen.contains(&page) {
                chosen.push(page);
            }
        }
    }
    Ok(chosen)
}

fn select(asked: &str) -> Result<Vec<PageChoice>, SelectError> {
    let reference = |name: &str| PageChoice::Reference(name.to_owned());
    if asked == "reference" {
        return Ok(reference::names().map(reference).collect());
    }
    if reference::names().any(|name| name == asked) {
        return Ok(vec![reference(asked)]);
    }
    if Path::new(asked).is_dir() {
        return recorded_pages(Path::new(asked), None);
    }
    match asked.rsplit_once(':') {
        Some((folder, name)) if Path::new(folder).is_dir() => recorded_pages(Path::new(folder), Some(name)),
        _ => Err(SelectError::Unknown(asked.to_owned())),
    }
}

/// Returns the pages of a folder. Pages of only HTML are not suitable for page loads: they are included only
/// by name.
fn recorded_pages(folder: &Path, name: Option<&str>) -> Result<Vec<PageChoice>, SelectError> {
    let pages = recorded::folder(folder)?;
    let wanted = pages
        .iter()
        .filter(|page| name.map_or_else(|| !page.html_only(), |name| page.name() == name));
    let chosen: Vec<_> = wanted
        .map(|page| PageChoice::Recorded {
            folder: folder.to_owned(),
            name: page.name().to_owned(),
        })
        .collect();
    match name {
        Some(name) if chosen.is_empty() => Err(SelectError::NotRecorded {
            folder: folder.to_owned(),
            name: name.to_owned(),
            known: pages.iter().map(Page::name).collect::<Vec<_>>().join(", "),
        }),
        _ => Ok(chosen),
    }
}

/// Finds a chosen page again.
///
/// # Errors
/// It no longer exists.
pub fn find(choice: &PageChoice) -> Result<Page, SelectError> {
    match choice {
        PageChoice::Reference(name) => {
            reference::named(name).ok_or_else(|| SelectError::Unknown(name.clone()))
        }
        PageChoice::Recorded { folder, name } => Ok(recorded::named(folder, name)?),
    }
}
