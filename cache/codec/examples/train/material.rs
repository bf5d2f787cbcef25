//! The texts that a dictionary is made from: a folder with one folder per site, read by class.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Class of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Html,
    Css,
    Script,
    Json,
    Svg,
}

impl Class {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "html" => Some(Self::Html),
            "css" => Some(Self::Css),
            "js" => Some(Self::Script),
            "json" => Some(Self::Json),
            "svg" => Some(Self::Svg),
            _ => None,
        }
    }

    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Css => "css",
            Self::Script => "js",
            Self::Json => "json",
            Self::Svg => "svg",
        }
    }
}

/// The texts of one site.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) texts: Vec<Vec<u8>>,
}

impl Site {
    /// Part of `folds` parts to which the site belongs: by name, so that all classes and runs agree.
    pub(crate) fn fold(&self, folds: usize) -> usize {
        let hash = blake3::hash(self.name.as_bytes());
        usize::from(hash.as_bytes()[0]) % folds
    }
}

/// Maximum bytes per site: the head and frame of its pages; limits the weight of one site.
const HTML_BYTES: usize = 48 * 1024;
/// Maximum bytes per site for other classes, which have fewer texts.
const OTHER_BYTES: usize = 1024 * 1024;
/// Shorter texts contain nothing that three sites share.
const MIN_TEXT: usize = 64;

/// Reads all sites of a folder, sorted by name: the files of the class, and the texts of the class that HTML
/// files embed.
pub(crate) fn read(folder: &Path, class: Class) -> io::Result<Vec<Site>> {
    read_sites(folder, class, Take::FilesAndEmbedded)
}

/// As [`read`], without texts embedded in HTML files.
pub(crate) fn read_files(folder: &Path, class: Class) -> io::Result<Vec<Site>> {
    read_sites(folder, class, Take::Files)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    Files,
    FilesAndEmbedded,
}

fn read_sites(folder: &Path, class: Class, take: Take) -> io::Result<Vec<Site>> {
    let mut sites = Vec::new();
    for path in sorted(folder)? {
        if !path.is_dir() {
            continue;
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut texts = Vec::new();
        collect(&path, class, take, &mut texts)?;
        texts.retain(|text| text.len() >= MIN_TEXT);
        texts.sort_unstable();
        texts.dedup();
        if !texts.is_empty() {
            sites.push(Site { name, texts });
        }
    }
    Ok(sites)
}

/// Truncates each site's texts evenly to the site's limit, so that a long text does not displace the others.
pub(crate) fn limit(sites: &mut [Site], class: Class) {
    let most = if class == Class::Html {
        HTML_BYTES
    } else {
        OTHER_BYTES
    };
    for site in sites {
        let share = (most / site.texts.len()).max(1024);
        for text in &mut site.texts {
            text.truncate(share);
        }
    }
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries?;
    entries.sort();
    Ok(entries)
}

fn collect(folder: &Path, class: Class, take: Take, texts: &mut Vec<Vec<u8>>) -> io::Result<()> {
    for path in sorted(folder)? {
        if path.is_dir() {
            collect(&path, class, take, texts)?;
            continue;
        }
        let extension = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if extension == class.extension() {
            texts.push(fs::read(&path)?);
        } else if extension == "html" && take == Take::FilesAndEmbedded {
            texts.extend(embedded(&fs::read(&path)?, class));
        }
    }
    Ok(())
}

/// Returns the parts of an HTML text that are of another class.
fn embedded(html: &[u8], class: Class) -> Vec<Vec<u8>> {
    let (open, close): (&[u8], &[u8]) = match class {
        Class::Html => return Vec::new(),
        Class::Css => (b"<style", b"</style"),
        Class::Script | Class::Json => (b"<script", b"</script"),
        Class::Svg => (b"<svg", b"</svg>"),
    };
    let mut parts = Vec::new();
    let mut rest = html;
    while let Some(at) = find(rest, open) {
        rest = &rest[at..];
        let (Some(tag), Some(end)) = (find(rest, b">"), find(rest, close)) else {
            break;
        };
        if class == Class::Svg {
            parts.push(rest[..end + close.len()].to_vec());
        } else if tag < end && is_of(class, &rest[..tag]) {
            parts.push(rest[tag + 1..end].trim_ascii().to_vec());
        }
        rest = &rest[end..];
    }
    parts
}

/// True if a `style` or `script` start tag opens a text of the class.
fn is_of(class: Class, tag: &[u8]) -> bool {
    let json = find(tag, b"json").is_some();
    match class {
        Class::Json => json,
        Class::Script => {
            !json
                && (find(tag, b"type=").is_none()
                    || find(tag, b"javascript").is_some()
                    || find(tag, b"module").is_some())
        }
        Class::Html | Class::Css | Class::Svg => true,
    }
}

/// Returns the first place of `needle`.
pub(crate) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}
