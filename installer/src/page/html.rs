//! What a page loads, from its markup.
use lol_html::send::Element;
use url::Url;

use super::{Destination, Reference, css, discovery, media, srcset};

/// Inline styles of one page that are looked through.
const MAX_STYLE: usize = 4 * 1024 * 1024;
/// `srcdoc` frames within one another that are looked through.
const MAX_SRCDOC: usize = 3;

/// An element whose end matters.
#[derive(Clone, Copy)]
pub(super) enum Opened {
    Picture,
    Template,
}

/// What is known of a document as far as it was read.
pub(super) struct Page {
    base: Url,
    base_set: bool,
    depth: usize,
    found: Vec<Reference>,
    /// The last icon declared; a browser loads one.
    icon: Option<Reference>,
    /// Per open `picture`: the candidate that its sources decided on.
    pictures: Vec<Option<String>>,
    templates: usize,
    style: String,
    style_applies: bool,
}

impl Page {
    pub(super) fn new(url: Url, depth: usize) -> Self {
        Self {
            base: url,
            base_set: false,
            depth,
            found: Vec::new(),
            icon: None,
            pictures: Vec::new(),
            templates: 0,
            style: String::new(),
            style_applies: true,
        }
    }

    pub(super) fn element(&mut self, element: &Element<'_, '_>) -> Option<Opened> {
        let tag = element.tag_name();
        let attribute = |name: &str| element.get_attribute(name).map(|value| unescape(&value));
        if tag == "template" {
            self.templates += 1;
            return Some(Opened::Template);
        }
        if self.templates > 0 {
            return None;
        }
        if let Some(style) = attribute("style").filter(|style| style.contains("url(")) {
            self.found.extend(css::discover(&style, &self.base));
        }
        match tag.as_str() {
            "base" => self.set_base(attribute("href")),
            "link" => self.link(&attribute),
            "script" => {
                let kind = attribute("type").unwrap_or_default();
                if is_javascript(&kind) && !element.has_attribute("nomodule") {
                    self.add(attribute("src"), Destination::Script);
                }
            }
            "style" => {
                self.flush_style();
                self.style_applies = media::applies(&attribute("media").unwrap_or_default());
            }
            "picture" => {
                self.pictures.push(None);
                return Some(Opened::Picture);
            }
            "source" => self.source(&attribute),
            "img" => {
                let chosen = self.pictures.last().cloned().flatten();
                let own = || {
                    let (set, sizes, src) = (attribute("srcset"), attribute("sizes"), attribute("src"));
                    srcset::choose(set.as_deref(), sizes.as_deref(), src.as_deref())
                };
                self.add(chosen.or_else(own), Destination::Image);
            }
            "image" | "use" | "feimage" => {
                self.add(
                    attribute("href").or_else(|| attribute("xlink:href")),
                    Destination::Image,
                );
            }
            "input" if attribute("type").is_some_and(|kind| kind.eq_ignore_ascii_case("image")) => {
                self.add(attribute("src"), Destination::Image);
            }
            "video" => self.add(attribute("poster"), Destination::Image),
            "body" | "table" | "tr" | "td" | "th" | "thead" | "tbody" | "tfoot" => {
                self.add(attribute("background"), Destination::Image);
            }
            "iframe" | "frame" => self.frame(attribute("srcdoc"), attribute("src")),
            "embed" => self.add(attribute("src"), Destination::Other),
            "object" => self.add(attribute("data"), Destination::Other),
            _ => {}
        }
        None
    }

    pub(super) fn close(&mut self, opened: Opened) {
        match opened {
            Opened::Picture => {
                self.pictures.pop();
            }
            Opened::Template => self.templates = self.templates.saturating_sub(1),
        }
    }

    fn set_base(&mut self, href: Option<String>) {
        if let (false, Some(href)) = (self.base_set, href) {
            self.base_set = true;
            if let Ok(base) = self.base.join(href.trim()) {
                self.base = base;
            }
        }
    }

    fn link(&mut self, attribute: &impl Fn(&str) -> Option<String>) {
        let rel = attribute("rel").unwrap_or_default().to_ascii_lowercase();
        let rel: Vec<&str> = rel.split_ascii_whitespace().collect();
        let kind = attribute("type").unwrap_or_default();
        let applies = media::applies(&attribute("media").unwrap_or_default());
        let href = attribute("href");
        if rel.contains(&"stylesheet") {
            let css = kind.is_empty() || kind.trim().eq_ignore_ascii_case("text/css");
            if css && !rel.contains(&"alternate") && attribute("disabled").is_none() {
                let destination = if applies {
                    Destination::Style
                } else {
                    Destination::InactiveStyle
                };
                self.add(href, destination);
            }
        } else if rel.contains(&"icon") {
            if let Some(icon) = self.resolve(href, Destination::Image).filter(|_| applies) {
                self.icon = Some(icon);
            }
        } else if rel.contains(&"modulepreload") {
            self.add(href, Destination::Script);
        } else if rel.contains(&"preload") && applies {
            match attribute("as").unwrap_or_default().to_ascii_lowercase().as_str() {
                "image" => {
                    let (set, sizes) = (attribute("imagesrcset"), attribute("imagesizes"));
                    let chosen = srcset::choose(set.as_deref(), sizes.as_deref(), href.as_deref());
                    self.add(chosen, Destination::Image);
                }
                "style" => self.add(href, Destination::Style),
                "script" => self.add(href, Destination::Script),
                "font" => self.add(href, Destination::Font),
                "fetch" => self.add(href, Destination::Other),
                _ => {}
            }
        }
    }

    /// A `source` of a `picture`; those of `video` and `audio` have no `srcset`.
    fn source(&mut self, attribute: &impl Fn(&str) -> Option<String>) {
        let Some(picture @ None) = self.pictures.last_mut() else {
            return;
        };
        let kind = attribute("type").unwrap_or_default().to_ascii_lowercase();
        let shown = [
            "",
            "image/avif",
            "image/webp",
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/svg+xml",
        ];
        if shown.contains(&kind.as_str()) && media::applies(&attribute("media").unwrap_or_default()) {
            let (set, sizes) = (attribute("srcset"), attribute("sizes"));
            *picture = srcset::choose(set.as_deref(), sizes.as_deref(), None);
        }
    }

    fn frame(&mut self, srcdoc: Option<String>, src: Option<String>) {
        match srcdoc {
            Some(srcdoc) if self.depth < MAX_SRCDOC => {
                let inner =
                    discovery::discover_nested(srcdoc.as_bytes(), &self.base, Some("utf-8"), self.depth + 1);
                self.found.extend(inner);
            }
            Some(_) => {}
            None => self.add(src, Destination::Frame),
        }
    }

    pub(super) fn style_text(&mut self, text: &str, last: bool) {
        if self.templates == 0 && self.style.len() + text.len() <= MAX_STYLE {
            self.style.push_str(text);
        }
        if last {
            self.flush_style();
        }
    }

    /// What was found since the last call.
    pub(super) fn take_found(&mut self) -> Vec<Reference> {
        std::mem::take(&mut self.found)
    }

    /// What was found since the last call, with what only the document's end decides.
    pub(super) fn finish(&mut self) -> Vec<Reference> {
        self.flush_style();
        let icon = self.icon.take();
        self.found.extend(icon);
        self.take_found()
    }

    fn flush_style(&mut self) {
        let style = std::mem::take(&mut self.style);
        if self.style_applies {
            self.found.extend(css::discover(&style, &self.base));
        }
    }

    fn add(&mut self, target: Option<String>, destination: Destination) {
        self.found.extend(self.resolve(target, destination));
    }

    fn resolve(&self, target: Option<String>, destination: Destination) -> Option<Reference> {
        Reference::resolve(&target?, &self.base, destination)
    }
}

/// The `type`s of a script that runs (HTML Living Standard 4.12.1).
fn is_javascript(kind: &str) -> bool {
    let kind = kind.trim().to_ascii_lowercase();
    matches!(kind.as_str(), "" | "module")
        || kind.ends_with("/javascript")
        || kind.ends_with("/ecmascript")
        || matches!(
            kind.as_str(),
            "application/x-javascript" | "text/x-javascript" | "text/jscript" | "text/livescript"
        )
}

/// Resolves the character references that occur in URLs; the parser hands attributes out as written.
fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest reference looked for is `&#x10FFFF;`.
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        match end.and_then(|end| Some((reference(&rest[1..end])?, end + 1))) {
            Some((character, length)) => {
                out.push(character);
                rest = &rest[length..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn reference(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let hex = number.strip_prefix(['x', 'X']);
        let code = hex.map_or_else(|| number.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())?;
        return char::from_u32(code);
    }
    match name {
        "amp" | "AMP" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some('\u{a0}'),
        "sol" => Some('/'),
        "colon" => Some(':'),
        "equals" => Some('='),
        "quest" => Some('?'),
        "period" => Some('.'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(html: &str) -> Vec<String> {
        let url = Url::parse("http://a.test/dir/page").unwrap();
        let found = discovery::discover(html.as_bytes(), &url, None).into_iter();
        found
            .map(|reference| format!("{:?} {}", reference.destination, reference.url))
            .collect()
    }

    #[test]
    fn markup_of_a_usual_page() {
        let html = r##"<!doctype html><title>t</title><link rel="Stylesheet" href="a.css?x=1&amp;y=2">
            <link rel=stylesheet media=print href=print.css><link rel="alternate stylesheet" href=alt.css>
            <link rel="shortcut icon" href=old.ico><link rel=icon href=icon.png><link rel=canonical href=/c>
            <link rel=preload as=font href=f.woff2 crossorigin><link rel=prefetch href=next>
            <script src=//b.test/b.js></script><script type=module src=m.js></script><script nomodule src=no.js></script>
            <script type="application/ld+json" src=no.json></script><script>document.write('<img src=no.png>')</script>
            <style>@import "i.css"; body { background: url(bg.png) }</style>
            <noscript><img src=no.png></noscript><template><img src=no.png></template><!-- <img src=no.png> -->
            <img src="p.png#part"><img data-src=no.png><img src="data:image/gif;base64,AA"><img src="">
            <div style="background:url('d.png')"></div><input type=image src=in.png><video poster=v.jpg src=no.mp4></video>
            <iframe src=frame></iframe><iframe srcdoc="<img src=&quot;doc.png&quot;>" src=no></iframe>
            <svg><image href="s.svg"/><use href="#local"/></svg><embed src=e.swf><img src="https://c.test/c.png">"##;
        let expected = [
            "Style http://a.test/dir/a.css?x=1&y=2",
            "InactiveStyle http://a.test/dir/print.css",
            "Font http://a.test/dir/f.woff2",
            "Script http://b.test/b.js",
            "Script http://a.test/dir/m.js",
            "Style http://a.test/dir/i.css",
            "Image http://a.test/dir/bg.png",
            "Image http://a.test/dir/p.png",
            "Image http://a.test/dir/d.png",
            "Image http://a.test/dir/in.png",
            "Image http://a.test/dir/v.jpg",
            "Frame http://a.test/dir/frame",
            "Image http://a.test/dir/doc.png",
            "Image http://a.test/dir/s.svg",
            "Other http://a.test/dir/e.swf",
            "Image https://c.test/c.png",
            "Image http://a.test/dir/icon.png",
        ];
        assert_eq!(found(html), expected);
    }

    #[test]
    fn base_counts_once_and_from_where_it_stands() {
        let html = "<img src=1><base href=/other/><img src=2><base href=/no/><img src=3>";
        let paths = [
            "http://a.test/dir/1",
            "http://a.test/other/2",
            "http://a.test/other/3",
        ];
        assert_eq!(found(html), paths.map(|path| format!("Image {path}")));
    }

    #[test]
    fn pictures_choose_by_type_media_and_density() {
        let html = r#"<picture><source type=image/jxl srcset=1.jxl><source media="(max-width: 600px)" srcset=2.webp>
            <source type=image/webp srcset="3.webp, 3b.webp 2x"><source srcset=4.png><img src=5.png></picture>
            <picture><source media=print srcset=6.png><img src=7.png srcset="8.png 1x, 9.png 2x"></picture><img src=10.png>
            <video><source src=no.mp4></video>"#;
        let paths = ["3.webp", "8.png", "10.png"];
        assert_eq!(
            found(html),
            paths.map(|path| format!("Image http://a.test/dir/{path}"))
        );
    }

    #[test]
    fn broken_markup_ends_quietly() {
        for html in [
            "",
            "<",
            "<img src=",
            "<picture><source srcset=a><img",
            "<base href='http://['><img src=x>",
            "<style>a{b:url(",
        ] {
            let _ = found(html);
        }
        let url = Url::parse("http://a.test/").unwrap();
        let _ = discovery::discover(&[0xff, b'<', 0xfe, 0x00, b'i', b'>'], &url, Some("utf-16"));
        assert_eq!(
            unescape("a?b&c=1&amp;d&#47;&#x2f;&bogus;&#xffffffff;é&"),
            "a?b&c=1&d//&bogus;&#xffffffff;é&"
        );
    }
}
