//! Recorded sites: the scripted browser loads the same objects as the demonstration's loader.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::{Method, Response, Uri};
use hyper::body::Bytes;
use longhaul_loader::{
    Outcome,
    model::{Route, Rules, load_counted},
};
use longhaul_replay::{
    page::{self, Client, Loader},
    warc::Recording,
};
use url::Url;

use crate::origin::{Origin, status};

fn recordings() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/corpus");
    let folder = std::env::var_os("LONGHAUL_CORPUS").map_or(beside, PathBuf::from);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!(
            "SKIPPED: no recorded pages at {}: set LONGHAUL_CORPUS to their folder",
            folder.display()
        );
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "gz"))
        .collect();
    paths.sort();
    paths
}

fn answer(recording: &Recording, uri: &Uri, host: &str) -> Response<Bytes> {
    let url = if uri.scheme().is_some() {
        uri.to_string()
    } else {
        format!("https://{host}{uri}")
    };
    let url: Url = url.parse().unwrap();
    match recording.answer(&Method::GET, &url) {
        Some(exchange) => {
            let mut response = Response::new(exchange.response.body.clone());
            *response.status_mut() = exchange.response.status;
            *response.headers_mut() = exchange.response.headers.clone();
            response
        }
        None => status(404),
    }
}

async fn compare(path: &Path, recording: Recording) {
    let main = recording.main_page().unwrap().clone();
    let recording = Arc::new(recording);
    let origin = Origin::start_proxy(move |request| {
        let host = request.headers()["host"].to_str().unwrap();
        answer(&recording, request.uri(), host)
    })
    .await;
    let client = Client::new(page::Route::Proxy(origin.address), Arc::clone(&origin.trust));
    let reference = Loader::new(client, None).load(&main, |_, _| {}).await;
    let mut options = origin.options();
    options.route = Route::Proxy(origin.address);
    for rules in [Rules::persistent(6), Rules::pipelined(), Rules::Http10] {
        options.rules = rules;
        let counted = load_counted(&main, &options, None).await.unwrap();
        let objects: BTreeMap<&Url, _> = counted
            .load
            .objects
            .iter()
            .map(|object| (&object.url, object))
            .collect();
        for expected in &reference.objects {
            let object = objects.get(&expected.url);
            let object =
                object.unwrap_or_else(|| panic!("{}: {} is not asked for", path.display(), expected.url));
            let redirects = object.status.is_some_and(|status| (300..400).contains(&status));
            if let (page::Outcome::Loaded { body, .. }, false) = (&expected.outcome, redirects) {
                assert_eq!(object.outcome, Outcome::Delivered, "{}", object.url);
                assert_eq!(
                    object.body_hash,
                    Some(blake3::hash(body).into()),
                    "{}",
                    object.url
                );
            }
        }
        let known = |url: &Url| reference.objects.iter().any(|expected| expected.url == *url);
        let hops = counted
            .load
            .objects
            .iter()
            .filter(|object| object.status.is_some_and(|status| status / 100 == 3));
        let more = counted
            .load
            .objects
            .iter()
            .filter(|object| !known(&object.url))
            .count();
        assert!(
            more <= hops.count(),
            "{}: {more} objects of its own",
            path.display()
        );
        assert_eq!(counted.load.dns_lookups, Some(0));
    }
}

#[tokio::test]
async fn both_loaders_load_the_same_objects_of_recorded_sites() {
    for path in recordings() {
        let recording = Recording::open(&path).unwrap();
        compare(&path, recording).await;
    }
}
