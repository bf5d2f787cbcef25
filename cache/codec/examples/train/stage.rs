//! Preparation of the material: one folder per site, from collections of pages and from packages.
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::material::find;

/// Sites of the measurements, and their domains: excluded from training.
const MEASURED_ON: &[&str] = &[
    "1688",
    "360",
    "alibaba",
    "alicdn",
    "backbonejs",
    "baidu",
    "bdstatic",
    "bento",
    "documentcloud",
    "google",
    "heise",
    "jashkenas",
    "jetzt",
    "manager-magazin",
    "qhimg",
    "redd",
    "reddit",
    "redditstatic",
    "sina",
    "sinaimg",
    "so",
    "spiegel",
    "sueddeutsche",
    "taobao",
    "telepolis",
    "tmall",
    "vk",
    "vkontakte",
    "weibo",
    "wikimedia",
    "wikimediafoundation",
    "wikinews",
    "wikipedia",
    "wiktionary",
    "youtube",
    "ytimg",
];

/// Below a country's domain these labels are registries, not registered names.
const SECOND_LEVELS: &[&str] = &[
    "ac", "asso", "co", "com", "edu", "go", "gob", "gov", "ne", "net", "or", "org",
];

/// Smaller files are fragments of pages.
const SMALLEST_PAGE: u64 = 1500;

/// Sorts the HTML files below `from` by the site that they name. Files that name no site and further captures
/// of a URL are omitted. Returns the number of pages.
pub(crate) fn pages(from: &[&str], to: &Path) -> io::Result<usize> {
    let mut files = Vec::new();
    for folder in from {
        below(Path::new(folder), &mut files)?;
    }
    let mut urls = BTreeSet::new();
    for file in files {
        if file.extension().is_none_or(|extension| extension != "html")
            || fs::metadata(&file)?.len() < SMALLEST_PAGE
        {
            continue;
        }
        let page = fs::read(&file)?;
        let Some(url) = own_url(&page) else { continue };
        let Some(site) = host(&url).and_then(registered) else {
            continue;
        };
        if urls.insert(url) {
            let folder = to.join(site);
            fs::create_dir_all(&folder)?;
            let name = blake3::hash(&page).to_hex();
            fs::write(folder.join(format!("{}.html", &name[..16])), page)?;
        }
    }
    Ok(urls.len())
}

/// Copies packages, each from a folder `NAME-VERSION`; all versions of a package are one site.
pub(crate) fn packages(from: &Path, to: &Path) -> io::Result<usize> {
    let mut count = 0;
    for package in sorted(from)? {
        let name = package
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some(end) = name
            .match_indices('-')
            .map(|(at, _)| at)
            .find(|at| name[at + 1..].starts_with(|first: char| first.is_ascii_digit()))
        else {
            continue;
        };
        let mut files = Vec::new();
        below(&package, &mut files)?;
        for file in files {
            let is_text = file
                .extension()
                .is_some_and(|extension| extension == "css" || extension == "js");
            if is_text && let Ok(inside) = file.strip_prefix(from) {
                let copy = to.join(format!("pkg.{}", &name[..end])).join(inside);
                fs::create_dir_all(copy.parent().unwrap_or(to))?;
                fs::copy(&file, copy)?;
            }
        }
        count += 1;
    }
    Ok(count)
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries?;
    entries.sort();
    Ok(entries)
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in sorted(folder)? {
        if path.is_dir() {
            below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the page's own URL: its canonical link, or its Open Graph URL.
fn own_url(page: &[u8]) -> Option<String> {
    let marks: [(&[u8], &[u8], &[u8]); 2] = [
        (b"<link", b"canonical", b"href="),
        (b"<meta", b"og:url", b"content="),
    ];
    marks.iter().find_map(|(open, mark, attribute)| {
        let mut rest = page;
        while let Some(at) = find(rest, open) {
            rest = &rest[at + open.len()..];
            let tag = &rest[..find(rest, b">").unwrap_or(rest.len())];
            if find(tag, mark).is_some()
                && let Some(at) = find(tag, attribute)
            {
                let value = tag[at + attribute.len()..].trim_ascii_start();
                let value = value
                    .strip_prefix(b"\"")
                    .or_else(|| value.strip_prefix(b"'"))
                    .unwrap_or(value);
                let end = value
                    .iter()
                    .position(|byte| matches!(byte, b'"' | b'\'' | b' '))
                    .unwrap_or(value.len());
                return String::from_utf8(value[..end].to_vec()).ok();
            }
        }
        None
    })
}

fn host(url: &str) -> Option<&str> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))?;
    rest.split(['/', ':', '?', '#'])
        .next()
        .filter(|host| !host.is_empty())
}

/// Returns the registered domain of a host; `None` for sites of the measurements.
fn registered(host: &str) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let labels: Vec<_> = host.split('.').collect();
    if labels.len() < 2 || labels.iter().any(|label| MEASURED_ON.contains(label)) {
        return None;
    }
    let is_below_registry = labels.len() > 2
        && labels[labels.len() - 1].len() == 2
        && SECOND_LEVELS.contains(&labels[labels.len() - 2]);
    let taken = if is_below_registry { 3 } else { 2 };
    Some(labels[labels.len() - taken..].join("."))
}
