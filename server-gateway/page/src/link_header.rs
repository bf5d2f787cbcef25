//! The `Link` field of responses (RFC 8288), including 103 responses (RFC 8297).
use http::{HeaderMap, header};
use url::Url;

use crate::{
    Certainty, Reference, Viewport,
    link::{Link, Linked},
    reference::Base,
};

/// Maximum number of links read per response.
const MAX_LINKS: usize = 200;
/// Maximum number of parameters per link.
const MAX_PARAMETERS: usize = 32;

/// Returns the references that the `Link` fields of a response from `url` make a browser load: preloads,
/// module preloads and style sheets (supported by few browsers, therefore [`Likely`](Certainty::Likely)).
pub fn discover_link_header(headers: &HeaderMap, url: &Url, viewport: Viewport) -> Vec<Reference> {
    let base = Base::new(url);
    let mut found = Vec::new();
    for field in headers.get_all(header::LINK) {
        let field = String::from_utf8_lossy(field.as_bytes());
        let mut rest = field.as_ref();
        while let Some((link, after)) = next_link(rest) {
            rest = after;
            if found.len() >= MAX_LINKS {
                return found;
            }
            let Some(link) = link else {
                continue;
            };
            if let Linked::Resource(reference) = link.resource(&base, viewport) {
                let sheet = link.rel.to_ascii_lowercase().contains("stylesheet");
                found.push(if sheet {
                    reference.with_certainty(Certainty::Likely)
                } else {
                    reference
                });
            }
        }
    }
    found
}

/// Parses the link at the start of `text`; returns the link and the text after its comma, `None` at the end.
/// A link about another resource than the response (`anchor`) is omitted.
fn next_link(text: &str) -> Option<(Option<Link>, &str)> {
    let start = text.find('<')?;
    let (target, mut rest) = text[start + 1..].split_once('>')?;
    let mut link = Link {
        href: Some(target.trim().to_owned()),
        ..Link::default()
    };
    let mut anchored = false;
    let mut seen: Vec<String> = Vec::new();
    while let Some((name, value, after)) = parameter(rest) {
        rest = after;
        // The first of several parameters of one name applies (RFC 8288 section 3.3).
        if seen.len() >= MAX_PARAMETERS || seen.contains(&name) {
            continue;
        }
        match name.as_str() {
            "rel" => link.rel = value,
            "as" => link.destination = Some(value),
            "type" => link.kind = Some(value),
            "media" => link.media = Some(value),
            "title" => link.title = Some(value),
            "crossorigin" => link.cross_origin = Some(value),
            "referrerpolicy" => link.referrer_policy = Some(value),
            "fetchpriority" => link.priority = Some(value),
            "nonce" => link.nonce = Some(value.into_boxed_str()),
            "integrity" => link.integrity = Some(value.into_boxed_str()),
            "imagesrcset" => link.image_srcset = Some(value),
            "imagesizes" => link.image_sizes = Some(value),
            "anchor" => anchored = true,
            _ => {}
        }
        seen.push(name);
    }
    let rest = rest.find(',').map_or("", |comma| &rest[comma + 1..]);
    Some(((!anchored).then_some(link), rest))
}

/// Parses the parameter at the start of `text`: name in lower case, value, and remaining text.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let text = text
        .trim_start()
        .strip_prefix(';')?
        .trim_start_matches([' ', '\t', ';']);
    let end = text.find(['=', ';', ',', ' ', '\t']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let name = name.to_ascii_lowercase();
    let Some(value) = rest.trim_start().strip_prefix('=') else {
        return Some((name, String::new(), rest));
    };
    let value = value.trim_start();
    if let Some(quoted) = value.strip_prefix('"') {
        let (value, rest) = unquote(quoted);
        return Some((name, value, rest));
    }
    let end = value.find([';', ',']).unwrap_or(value.len());
    let (value, rest) = value.split_at(end);
    Some((name, value.trim().to_owned(), rest))
}

/// Parses a quoted string (RFC 9110 section 5.6.4) after its opening quote; returns its content and the
/// remaining text.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fields: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append("link", http::HeaderValue::from_bytes(field.as_bytes()).unwrap());
        }
        let url = Url::parse("http://a.test/dir/page").unwrap();
        let found = discover_link_header(&headers, &url, Viewport::default()).into_iter();
        found
            .map(|reference| {
                format!(
                    "{:?} {:?} {}",
                    reference.destination, reference.cross_origin, reference.url
                )
            })
            .collect()
    }

    #[test]
    fn links_of_responses() {
        let fields = [
            "<a.css>; rel=preload; as=style, </b.js>;rel=\"preload\";as=\"script\"; nopush",
            "<f.woff2>; rel=preload; as=font; crossorigin, <//c.test/m.js>; REL=\"x modulepreload\"",
            "<s.css>; rel=stylesheet; title=\"a, \\\"b\\\"; <c>\", <i,1.png>; rel=preload; as=image",
            "<next>; rel=next, <no.css>; rel=preload; as=style; media=print, <no.js>; rel=preload",
            "<x.js>; rel=preload; rel=next; as=script; as=style, <no.js>; rel=preload; as=script; anchor=\"#x\"",
            "<>; rel=preload; as=image; imagesrcset=\"one.png 1x, two.png 2x\"",
        ];
        let expected = [
            "Style None http://a.test/dir/a.css",
            "Script None http://a.test/b.js",
            "Font Anonymous http://a.test/dir/f.woff2",
            "Script Anonymous http://c.test/m.js",
            "Style None http://a.test/dir/s.css",
            "Image None http://a.test/dir/i,1.png",
            "Script None http://a.test/dir/x.js",
            "Image None http://a.test/dir/one.png",
        ];
        assert_eq!(found(&fields), expected);
    }

    #[test]
    fn malformed_links_end_without_error() {
        for field in [
            "",
            "<",
            "<>",
            "<x",
            "<x>;",
            "<x>;;;=",
            "<x>; rel=\"preload",
            "<x>; rel=\"\\",
            "x; rel=preload",
            "<é>;é=é",
            ",,,<x>,,",
        ] {
            assert_eq!(found(&[field]), Vec::<String>::new(), "{field}");
        }
        let many = "<x>; rel=preload; as=image,".repeat(10_000);
        assert_eq!(found(&[&many]).len(), MAX_LINKS);
        let parameters = format!("<x>{}", ";a=b".repeat(10_000));
        assert!(found(&[&parameters]).is_empty());
    }
}
