//! Generated pairs of an old and a new text, from a seed, similar to those of the web: editions of a page,
//! pages of one site, bundles under a new name, style sheets of two releases, responses of an API.
use std::fmt::Write as _;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A source and a target.
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

/// Function that writes an old and a new text.
type Write = fn(&mut Author) -> (String, String);

/// Seed of the pairs of tests and measurements.
pub(crate) const SEED: u64 = 0x3284;

/// Returns `count` pairs of each kind.
pub(crate) fn generated(seed: u64, count: u64) -> Vec<Pair> {
    let kinds: [(&str, Write); 5] = [
        ("edition", Author::editions),
        ("sibling", Author::siblings),
        ("bundle", Author::bundles),
        ("style", Author::styles),
        ("answer", Author::answers),
    ];
    let mut pairs = Vec::new();
    for (number, (kind, write)) in (0..).zip(kinds) {
        for round in 0..count {
            let mut author = Author::new(seed ^ number << 32 ^ round << 40);
            let (old, new) = write(&mut author);
            pairs.push(Pair {
                name: format!("{kind}-{round}"),
                old: old.into_bytes(),
                new: new.into_bytes(),
            });
        }
    }
    pairs
}

/// Returns `count` each of front pages, bundles and style sheets of a megabyte or two.
pub(crate) fn large(seed: u64, count: u64) -> Vec<Pair> {
    let kinds: [(&str, u64, Write); 3] = [
        ("edition", 10, Author::editions),
        ("bundle", 16, Author::bundles),
        ("style", 12, Author::styles),
    ];
    let mut pairs = Vec::new();
    for (kind, scale, write) in kinds {
        for round in 0..count {
            let mut author = Author::new(seed ^ scale << 32 ^ round << 40);
            author.scale = scale;
            let (old, new) = write(&mut author);
            pairs.push(Pair {
                name: format!("large {kind}-{round}"),
                old: old.into_bytes(),
                new: new.into_bytes(),
            });
        }
    }
    pairs
}

/// Generates text with the words of one language, which differ in frequency.
struct Author {
    rng: ChaCha8Rng,
    words: Vec<String>,
    /// Number of list entries for each entry of an ordinary text.
    scale: u64,
}

const SYLLABLES: &[&str] = &[
    "an", "be", "ca", "der", "ein", "fo", "ge", "hal", "ing", "ja", "ko", "le", "ment", "no", "or", "pre",
    "qua", "re", "st", "ti", "un", "ver", "wa", "xi", "yo", "zu", "sch", "tion", "lich", "ber",
];
const WORDS: u64 = 1200;

impl Author {
    fn new(seed: u64) -> Self {
        let mut author = Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            words: Vec::new(),
            scale: 1,
        };
        for _ in 0..WORDS {
            let word = (0..1 + author.below(4))
                .map(|_| SYLLABLES[author.pick(SYLLABLES.len())])
                .collect();
            author.words.push(word);
        }
        author
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.rng.next_u64() % limit.max(1)
    }

    /// Returns an index into a list of this length.
    fn pick(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a word; the first words of the vocabulary are more frequent.
    fn word(&mut self) -> String {
        let most = 1 + self.below(WORDS);
        let index = self.below(most);
        self.words[usize::try_from(index).unwrap_or_default()].clone()
    }

    fn text(&mut self, words: u64, between: &str) -> String {
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        words.join(between)
    }

    fn sentences(&mut self, count: u64) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let length = 5 + self.below(14);
            let sentence = self.text(length, " ");
            let _ = write!(text, "{}{}. ", sentence[..1].to_uppercase(), &sentence[1..]);
        }
        text
    }

    fn hex(&mut self, digits: usize) -> String {
        format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64())[..digits].to_owned()
    }

    /// Returns the list with replacements, insertions, deletions and moves of `percent` of its entries.
    fn edited(&mut self, list: &[String], percent: u64, fresh: fn(&mut Self) -> String) -> Vec<String> {
        let mut edited = Vec::new();
        for entry in list {
            if !self.chance(percent) {
                edited.push(entry.clone());
                continue;
            }
            match self.below(5) {
                0 => edited.push(fresh(self)),
                1 => edited.extend([fresh(self), entry.clone()]),
                2 => {}
                3 => {
                    let at = self.pick(edited.len() + 1);
                    edited.insert(at, entry.clone());
                }
                _ => {
                    let (from, to) = (self.word(), self.word());
                    edited.push(entry.replacen(&from, &to, 2));
                }
            }
        }
        edited
    }

    fn teaser(&mut self) -> String {
        let (section, slug, image) = (self.word(), self.text(5, "-"), self.hex(24));
        let (headline, length) = (self.sentences(1), 1 + self.below(3));
        let (lead, id, minute) = (self.sentences(length), self.below(9_999_999), self.below(60));
        format!(
            "<article class=\"teaser teaser--wide\" data-id=\"{id}\" data-component=\"TeaserContainer\">\n  \
             <a class=\"teaser__link\" href=\"/{section}/{slug}-{id}.html?wt_mc=nl.red\" title=\"{headline}\">\n    \
             <figure class=\"teaser__image\"><img loading=\"lazy\" \
             src=\"https://cdn.site.test/imgs/04/{image}.jpeg?w=320&amp;q=70\" width=\"320\" height=\"180\" \
             alt=\"{headline}\"></figure>\n    <h2 class=\"teaser__headline\"><span>{headline}</span></h2>\n    \
             <p class=\"teaser__lead\">{lead}</p>\n    \
             <time datetime=\"2022-01-30T10:{minute:02}:00+01:00\">10:{minute:02}</time>\n  </a>\n</article>\n"
        )
    }

    fn frame(&mut self) -> (String, String) {
        let (css, js) = (self.hex(8), self.hex(8));
        let mut nav = String::new();
        for _ in 0..20 + self.below(40) {
            let (slug, name) = (self.text(2, "-"), self.text(2, " "));
            let _ = writeln!(
                nav,
                "  <li class=\"nav__item\"><a class=\"nav__link\" href=\"/{slug}/\">{name}</a></li>"
            );
        }
        let name = self.text(3, " ");
        let head = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{name}</title>\n\
             <link rel=\"stylesheet\" href=\"/assets/main.{css}.css\">\n<script defer src=\"/assets/app.{js}.js\"></script>\n\
             </head>\n<body class=\"page page--front\">\n<nav class=\"nav\"><ul>\n{nav}</ul></nav>\n<main>\n"
        );
        let foot = format!(
            "</main>\n<footer class=\"footer\"><ul>\n{nav}</ul><p>{name}</p></footer>\n</body>\n</html>\n"
        );
        (head, foot)
    }

    /// A front page and its next edition.
    fn editions(&mut self) -> (String, String) {
        let (head, foot) = self.frame();
        let count = (5 + self.below(250)) * self.scale;
        let old: Vec<String> = (0..count).map(|_| self.teaser()).collect();
        let percent = 2 + self.below(40);
        let new = self.edited(&old, percent, Self::teaser);
        let nonce = |author: &mut Self, list: &[String]| {
            let (one, two) = (author.hex(16), author.hex(16));
            format!(
                "{head}<script nonce=\"{one}\">boot(\"{two}\")</script>{}{foot}",
                list.concat()
            )
        };
        (nonce(self, &old), nonce(self, &new))
    }

    /// Two articles of one site.
    fn siblings(&mut self) -> (String, String) {
        let (head, foot) = self.frame();
        let common: Vec<String> = (0..3 + self.below(20)).map(|_| self.teaser()).collect();
        let article = |author: &mut Self| {
            let mut body = String::new();
            for _ in 0..4 + author.below(30) {
                let length = 2 + author.below(5);
                let paragraph = author.sentences(length);
                let _ = writeln!(
                    body,
                    "<p class=\"article__text\" data-area=\"text\">{paragraph}</p>"
                );
            }
            let more = author.edited(&common, 30, Self::teaser).concat();
            format!(
                "{head}<h1 class=\"article__title\">{}</h1>\n{body}{more}{foot}",
                author.sentences(1)
            )
        };
        (article(self), article(self))
    }

    fn module(&mut self) -> String {
        let id = self.below(9000);
        let mut code =
            format!("{id}:function(e,t,n){{\"use strict\";n.r(t),n.d(t,{{default:function(){{return r}}}});");
        for _ in 0..1 + self.below(9) {
            let (name, other, member) = (self.word(), self.word(), self.below(400));
            let _ = match self.below(4) {
                0 => write!(
                    code,
                    "var {}=n({member}),{}=n.n({});",
                    &name[..1],
                    &other[..1],
                    &name[..1]
                ),
                1 => write!(
                    code,
                    "function {name}(e,t){{if(!e||void 0===t)return null;return e.{other}(t,{member})}}"
                ),
                2 => write!(
                    code,
                    "e.addEventListener(\"{name}\",(function(t){{t.preventDefault(),e.{other}={member}}}));"
                ),
                _ => write!(
                    code,
                    "const {name}={{{other}:{member},label:\"{}\",enabled:!0}};",
                    self.text(3, " ")
                ),
            };
        }
        code + "},\n"
    }

    /// A script bundle of two releases.
    fn bundles(&mut self) -> (String, String) {
        let list: Vec<String> = (0..(10 + self.below(500)) * self.scale)
            .map(|_| self.module())
            .collect();
        let percent = 1 + self.below(20);
        let edited = self.edited(&list, percent, Self::module);
        let bundle = |author: &mut Self, list: &[String]| {
            let (name, map) = (author.hex(20), author.hex(8));
            let modules = list.concat();
            format!(
                "(self.webpackChunk=self.webpackChunk||[]).push([[{}],{{\n{modules}}}]);\n//# sourceMappingURL=app.{name}.{map}.js.map\n",
                author.below(999)
            )
        };
        (bundle(self, &list), bundle(self, &edited))
    }

    fn rule(&mut self) -> String {
        let (block, element) = (self.word(), self.word());
        let mut rule = format!(".{block}__{element}{{");
        for _ in 0..1 + self.below(6) {
            let value = self.below(64);
            let _ = match self.below(5) {
                0 => write!(rule, "margin:{value}px auto;"),
                1 => write!(rule, "color:#{};", self.hex(6)),
                2 => write!(rule, "padding:0 {value}px;"),
                3 => write!(rule, "display:flex;flex:0 0 {value}%;"),
                _ => write!(
                    rule,
                    "font:{}00 {value}px/1.5 var(--font-{block});",
                    self.below(9)
                ),
            };
        }
        rule + "}\n"
    }

    /// A style sheet of two releases.
    fn styles(&mut self) -> (String, String) {
        let list: Vec<String> = (0..(20 + self.below(1500)) * self.scale)
            .map(|_| self.rule())
            .collect();
        let percent = 1 + self.below(20);
        let edited = self.edited(&list, percent, Self::rule);
        (list.concat(), edited.concat())
    }

    fn record(&mut self) -> String {
        let (id, name, count) = (self.hex(12), self.text(3, " "), self.below(100_000));
        let (tag, state) = (self.word(), ["open", "closed", "merged"][self.pick(3)]);
        format!(
            "{{\"id\":\"{id}\",\"name\":\"{name}\",\"state\":\"{state}\",\"count\":{count},\"tags\":[\"{tag}\"],\
             \"url\":\"https://api.site.test/v2/items/{id}\",\"updated_at\":\"2022-02-01T01:{:02}:13Z\"}},\n",
            count % 60
        )
    }

    /// Two responses of an API to the same request.
    fn answers(&mut self) -> (String, String) {
        let list: Vec<String> = (0..5 + self.below(400)).map(|_| self.record()).collect();
        let percent = 2 + self.below(50);
        let edited = self.edited(&list, percent, Self::record);
        (format!("[{}]", list.concat()), format!("[{}]", edited.concat()))
    }
}
