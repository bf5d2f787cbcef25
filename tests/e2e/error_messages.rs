//! Mistakes of users and operators, and failures of origins: each gets an error message with cause and
//! remedy.
mod admission;
mod pages;
mod settings;

use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{client::RawResponse, origin::Origin, process::Finished};

use crate::content::ok;

const GATEWAY: &str = "longhaul-gateway";
const AGENT: &str = "longhaul-agent";

/// Prints a message for users and checks that it contains the words and no internal terms.
fn assert_says(what: &str, text: &str, words: &[&str]) {
    println!("--- {what}\n{}", text.trim_end());
    for word in words {
        assert!(text.contains(word), "{what}: no `{word}` in\n{text}");
    }
    for jargon in ["panicked", "RUST_BACKTRACE", "Os {", "Custom {"] {
        assert!(!text.contains(jargon), "{what}: `{jargon}` in\n{text}");
    }
}

/// Visible text of an error page.
fn page_text(page: &RawResponse) -> String {
    let html = page.text();
    let body = html.split("<main>").nth(1).unwrap_or(&html);
    let mut text = String::new();
    for part in body.split('<') {
        let (tag, rest) = part.split_once('>').unwrap_or(("", part));
        if matches!(tag, "/h1" | "/p" | "/dt" | "/dd" | "dt" | "dl") {
            text.push('\n');
        }
        text.push_str(rest);
    }
    text.replace("&#39;", "'")
        .replace("&quot;", "\"")
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

fn assert_page(what: &str, page: &RawResponse, status: u16, says: &[&str]) {
    let text = page_text(page);
    assert_eq!(page.status, status, "{what}: {text}");
    assert_says(&format!("{what} ({status})"), &text, says);
    assert_eq!(page.field("cache-control"), Some("no-store"), "{what}");
    assert!(
        page.field("content-type")
            .is_some_and(|kind| kind.starts_with("text/html")),
        "{what}"
    );
    for part in ["Whose fault?", "What to do"] {
        assert!(text.contains(part), "{what}: {text}");
    }
}

/// Asserts a failure that is no mistake of the configuration.
fn assert_refused(what: &str, finished: &Finished, says: &[&str]) {
    assert_failed(what, finished, 1, says);
}

/// Asserts a failure whose exit status says that the configuration has mistakes (EX_CONFIG of sysexits).
fn assert_misconfigured(what: &str, finished: &Finished, says: &[&str]) {
    assert_failed(what, finished, 78, says);
}

fn assert_failed(what: &str, finished: &Finished, code: i32, says: &[&str]) {
    assert_eq!(finished.code, Some(code), "{what}: {finished:?}");
    assert_eq!(finished.stdout, "", "{what}: nothing on stdout");
    assert_says(what, &finished.stderr, says);
}

async fn hello_origin() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/plain", "hello") },
    )
    .await
}
