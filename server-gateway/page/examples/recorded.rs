//! Compares discovery with recorded pages: the share of the objects loaded by a browser that discovery finds,
//! and the objects that discovery finds although no browser loaded them, among those that the documents
//! permit. Prints one line per page; with `--verbose` also the URLs.
//!
//! `cargo run -p longhaul-page --example recorded [--verbose] [FOLDER]`; without a folder, the one in
//! `LONGHAUL_CORPUS`, or the shared one beside the checkout. Pages change with every load: recorded objects
//! that the HTML does not refer to were loaded by scripts, and objects missing in a recording were often
//! omitted by its recorder.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the comparison is the output, and a missing corpus is said loudly"
)]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    rc::Rc,
};

use http::{HeaderMap, Method, header};
use longhaul_page::{
    Certainty, Destination, Discovery, Initiator, MediaType, Reference, Viewport, Vocabulary,
    discover_css_for, discover_link_header,
};
use longhaul_replay::warc::{Exchange, Recording};
use url::Url;

/// Maximum steps from the page to a reference of a frame's style sheet, with redirects.
const MAX_DEPTH: usize = 8;

fn main() {
    let mut folder = None;
    let mut verbose = false;
    for argument in std::env::args().skip(1) {
        if argument == "--verbose" {
            verbose = true;
        } else {
            folder = Some(PathBuf::from(argument));
        }
    }
    let folder = folder
        .or_else(|| std::env::var_os("LONGHAUL_CORPUS").map(PathBuf::from))
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"));
    let mut files = recordings(&folder);
    if files.is_empty() {
        eprintln!("SKIPPED: no recorded pages at {}", folder.display());
    }
    files.sort();
    println!(
        "{:20} {:>8} {:>6} {:>6} {:>7} {:>8} | {:>6} {:>6} {:>8} {:>8} | {:>7}",
        "page",
        "recorded",
        "found",
        "%",
        "% bytes",
        "unlikely",
        "unseen",
        "sure",
        "likely",
        "unlikely",
        "refused"
    );
    for file in files {
        match Recording::open(&file) {
            Ok(recording) => Comparison::of(&recording).print(&file, verbose),
            Err(error) => eprintln!("{}: {error}", file.display()),
        }
    }
}

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".warc.gz"))
        .collect()
}

/// A reference to follow.
struct Found {
    reference: Reference,
    depth: usize,
    /// Redirects that lead to the reference.
    redirects: usize,
    /// Vocabulary of the containing document.
    vocabulary: Rc<Vocabulary>,
    /// The containing document.
    initiator: Initiator,
}

/// Result of the comparison of found with recorded objects.
#[derive(Default)]
struct Comparison {
    /// Recorded subresources, with their lengths.
    recorded: BTreeMap<String, usize>,
    found: BTreeMap<String, Certainty>,
    /// Found references without a recorded response.
    unseen: Vec<Reference>,
    /// Found references that the document does not load, or whose document's objects are not planned.
    refused: Vec<Reference>,
    /// Text of the page, its frames and style sheets.
    markup: String,
}

impl Comparison {
    fn of(recording: &Recording) -> Self {
        let mut comparison = Self::default();
        for exchange in recording.exchanges() {
            if exchange.method == Method::GET {
                let length = exchange.response.body.len();
                comparison.recorded.insert(exchange.url.to_string(), length);
            }
        }
        let Some(page) = recording.main_page() else {
            return comparison;
        };
        let start = Found {
            reference: Reference::new(page.clone(), Destination::Document),
            depth: 0,
            redirects: 0,
            vocabulary: Rc::new(Vocabulary::default()),
            initiator: Initiator::page(page, &HeaderMap::new()),
        };
        let mut open = VecDeque::from([start]);
        let mut seen = BTreeSet::from([page.clone()]);
        while let Some(mut found) = open.pop_front() {
            let Some(exchange) = recording.answer(&Method::GET, &found.reference.url) else {
                comparison.unseen.push(found.reference);
                continue;
            };
            comparison
                .found
                .insert(exchange.url.to_string(), found.reference.certainty);
            if found.depth >= MAX_DEPTH {
                continue;
            }
            let is_redirect = exchange.response.status.is_redirection();
            let redirects = if is_redirect { found.redirects + 1 } else { 0 };
            let (next, initiator) = comparison.follow(&mut found, exchange);
            for next in next {
                let admitted = initiator
                    .as_ref()
                    .and_then(|initiator| Some((initiator, initiator.admit(next.clone(), redirects)?)));
                let Some((initiator, reference)) = admitted else {
                    comparison.refused.push(next);
                    continue;
                };
                if seen.insert(reference.url.clone()) {
                    open.push_back(Found {
                        reference,
                        depth: found.depth + 1,
                        redirects,
                        vocabulary: Rc::clone(&found.vocabulary),
                        initiator: initiator.clone(),
                    });
                }
            }
        }
        comparison.found.remove(page.as_str());
        comparison.recorded.remove(page.as_str());
        comparison
    }

    /// Returns the references in the response to a reference, and the document that loads them, if they are
    /// planned.
    fn follow(&mut self, found: &mut Found, exchange: &Exchange) -> (Vec<Reference>, Option<Initiator>) {
        let reference = &found.reference;
        let headers = &exchange.response.headers;
        let mut initiator = Some(found.initiator.clone());
        if exchange.response.status.is_redirection() {
            let target = headers
                .get(header::LOCATION)
                .and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| reference.url.join(target).ok());
            let redirected = target.map(|url| Reference {
                url,
                ..reference.clone()
            });
            return (redirected.into_iter().collect(), initiator);
        }
        let codings: Vec<&str> = headers
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .filter_map(|coding| coding.to_str().ok())
            .collect();
        let Ok(body) = longhaul_replay::page::decode(&codings.join(","), &exchange.response.body) else {
            return (Vec::new(), None);
        };
        let MediaType { charset, .. } = MediaType::of_response(headers);
        let (url, viewport) = (&reference.url, Viewport::default());
        let mut next = discover_link_header(headers, url, viewport);
        match reference.destination {
            Destination::Document | Destination::Frame => {
                initiator = if reference.destination == Destination::Document {
                    Some(Initiator::page(url, headers))
                } else {
                    found.initiator.frame(url, headers, reference.sandbox)
                };
                // References that are not planned are still counted.
                let document = initiator.clone().unwrap_or_else(|| Initiator::page(url, headers));
                let mut discovery = Discovery::of(document, charset.as_deref(), viewport);
                next.extend(discovery.write(&body));
                found.vocabulary = Rc::new(discovery.vocabulary());
                next.extend(discovery.finish());
            }
            Destination::Style => {
                let vocabulary = &found.vocabulary;
                let css = discover_css_for(&body, url, charset.as_deref(), viewport, vocabulary);
                next.extend(css);
            }
            Destination::InactiveStyle
            | Destination::Script
            | Destination::Image
            | Destination::Font
            | Destination::Other
            | Destination::Icon
            | Destination::Manifest => return (next, initiator),
        }
        self.markup.push_str(&String::from_utf8_lossy(&body));
        (next, initiator)
    }

    fn print(&self, file: &Path, verbose: bool) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let known = |url: &&String| self.recorded.contains_key(*url);
        let found: Vec<&String> = self.found.keys().filter(known).collect();
        let bytes = |urls: &mut dyn Iterator<Item = &String>| -> usize {
            urls.filter_map(|url| self.recorded.get(url)).sum()
        };
        let unlikely = found
            .iter()
            .filter(|url| self.found.get(**url) == Some(&Certainty::Unlikely));
        let unseen = |certainty| {
            let unseen = self.unseen.iter();
            unseen
                .filter(|reference| reference.certainty == certainty)
                .count()
        };
        println!(
            "{:20} {:8} {:6} {:6.1} {:7.1} {:8} | {:6} {:6} {:8} {:8} | {:7}",
            name.trim_end_matches(".warc.gz"),
            self.recorded.len(),
            found.len(),
            percent(found.len(), self.recorded.len()),
            percent(
                bytes(&mut found.iter().copied()),
                bytes(&mut self.recorded.keys())
            ),
            unlikely.count(),
            self.unseen.len(),
            unseen(Certainty::Sure),
            unseen(Certainty::Likely),
            unseen(Certainty::Unlikely),
            self.refused.len(),
        );
        if !verbose {
            return;
        }
        for url in self.recorded.keys().filter(|url| !self.found.contains_key(*url)) {
            println!(
                "  missed {} {url}",
                if self.mentions(url) {
                    "IN-MARKUP"
                } else {
                    "by-script"
                }
            );
        }
        for (url, _) in self
            .found
            .iter()
            .filter(|(_, certainty)| **certainty == Certainty::Unlikely)
        {
            println!("  recorded though unlikely {url}");
        }
        for reference in &self.refused {
            println!("  refused {:?} {}", reference.destination, reference.url);
        }
        for reference in &self.unseen {
            println!(
                "  unseen {:?} {:?} {}",
                reference.destination, reference.certainty, reference.url
            );
        }
    }

    /// Returns true if markup or style sheets contain the last segment of the URL's path.
    fn mentions(&self, url: &str) -> bool {
        let url = Url::parse(url).ok();
        let last = url.as_ref().and_then(|url| url.path_segments()?.next_back());
        last.is_some_and(|last| !last.is_empty() && self.markup.contains(last))
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    let as_f64 = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    100.0 * as_f64(part) / as_f64(whole.max(1))
}
