//! Processor time of searching pages that are made to be slow: each multiplies two things of which a page may have many.
//! Prints milliseconds for each page, with its size in KiB. A page has a second in all.
#![expect(clippy::print_stdout, reason = "the results are the output")]
use std::time::{Duration, Instant};

use longhaul_page::{Discovery, Initiator, Reference, Viewport};
use url::Url;

/// Sizes of the pieces in which a document arrives.
const PIECES: [usize; 2] = [64 * 1024, 64];
/// Processor time of the one page.
const MOST: Duration = Duration::from_secs(2);

struct Page {
    name: &'static str,
    html: String,
    /// External style sheets of the document.
    sheets: Vec<String>,
}

fn repeat(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

fn pages() -> Vec<Page> {
    let page = |name, html| Page {
        name,
        html,
        sheets: Vec::new(),
    };
    let images = repeat(5000, |n| format!("<img src=//h{n}.test/{n}>"));
    let policy = repeat(1020, |n| format!(" https://a{n}.test"));
    let one_host = repeat(1020, |n| format!(" https://h1.test/{n}/"));
    let meta =
        |sources: &str| format!("<meta http-equiv=content-security-policy content=\"img-src{sources}\">");
    let unmatched = repeat(700, |n| format!(".n{n},"));
    let rules = repeat(100, |n| format!("{unmatched}.z{{background:url({n})}}"));
    let classes = repeat(40_000, |n| format!("<p class=c{n}>"));
    let nested = format!(
        "{}{}{}",
        repeat(30, |_| format!("p,{unmatched}.z{{")),
        repeat(1000, |n| format!(".y{n}{{background:url({n})}}")),
        "}".repeat(30)
    );
    let faces = repeat(2000, |n| {
        let ranges = repeat(90, |r| format!("U+{:x},", 0x3000 + r * 3 + n % 3));
        format!(
            "@font-face{{font-family:f{};src:url({n});unicode-range:{ranges}U+1}}",
            n % 90
        )
    });
    let fonts = repeat(4000, |n| {
        format!(".k{n}{{font-family:f{};font-weight:{}00}}", n % 90, n % 9 + 1)
    });
    let letters = repeat(30_000, |n| {
        let letter = char::from_u32(0x4e00 + u32::try_from(n % 20_000).unwrap_or(0));
        format!("<b class=c{n}>{}", letter.unwrap_or('x'))
    });
    vec![
        page(
            "ordinary",
            repeat(500, |n| {
                format!("<div class=c{n}><img src={n}><p>Text of a page.</p></div>")
            }),
        ),
        page("policies x images", meta(&policy) + &images),
        page(
            "paths of one host x images",
            meta(&one_host) + &repeat(5000, |n| format!("<img src=//h1.test/{n}>")),
        ),
        page(
            "policies x srcdoc",
            meta(&policy) + &"<iframe srcdoc=x></iframe>".repeat(40_000),
        ),
        page("srcdoc", "<iframe srcdoc='<img src=x>'></iframe>".repeat(25_000)),
        page("selectors x names", format!("<style>{rules}</style>{classes}")),
        page(
            "selectors inside selectors",
            format!("<style>{nested}</style>{classes}"),
        ),
        page(
            "style elements",
            "<style>p{background:url(x)}</style>".repeat(30_000),
        ),
        page("style attributes", "<p style='background:url(x)'>".repeat(35_000)),
        page(
            "srcset",
            repeat(200, |n| {
                format!(
                    "<img srcset='{}'>",
                    repeat(100, |c| format!("{n}-{c} {}w,", c + 1))
                )
            }),
        ),
        page("depth", "<div>".repeat(200_000)),
        page(
            "attributes",
            format!("<link {}>", repeat(150_000, |n| format!("a{n} "))),
        ),
        page(
            "integrity",
            meta(&repeat(1020, |n| format!(" 'sha256-{n}'"))).replace("img-src", "script-src")
                + &repeat(1000, |n| {
                    format!(
                        "<script src={n} integrity='{}'></script>",
                        repeat(80, |h| format!("sha256-{h} "))
                    )
                }),
        ),
        Page {
            name: "sheets of selectors x names",
            html: classes.clone(),
            sheets: vec![rules.repeat(10); 5],
        },
        Page {
            name: "sheets of nested selectors",
            html: classes,
            sheets: vec![nested; 5],
        },
        Page {
            name: "faces x characters",
            html: letters,
            sheets: vec![faces + &fonts; 3],
        },
    ]
}

/// Searches a page as the gateway does: its style sheets after the first piece, and what they display after each piece.
fn search(page: &Page, piece: usize) -> usize {
    let url = Url::parse("http://h1.test/").unwrap_or_else(|_| unreachable!("a constant"));
    let initiator = Initiator::page(&url, &http::HeaderMap::new());
    let mut discovery = Discovery::of(initiator.clone(), Some("utf-8"), Viewport::default());
    let markup = discovery.markup();
    let (mut pending, mut found) = (Vec::new(), 0);
    let mut admitted = |references: Vec<Reference>| {
        let allowed = references.into_iter().filter_map(|one| initiator.admit(one, 0));
        found += allowed.count();
    };
    for (index, part) in page.html.as_bytes().chunks(piece).enumerate() {
        admitted(discovery.write(part));
        if index == 0 {
            for css in &page.sheets {
                let (found, waiting) = markup.sheet(css.as_bytes(), &url, None);
                admitted(found);
                pending.push(waiting);
            }
        }
        admitted(markup.inline_fonts());
        for waiting in &mut pending {
            admitted(markup.displayed(waiting));
        }
    }
    admitted(discovery.finish());
    found
}

fn main() {
    println!(
        "{:32} {:>8} {:>10} {:>10} {:>7}",
        "page", "KiB", "64 KiB, ms", "64 B, ms", "found"
    );
    let mut slow = 0;
    for page in pages() {
        let mut times = Vec::new();
        let mut found = 0;
        for piece in PIECES {
            let begun = Instant::now();
            found = search(&page, piece);
            times.push(begun.elapsed());
        }
        slow += times.iter().filter(|time| **time > MOST).count();
        let size = page.html.len() + page.sheets.iter().map(String::len).sum::<usize>();
        let [whole, pieces] = [times[0], times[1]].map(|time| time.as_secs_f64() * 1e3);
        println!(
            "{:32} {:>8} {whole:>10.1} {pieces:>10.1} {found:>7}",
            page.name,
            size / 1024
        );
    }
    println!("{slow} of these took more than {MOST:?}");
}
