//! Correctness of page loads: requests as browsers send them, through separate agent and gateway processes,
//! compared with the origin's data. Tests of speed are skipped if the agent does not accelerate page loads;
//! all others apply to every agent.
mod cached_pages;
mod codings;
mod corpus;
mod credentials;
mod cross_site_probing;
mod delta_bases;
mod devices;
mod hold_out;
mod images;
mod kept_savings;
mod killed_programs;
mod large_pages;
mod methods;
mod response_fields;
mod revisits;
pub(crate) mod rules;
mod savings;
mod second_device;
mod slow_responses;
mod validators;
mod variants;
mod visitor;
mod web_standards;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use anyhow::Result;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, RawResponse},
    origin::{AnswerBody, Origin},
};
use serde_json::Value;

use crate::{
    content::whole,
    pair::{Pair, Setup},
};

/// An origin whose responses are computed without waiting.
async fn origin(
    answer: impl Fn(&Request<Incoming>) -> Response<AnswerBody> + Clone + Send + Sync + 'static,
) -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        move |request: Request<Incoming>| std::future::ready(answer(&request)),
    )
    .await
}

/// An origin of `site.test` and `other.test`, and a pair that resolves both names.
async fn site(
    answer: impl Fn(&Request<Incoming>) -> Response<AnswerBody> + Clone + Send + Sync + 'static,
) -> Result<(Origin, Pair)> {
    let origin = origin(answer).await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    Ok((origin, pair))
}

/// Options of a pair that resolves `site.test` and `other.test` to one origin.
fn both_hosts(origin: &Origin) -> Setup {
    Setup::resolving(&[("site.test", origin.address()), ("other.test", origin.address())])
}

/// A response with these fields.
fn answer(status: u16, fields: &[(&str, &str)], body: impl Into<bytes::Bytes>) -> Response<AnswerBody> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(whole(body)).expect("a valid response")
}

/// A page that refers to these objects, each by the element for its file name extension.
fn page(objects: &[&str]) -> String {
    let mut html = "<!doctype html><title>Page</title>\n<link rel=icon href=data:,>\n".to_owned();
    for object in objects {
        let path = object.split('?').next().unwrap_or_default();
        html.push_str(&match path.rsplit('.').next() {
            Some("css") => format!("<link rel=stylesheet href=\"{object}\">\n"),
            Some("js") => format!("<script src=\"{object}\"></script>\n"),
            Some("html") => format!("<iframe src=\"{object}\"></iframe>\n"),
            _ => format!("<img src=\"{object}\">\n"),
        });
    }
    html
}

/// Value of a request's field, or an empty string.
fn request_field(request: &Request<Incoming>, name: &str) -> String {
    let value = request.headers().get(name);
    value
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .unwrap_or_default()
}

/// Number of requests for a path at the origin.
fn request_count(origin: &Origin, path: &str) -> usize {
    origin.seen().iter().filter(|seen| seen.path == path).count()
}

/// The body of a response that must be complete with status 200.
fn body(response: &RawResponse) -> &[u8] {
    assert_eq!(
        (response.status, response.ending),
        (200, Ending::Whole),
        "{:?}: {:.300}",
        response.fields,
        response.text()
    );
    &response.body
}

/// True if the agent accelerates page loads.
fn accelerates_page_loads(status: &Value) -> bool {
    status["pushed_objects"].is_u64()
}

/// A unique text.
fn unique_text(what: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Relaxed) as u64;
    let noise = crate::content::noise(24, number + 7919 * u64::from(std::process::id()));
    let hex: String = noise.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{what}-{hex}")
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The files below a folder that contain these bytes.
fn files_with(folder: &Path, wanted: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes
            .windows(wanted.len())
            .any(|window| window == wanted.as_bytes())
    };
    files(folder).into_iter().filter(holds).collect()
}

/// The databases below a folder, recognised by their first bytes.
fn databases(folder: &Path) -> Vec<PathBuf> {
    let is_database = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.starts_with(b"SQLite format 3\0")
    };
    files(folder).into_iter().filter(is_database).collect()
}

/// The peak memory of a process in bytes.
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
