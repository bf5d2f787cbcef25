//! Pairs from recorded pages: editions of a URL, and objects of one type and host.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use longhaul_codec::{ContentDecodingLimits, OriginCoding, decode_content};
use longhaul_replay::warc::{Exchange, Recording};

use crate::pairs::Pair;

/// Pages with more than one edition, oldest first.
const EDITIONS: &[(&str, usize)] = &[
    ("heise", 4),
    ("spiegel", 4),
    ("sueddeutsche", 4),
    ("wikipedia-main", 2),
    ("backbonejs", 2),
];
/// Types of text objects.
const TEXTS: &[&str] = &["text/", "javascript", "json", "xml"];
/// Smaller objects are not worth a base.
const SMALL: usize = 200;

/// Returns the folder of the recordings: `LONGHAUL_CORPUS`, or the shared folder beside the checkout.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("LONGHAUL_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    folder.is_dir().then_some(folder)
}

struct Object {
    name: String,
    /// Host and media type.
    kind: (String, String),
    body: Vec<u8>,
}

/// Returns all pairs, or `None` without recordings.
pub(crate) fn recorded() -> Option<Vec<Pair>> {
    let folder = folder()?;
    let mut pairs = Vec::new();
    for (page, editions) in EDITIONS {
        let editions: Vec<BTreeMap<String, Object>> = (1..=*editions)
            .map(|number| objects(&folder.join(format!("{page}.v{number}.warc.gz"))))
            .collect();
        for (number, two) in (1..).zip(editions.windows(2)) {
            for (url, new) in &two[1] {
                if let Some(old) = two[0].get(url) {
                    push(&mut pairs, format!("{page}.v{number} {}", new.name), old, new);
                }
            }
        }
        for (number, edition) in (1..).zip(&editions) {
            let mut latest: BTreeMap<&(String, String), &Object> = BTreeMap::new();
            for new in edition.values() {
                if let Some(old) = latest.insert(&new.kind, new) {
                    push(
                        &mut pairs,
                        format!("{page}.v{number} sibling {}", new.name),
                        old,
                        new,
                    );
                }
            }
        }
    }
    Some(pairs)
}

fn push(pairs: &mut Vec<Pair>, name: String, old: &Object, new: &Object) {
    if old.body != new.body {
        pairs.push(Pair {
            name,
            old: old.body.clone(),
            new: new.body.clone(),
        });
    }
}

/// Returns the texts of a recording by URL.
fn objects(file: &Path) -> BTreeMap<String, Object> {
    let recording = match Recording::open(file) {
        Ok(recording) => recording,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    recording.exchanges().iter().filter_map(object).collect()
}

fn object(exchange: &Exchange) -> Option<(String, Object)> {
    let media = exchange.response.media_type();
    if !exchange.response.status.is_success() || !TEXTS.iter().any(|text| media.contains(text)) {
        return None;
    }
    let codings = exchange.response.headers.get_all(http::header::CONTENT_ENCODING);
    let codings: Vec<OriginCoding> = codings
        .iter()
        .filter_map(|value| value.to_str().ok()?.trim().parse().ok())
        .collect();
    let body = decode_content(
        &codings,
        &exchange.response.body,
        ContentDecodingLimits::default(),
    )
    .ok()?;
    let host = exchange.url.host_str()?.to_owned();
    let last = exchange
        .url
        .path_segments()
        .and_then(|mut path| path.next_back())
        .unwrap_or_default();
    let name = format!("{host}/…/{}", last.chars().take(24).collect::<String>());
    let kind = (host, media);
    (body.len() >= SMALL).then(|| (exchange.url.to_string(), Object { name, kind, body }))
}
