//! Content security policies, selectors and `unicode-range`: what a page's own policies and elements leave of its references.
use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue, header};
use longhaul_page::{Destination, Discovery, Initiator, Reference, Viewport};
use url::Url;

/// Separates policy, style sheet and document.
const SEPARATOR: u8 = 0;

fn page() -> Url {
    "https://site.test/a/page".parse().expect("a URL")
}

/// The URLs that the document loads, of which it admits those that `policy` allows.
fn loaded(policy: Option<&HeaderValue>, css: &[u8], html: [&[u8]; 2]) -> BTreeSet<(Url, Destination)> {
    let mut response = HeaderMap::new();
    if let Some(policy) = policy {
        response.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    }
    let initiator = Initiator::page(&page(), &response);
    let mut discovery = Discovery::of(initiator.clone(), Some("utf-8"), Viewport::default());
    let markup = discovery.markup();
    let mut found: Vec<Reference> = discovery.write(html[0]);
    let (of_sheet, mut pending) = markup.sheet(css, &page(), None);
    found.extend(of_sheet);
    found.extend(discovery.write(html[1]));
    found.extend(markup.inline_fonts());
    found.extend(discovery.finish());
    found.extend(markup.displayed(&mut pending));
    let admitted = found
        .into_iter()
        .filter_map(|reference| initiator.admit(reference, 0));
    admitted
        .map(|reference| (reference.url, reference.destination))
        .collect()
}

/// Up to two zero bytes separate a policy, a style sheet and a document that arrives in two pieces. A policy only takes
/// references away, and what remains can be requested.
pub(crate) fn page_policies_and_sheets(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == SEPARATOR);
    let [policy, css, html] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let (first, second) = html.split_at(html.len() / 2);
    let Ok(policy) = HeaderValue::from_bytes(policy) else {
        return;
    };
    let with = loaded(Some(&policy), css, [first, second]);
    for (url, _) in &with {
        assert!(
            matches!(url.scheme(), "http" | "https") && url.has_host(),
            "{url}"
        );
    }
    // Inline styles, base URLs and upgrades depend on the policy as well.
    let text = String::from_utf8_lossy(policy.as_bytes()).to_ascii_lowercase();
    if ["style", "default", "base", "upgrade", "sandbox"]
        .iter()
        .any(|name| text.contains(name))
    {
        return;
    }
    let without = loaded(None, css, [first, second]);
    let added: Vec<_> = with.difference(&without).collect();
    assert!(added.is_empty(), "the policy added {added:?}");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let page = "<p class=a id=b><img src=//cdn.test:8080/x/1.png><img src=2.png><script src=//a.b.cdn.test/s.js nonce=n integrity=sha256-ab></script>";
    let inline = "<style>.a{background:url(3.png)} .z{background:url(4.png)} @font-face{font-family:f;src:url(f.woff)}</style>";
    let sheet = ".a, #b:hover { background: url(//cdn.test/5.png) } .late > x { background: url(6.png); font: bold 12px g }";
    let fonts = "@font-face { font-family: g; src: url(g.woff2); unicode-range: U+61-7A, U+4??, U+0-10FFFF; font-weight: 100 900 }";
    [
        (
            "img-src 'self' *.cdn.test:8080 https:; script-src 'nonce-n' 'strict-dynamic'",
            sheet,
            page.to_owned() + inline,
        ),
        (
            "img-src cdn.test/x/ .cdn.test * ; script-src 'sha256-ab'",
            fonts,
            page.to_owned() + "<x class=late>text",
        ),
        (
            "frame-src 'none'",
            fonts,
            "<iframe srcdoc=\"<img src=7.png>\"></iframe>".to_owned() + page,
        ),
        (
            "",
            sheet,
            "<meta http-equiv=content-security-policy content=\"img-src 'none'\">".to_owned() + page,
        ),
    ]
    .map(|(policy, css, html)| [policy.as_bytes(), css.as_bytes(), html.as_bytes()].join(&SEPARATOR))
    .to_vec()
}
