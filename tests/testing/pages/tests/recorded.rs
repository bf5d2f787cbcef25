//! Recorded pages, from the shared recordings and from folders with errors.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the lints treat functions shared by tests as product code"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use http::Method;
use longhaul_pages::{
    Provenance, Replay, ideal_sizes,
    recorded::{self, FolderError},
};

/// Returns the folder of shared recordings, if it exists.
fn corpus() -> Option<PathBuf> {
    let named = std::env::var_os("LONGHAUL_CORPUS").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/corpus");
    let found = named.unwrap_or(beside);
    if found.is_dir() {
        return Some(found);
    }
    println!(
        "SKIPPED: no recorded pages at {}: set LONGHAUL_CORPUS to their folder",
        found.display()
    );
    None
}

/// Returns a WARC with one response for each (URL, media type, body).
fn warc(exchanges: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (url, media_type, body) in exchanges {
        let block = format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n{body}");
        let record = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        );
        file.extend(record.into_bytes());
    }
    file
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

#[test]
fn the_shared_recordings_can_be_read_as_pages() {
    let Some(corpus) = corpus() else {
        return;
    };
    let pages = recorded::folder(&corpus).unwrap();
    let names: Vec<&str> = pages.iter().map(|page| page.name()).collect();
    assert_eq!(names, recorded::names(&corpus).unwrap());
    assert!(names.is_sorted());
    for page in &pages {
        let main = page.answer(&Method::GET, page.url());
        assert!(main.is_some_and(|answer| answer.status == 200), "{page:?}");
        let facts = page.facts();
        assert_eq!(facts.provenance, Provenance::Recorded);
        let ideal = ideal_sizes(page, &page.objects());
        assert_eq!(ideal.raw, facts.bytes, "{page:?}");
        assert!(ideal.gzip() < ideal.raw, "{page:?}");
        for blocked in page.blocked_hosts() {
            assert!(!page.hosts().contains(blocked), "{page:?}");
        }
        let html_only = ["heise", "spiegel", "sueddeutsche"].contains(&page.name());
        assert_eq!(facts.html_only, html_only, "{page:?}");
        assert_eq!(page.sibling().is_some(), html_only, "{page:?}");
    }
    let editions = |name: &str| {
        let first = recorded::named(&corpus, name).unwrap();
        std::iter::successors(Some(first), longhaul_pages::Page::next_edition).count()
    };
    assert_eq!(
        [editions("heise"), editions("backbonejs"), editions("reddit")],
        [4, 2, 1]
    );
    let sina = recorded::named(&corpus, "sina").unwrap();
    assert!(sina.blocked_hosts().contains(&"cre.mix.sina.com.cn".to_owned()));
}

#[test]
fn editions_are_grouped_and_the_index_is_used() {
    let page = |text: &str| {
        warc(&[
            ("http://a.test/frame", "text/html", "frame"),
            ("http://a.test/", "text/html", text),
            ("http://b.test:8080/x.png", "image/png", "x"),
        ])
    };
    let index = "site\tmain_url\tblock_hosts\na.v1\thttp://a.test/\tads.test\na.v2\thttp://gone.test/\t\n";
    let folder = folder(&[
        ("a.v2.warc", &page("two")),
        ("a.v1.warc", &page("one")),
        ("INDEX.tsv", index.as_bytes()),
        ("README.md", b"no page"),
    ]);
    let pages = recorded::folder(folder.path()).unwrap();
    assert_eq!(pages.len(), 1);
    let first = &pages[0];
    assert_eq!(
        (first.name(), first.url().as_str(), first.edition()),
        ("a", "http://a.test/", 1)
    );
    assert_eq!(first.hosts(), ["a.test", "b.test:8080"]);
    assert_eq!(first.blocked_hosts(), ["ads.test"]);
    assert_eq!(first.sibling(), None, "a frame is not a sibling page");
    let second = first.next_edition().unwrap();
    assert_eq!(
        (second.name(), second.url().as_str(), second.edition()),
        ("a", "http://a.test/frame", 2),
        "a URL that was not recorded is not used as the page"
    );
    let body = |page: &longhaul_pages::Page| page.answer(&Method::GET, first.url()).unwrap().body;
    assert_eq!((&body(first)[..], &body(&second)[..]), (&b"one"[..], &b"two"[..]));
    assert!(second.next_edition().is_none());
}

#[test]
fn folder_errors_contain_file_and_remedy() {
    let sound = warc(&[("http://a.test/", "text/html", "x")]);
    let mut cut = sound.clone();
    cut.truncate(cut.len() - 20);
    let error = recorded::folder(folder(&[("a.warc", &sound), ("b.warc", &cut)]).path()).unwrap_err();
    assert!(
        matches!(&error, FolderError::Warc { file, .. } if file.ends_with("b.warc")),
        "{error}"
    );
    assert!(error.to_string().contains("record 1"), "{error}");

    let image = warc(&[("http://a.test/", "image/png", "x")]);
    let error = recorded::folder(folder(&[("a.warc", &image)]).path()).unwrap_err();
    assert!(matches!(error, FolderError::NoPage { .. }), "{error}");

    let twice = folder(&[("a.warc", &sound), ("a.warc.gz", &sound)]);
    let error = recorded::folder(twice.path()).unwrap_err();
    assert!(matches!(error, FolderError::Twice { .. }), "{error}");

    let error = recorded::folder(folder(&[("x.txt", b"")]).path()).unwrap_err();
    assert!(matches!(error, FolderError::Empty { .. }), "{error}");

    let named = folder(&[("a.warc", &sound), ("b.warc", b"damaged")]);
    assert_eq!(recorded::named(named.path(), "a").unwrap().name(), "a");
    let error = recorded::named(named.path(), "c").unwrap_err();
    assert!(error.to_string().ends_with("existing pages are: a, b"), "{error}");

    let index = folder(&[("a.warc", &sound), ("INDEX.tsv", b"site\tmain_url\na\tnowhere")]);
    let error = recorded::folder(index.path()).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");

    let error = recorded::folder(&named.path().join("none")).unwrap_err();
    assert!(matches!(error, FolderError::Folder { .. }), "{error}");
}

#[test]
fn a_page_recorded_over_https_is_replayed_over_http() {
    let secure = warc(&[
        (
            "https://site.test/",
            "text/html",
            "<img src=https://cdn.test/a.gif>",
        ),
        ("https://cdn.test/a.gif", "image/gif", "GIF89a"),
    ]);
    let folder = folder(&[("site.v1.warc", &secure), ("site.v2.warc", &secure)]);
    let page = recorded::named(folder.path(), "site").unwrap();
    let plain = page.replayed(Replay::Http);
    assert_eq!(page.url().as_str(), "https://site.test/");
    assert_eq!(plain.url().as_str(), "http://site.test/");
    let answer = plain.answer(&Method::GET, plain.url()).unwrap();
    assert!(answer.body.starts_with(b"<img"), "the body stays as recorded");
    let named = "https://cdn.test/a.gif".parse().unwrap();
    assert!(
        plain.answer(&Method::GET, &named).is_some(),
        "references by https are answered"
    );
    let next = plain.next_edition().unwrap();
    assert_eq!(next.url().as_str(), "http://site.test/");
    assert_eq!(plain.replayed(Replay::AsRecorded).url(), page.url());
    let generated = longhaul_pages::reference::named("mail").unwrap();
    assert_eq!(generated.replayed(Replay::Http).url(), generated.url());
}

#[test]
fn a_preloaded_https_domain_is_renamed() {
    let secure = warc(&[
        (
            "https://www.site.test/",
            "text/html",
            "<img src=//cdn.site.test/a.gif><img src=//other.test/b.gif>",
        ),
        ("https://cdn.site.test/a.gif", "image/gif", "GIF89a"),
    ]);
    let index = b"site\tmain_url\tblock_hosts\nsite\thttps://www.site.test/\tads.site.test\n";
    let folder = folder(&[("site.warc", &secure), ("INDEX.tsv", index)]);
    let page = recorded::named(folder.path(), "site").unwrap();
    let domains = ["site.test".to_owned()].into();
    let renamed = page.replayed(Replay::Http).renamed(&domains);
    assert_eq!(renamed.url().as_str(), "http://www.site.tset/");
    let answer = renamed.answer(&Method::GET, renamed.url()).unwrap();
    let expected = b"<img src=//cdn.site.tset/a.gif><img src=//other.test/b.gif>";
    assert_eq!(answer.body, expected.as_slice());
    for host in ["cdn.site.test", "cdn.site.tset"] {
        assert!(
            renamed.hosts().contains(&host.to_owned()),
            "{:?}",
            renamed.hosts()
        );
        let url = format!("http://{host}/a.gif").parse().unwrap();
        assert!(renamed.answer(&Method::GET, &url).is_some(), "{host}");
    }
    assert_eq!(renamed.blocked_hosts(), ["ads.site.test", "ads.site.tset"]);
    assert_eq!(renamed.replayed(Replay::Http).url(), renamed.url());
}

#[test]
fn a_page_that_redirects_to_http_is_returned_unchanged() {
    let block = "HTTP/1.1 302 Found\r\nLocation: http://site.test/\r\nContent-Type: text/html\r\n\r\n";
    let record = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://site.test/\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    );
    let folder = folder(&[("site.warc", record.as_bytes())]);
    let page = recorded::named(folder.path(), "site").unwrap();
    assert_eq!(page.replayed(Replay::Http).url().as_str(), "https://site.test/");
}
