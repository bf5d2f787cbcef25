//! URL patterns of similar pages, and URLs that derive from a page's URL.
use url::Url;

/// Returns the pattern of a page's URL. Path segments that look like names of single things (numbers, hashes,
/// slugs) and query values are wildcards. One template most likely generates all pages of a pattern.
pub(super) fn pattern(page: &Url) -> String {
    let mut text = page.origin().ascii_serialization();
    for segment in segments(page) {
        text.push('/');
        if is_single(segment) {
            text.push('*');
            text.push_str(extension(segment));
        } else {
            text.push_str(segment);
        }
    }
    let mut names: Vec<String> = page.query_pairs().map(|(name, _)| name.into_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_NAMES);
    for (index, name) in names.iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(name);
    }
    text
}

/// Returns a URL relative to a page if both are same-origin, without fragment.
pub(super) fn relative(page: &Url, url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let path = &url[url::Position::BeforePath..];
    // Two leading slashes would start a host.
    if url.origin() == page.origin() && !path.starts_with("//") {
        path.to_owned()
    } else {
        url.into()
    }
}

/// Returns the URL from which [`relative`] was derived.
pub(super) fn absolute(page: &Url, relative: &str) -> Option<Url> {
    let url = page.join(relative).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// Like [`relative`], with the wildcard parts of the page's own URL replaced by marks, so that the result
/// applies to other pages of the same pattern.
pub(super) fn generalised(page: &Url, url: &Url) -> String {
    let mut text = relative(page, url);
    for (index, part) in wild_parts(page).iter().enumerate() {
        let Some(mark) = mark(index) else { break };
        text = replace_token(&text, part, &mark);
    }
    text
}

/// Returns the URL for this page of a [`generalised`] one; `None` if this page lacks a part.
pub(super) fn specialised(page: &Url, generalised: &str) -> Option<Url> {
    let mut text = generalised.to_owned();
    for (index, part) in wild_parts(page).iter().enumerate() {
        let Some(mark) = mark(index) else { break };
        text = text.replace(&mark, part);
    }
    if text.contains(MARK) {
        return None;
    }
    absolute(page, &text)
}

/// Returns the wildcard parts of [`pattern`], in order. Short parts are omitted, because they occur anywhere
/// by chance.
fn wild_parts(page: &Url) -> Vec<String> {
    let of_path = segments(page)
        .filter(|segment| is_single(segment))
        .map(|segment| segment[..segment.len() - extension(segment).len()].to_owned());
    // Not decoded: decoded values could contain any character.
    let of_query = page.query().unwrap_or_default().split('&');
    let of_query = of_query.filter_map(|pair| Some(pair.split_once('=')?.1.to_owned()));
    of_path
        .chain(of_query)
        .filter(|part| part.len() >= MIN_PART)
        .take(MAX_PARTS)
        .collect()
}

/// `\u{1}` and a letter: URLs contain no control characters.
fn mark(index: usize) -> Option<String> {
    let letter = b"abcdefgh".get(index)?;
    Some(format!("{MARK}{}", char::from(*letter)))
}

/// Replaces `part` where it is not inside a longer word or number.
fn replace_token(text: &str, part: &str, mark: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(part) {
        let end = at + part.len();
        let before = rest[..at].chars().next_back().or_else(|| out.chars().next_back());
        let after = rest[end..].chars().next();
        let inside = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
        out.push_str(&rest[..at]);
        if inside(before) || inside(after) {
            out.push_str(part);
        } else {
            out.push_str(mark);
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn segments(page: &Url) -> impl Iterator<Item = &str> {
    page.path_segments().into_iter().flatten().take(MAX_SEGMENTS)
}

/// Returns true if a segment denotes one of many things: it contains digits (and is not just a version such
/// as `v2`), is long, or is a slug of at least three words.
fn is_single(segment: &str) -> bool {
    let stem = &segment[..segment.len() - extension(segment).len()];
    let digits = stem.bytes().filter(u8::is_ascii_digit).count();
    let version = stem.len() <= 3 && stem.starts_with(['v', 'V']);
    let words = stem.split(['-', '_']).filter(|word| !word.is_empty()).count();
    digits > 0 && !version || stem.len() > MAX_FIXED || words >= 3
}

/// Returns the file name extension with its dot, if any.
fn extension(segment: &str) -> &str {
    let Some(dot) = segment.rfind('.') else {
        return "";
    };
    let name = &segment[dot + 1..];
    let plain = !name.is_empty() && name.len() <= 5 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    if dot > 0 && plain { &segment[dot..] } else { "" }
}

const MARK: char = '\u{1}';
/// Path segments beyond this number are ignored.
const MAX_SEGMENTS: usize = 16;
const MAX_NAMES: usize = 16;
const MAX_PARTS: usize = 8;
const MIN_PART: usize = 3;
/// Longer segments are hashes, titles or encoded data.
const MAX_FIXED: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn urls_of_similar_pages_have_the_same_pattern() {
        for (page, expected) in [
            ("http://a.test/", "http://a.test/"),
            ("http://a.test/news/2026/11/21/", "http://a.test/news/*/*/*/"),
            (
                "http://a.test/a/some-long-title-here.html",
                "http://a.test/a/*.html",
            ),
            ("http://a.test/v2/about-us", "http://a.test/v2/about-us"),
            ("http://a.test/p?id=5&lang=en&id=6#x", "http://a.test/p?id&lang"),
            ("http://a.test:81/x.php?q=a", "http://a.test:81/x.php?q"),
            (
                "http://a.test/9f86d081884c7d659a2feaa0c55ad015",
                "http://a.test/*",
            ),
        ] {
            assert_eq!(pattern(&url(page)), expected, "{page}");
        }
    }

    #[test]
    fn urls_of_one_page_predict_those_of_a_similar_page() {
        let one = url("http://a.test/article/1234/first-of-all-things?ref=home");
        let two = url("http://a.test/article/98765/the-second-big-thing?ref=news");
        for (of_one, of_two) in [
            (
                "http://a.test/api/1234/comments",
                "http://a.test/api/98765/comments",
            ),
            (
                "http://a.test/c?id=1234&t=first-of-all-things",
                "http://a.test/c?id=98765&t=the-second-big-thing",
            ),
            ("http://b.test/x.js", "http://b.test/x.js"),
            ("http://b.test/12345/x", "http://b.test/12345/x"),
        ] {
            let general = generalised(&one, &url(of_one));
            assert_eq!(specialised(&two, &general), Some(url(of_two)), "{general:?}");
            assert_eq!(specialised(&one, &general), Some(url(of_one)));
        }
        let general = generalised(&one, &url("http://a.test/api/1234"));
        assert_eq!(specialised(&url("http://a.test/plain"), &general), None);
    }

    #[test]
    fn relative_urls_round_trip() {
        let page = url("http://a.test/dir/page");
        for text in [
            "http://a.test/x?y=1",
            "http://a.test//x",
            "http://b.test/z",
            "https://a.test/x",
        ] {
            let relative = relative(&page, &url(text));
            assert_eq!(absolute(&page, &relative), Some(url(text)), "{relative}");
        }
    }
}
