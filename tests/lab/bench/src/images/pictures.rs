//! Sources of pictures.
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use http::Method;
use longhaul_transcode::inspect;

use super::ImagesError;
use crate::{CommandError, cli::ImagesArgs, select};

/// Pictures of one page or folder.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) pictures: Vec<Source>,
}

/// A picture file.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) file: Bytes,
}

pub(super) fn gather(args: &ImagesArgs) -> Result<Vec<Set>, CommandError> {
    let mut sets = Vec::new();
    for folder in &args.folder {
        sets.push(of_folder(folder)?);
    }
    let reference = ["reference".to_owned()];
    let pages = if args.pages.is_empty() && args.folder.is_empty() {
        &reference
    } else {
        args.pages.as_slice()
    };
    for choice in select::pages(pages)? {
        let page = select::find(&choice)?;
        sets.push(of_page(&page));
    }
    Ok(sets)
}

/// Returns the pictures that a page loads, each once.
fn of_page(page: &longhaul_pages::Page) -> Set {
    let mut seen = BTreeSet::new();
    let mut pictures = Vec::new();
    for url in page.objects() {
        let Some(answer) = page.answer(&Method::GET, &url) else {
            continue;
        };
        let Ok(file) = answer.decoded() else { continue };
        if inspect(&file).is_ok() && seen.insert(file.clone()) {
            pictures.push(Source {
                name: url.to_string(),
                file,
            });
        }
    }
    Set {
        name: page.name().to_owned(),
        pictures,
    }
}

/// Returns the pictures below a folder, in the order of their paths.
fn of_folder(folder: &Path) -> Result<Set, ImagesError> {
    let fault = |path: &Path, source| ImagesError::Read {
        path: path.to_owned(),
        source,
    };
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    let mut files = BTreeSet::new();
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).map_err(|source| fault(&path, source))? {
            let entry = entry.map_err(|source| fault(&path, source))?;
            let kind = entry.file_type().map_err(|source| fault(&path, source))?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.insert(entry.path());
            }
        }
    }
    let mut pictures = Vec::new();
    for path in files {
        let file = Bytes::from(fs::read(&path).map_err(|source| fault(&path, source))?);
        if inspect(&file).is_ok() {
            pictures.push(Source {
                name: path.display().to_string(),
                file,
            });
        }
    }
    let name = folder.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    Ok(Set { name, pictures })
}
