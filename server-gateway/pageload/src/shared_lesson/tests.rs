use std::time::Duration;

use longhaul_page::{Destination, learn::RequestForm};
use proptest::{prelude::*, sample::select};

use super::*;

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));
const SECRET: CredentialsSecret = CredentialsSecret::from_bytes([7; 32]);

fn url(text: &str) -> Url {
    Url::parse("http://site.test/").unwrap().join(text).unwrap()
}

fn candidate(text: &str, disclosure: Disclosure) -> Candidate {
    Candidate {
        asked: LearnedRef {
            url: url(text),
            destination: Destination::Script,
            form: RequestForm::default(),
        },
        disclosure,
        host: HostNaming::Named,
        is_literal: false,
        is_absent: false,
    }
}

fn device(number: u8) -> Teacher {
    Teacher::new(&PublicKey::from_bytes([number; 32]), &SECRET)
}

fn lesson(number: u8, page: &str, candidates: Vec<Candidate>) -> SharedLesson {
    SharedLesson {
        unstored: BodyWords::default(),
        page: url(page),
        teacher: device(number),
        candidates,
        used: Vec::new(),
        unused: Vec::new(),
        bodies: Vec::new(),
        cookies: Vec::new(),
        refused: RefusalCounters::default(),
        now: NOW,
    }
}

/// Teaches a lesson with these bodies.
fn teach(lesson: &SharedLesson, learned: &mut Learned, bodies: &[(BodyAudience, &str)]) {
    let mut words = lesson.words();
    for (number, (audience, text)) in bodies.iter().enumerate() {
        words.search_all((number, *audience), text.as_bytes());
    }
    lesson.teach(learned, &words);
}

fn told(learned: &Learned) -> Vec<String> {
    let extras = learned.extras(NOW).into_iter();
    extras.map(|extra| extra.url.path().to_owned()).collect()
}

#[test]
fn one_device_teaches_public_words_and_two_teach_the_rest() {
    let mut learned = Learned::new(&url("/"));
    let script = [(BodyAudience::Everybody, "load('/data.json')")];
    let by_words = Disclosure::PublicWords;
    let candidates = || {
        vec![
            candidate("/data.json", by_words),
            candidate("/alice/data.json", by_words),
            candidate("/both.json", by_words),
            candidate("/json/data", Disclosure::TwoDevices),
            candidate("/json", Disclosure::Never(Refusal::Credentials)),
        ]
    };
    for _ in 0..3 {
        teach(&lesson(1, "/", candidates()), &mut learned, &script);
        assert_eq!(told(&learned), ["/data.json"]);
    }
    let of_second = vec![
        candidate("/both.json", by_words),
        candidate("/json/data", Disclosure::TwoDevices),
        candidate("/bob/data.json", by_words),
        candidate("/json", Disclosure::Never(Refusal::Status)),
    ];
    teach(&lesson(2, "/", of_second), &mut learned, &script);
    assert_eq!(told(&learned), ["/data.json", "/both.json", "/json/data"]);
    // What is kept of the others are hashes.
    let record = learned.page_record();
    for name in ["alice", "bob"] {
        assert!(!record.windows(name.len()).any(|part| part == name.as_bytes()));
    }
}

#[test]
fn words_of_one_body_are_told_to_those_who_get_the_body() {
    let mut learned = Learned::new(&url("/"));
    let chunks = ["/js/9f86d081884c.js", "/js/ab12cd34ef.js"];
    let candidates = || {
        vec![
            candidate(chunks[0], Disclosure::PublicWords),
            candidate(chunks[1], Disclosure::TwoDevices),
        ]
    };
    let bundle = ContentHash::of(b"bundle");
    let of = |number| SharedLesson {
        bodies: vec![(bundle, BodyAudience::ThisVisit)],
        ..lesson(number, "/", candidates())
    };
    let text = [(BodyAudience::ThisVisit, "js/ 9f86d081884c ab12cd34ef .js")];
    for _ in 0..3 {
        teach(&of(1), &mut learned, &text);
    }
    assert_eq!(told(&learned), [""; 0]);
    let behind = learned.behind(NOW);
    let told_behind: Vec<_> = behind.values().flatten().map(|asked| asked.url.path()).collect();
    assert_eq!(told_behind, [chunks[0]]);
    assert!(behind.contains_key(&device(2).hash_of_body(&bundle)));
    // Once two devices asked for it, it is told to all.
    teach(&of(2), &mut learned, &text);
    assert_eq!(told(&learned), chunks);
    assert!(learned.behind(NOW).is_empty());
}

#[test]
fn urls_of_the_document_are_kept_by_their_hashes() {
    let mut learned = Learned::new(&url("/"));
    let literal = |text, disclosure| Candidate {
        is_literal: true,
        host: HostNaming::Unknown,
        ..candidate(text, disclosure)
    };
    let personal = Disclosure::Never(Refusal::Url);
    let candidates = || {
        vec![
            literal("http://img.test/9f86d081884c.png", Disclosure::PublicWords),
            literal("/x?token=1", personal),
            literal("/private.json", Disclosure::Never(Refusal::Status)),
            candidate("/other.json", Disclosure::PublicWords),
        ]
    };
    teach(&lesson(1, "/", candidates()), &mut learned, &[]);
    assert_eq!(told(&learned), [""; 0]);
    let hashes = ["http://img.test/9f86d081884c.png", "/x?token=1"].map(|text| device(2).hash_of(&url(text)));
    let known: Vec<u64> = learned.literals(NOW).into_keys().collect();
    let mut expected = hashes.to_vec();
    expected.sort_unstable();
    assert_eq!(known, expected);
    // However many devices ask for it, a personal URL is never told by its name.
    for number in 2..5 {
        teach(&lesson(number, "/", candidates()), &mut learned, &[]);
    }
    assert_eq!(told(&learned), ["/9f86d081884c.png", "/other.json"]);
    assert!(learned.literals(NOW).contains_key(&hashes[1]));
    let later = NOW + Duration::from_secs(61 * 24 * 3600);
    assert!(learned.literals(later).is_empty());
}

#[test]
fn hosts_that_nothing_names_are_not_told() {
    let mut learned = Learned::new(&url("/"));
    let of_host = |host: &str| Candidate {
        host: HostNaming::Unknown,
        ..candidate(&format!("http://{host}/a.js"), Disclosure::PublicWords)
    };
    let script = [(BodyAudience::ThisVisit, "inject('//cdn.test/a.js'); a.evil.test")];
    for number in 0..3 {
        let lesson = lesson(number, "/", vec![of_host("cdn.test"), of_host("evil.test")]);
        teach(&lesson, &mut learned, &script);
    }
    let extras = learned.extras(NOW);
    let hosts: Vec<_> = extras.iter().filter_map(|extra| extra.url.host_str()).collect();
    assert_eq!(hosts, ["cdn.test"]);
}

#[test]
fn two_devices_teach_which_pushes_are_unused() {
    let mut learned = Learned::new(&url("/"));
    let visit = |learned: &mut Learned, number, used: &[&str], unused: &[&str]| {
        let urls = |list: &[&str]| list.iter().map(|text| url(text)).collect();
        let lesson = SharedLesson {
            used: urls(used),
            unused: urls(unused),
            ..lesson(number, "/", Vec::new())
        };
        teach(&lesson, learned, &[]);
        let suppressed = ["/a.png", "/b.png"].map(|text| learned.suppressed(&url(text), NOW));
        (suppressed, learned.page_record())
    };
    // However often one device says so, it is one device.
    for _ in 0..5 {
        let (suppressed, record) = visit(&mut learned, 1, &[], &["/a.png", "/b.png"]);
        assert_eq!(suppressed, [false, false]);
        let names = [b"a.png", b"b.png"];
        assert!(
            !record
                .windows(5)
                .any(|part| names.iter().any(|name| part == *name))
        );
    }
    // A use between two devices contradicts the first one.
    visit(&mut learned, 3, &["/b.png"], &[]);
    let (suppressed, _) = visit(&mut learned, 2, &[], &["/a.png", "/b.png"]);
    assert_eq!(suppressed, [true, false]);
    let (suppressed, _) = visit(&mut learned, 1, &[], &["/b.png"]);
    assert_eq!(suppressed, [true, true]);
    // A browser asks for them: two devices are needed again.
    visit(&mut learned, 3, &["/a.png", "/b.png"], &[]);
    let (suppressed, _) = visit(&mut learned, 1, &[], &["/a.png"]);
    assert_eq!(suppressed, [false, false]);
    // Requests are no testimonies of unused pushes.
    let asked = lesson(2, "/", vec![candidate("/a.png", Disclosure::TwoDevices)]);
    teach(&asked, &mut learned, &[]);
    assert!(!learned.suppressed(&url("/a.png"), NOW) && told(&learned).is_empty());
}

/// Words that the site's documents contain for everybody.
const VOCABULARY: [&str; 6] = ["api", "v2", "votes", "json", "page", "9f86d081884c"];
/// A word of a bundle that the site sends with cookies, the same to all.
const CHUNK: &str = "ab12cd34ef56";

/// A part of a URL that a script makes.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A word of the site's documents, or the chunk of its bundle.
    Word(&'static str),
    /// A name of the persona, which the site knows by local storage or by the fragment.
    Name,
    /// The persona's number.
    Number,
    /// A token that the page's own document contains for this visit.
    Token,
    /// The value of a cookie that this visit was given.
    Cookie,
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => select(&VOCABULARY).prop_map(Part::Word),
        1 => Just(Part::Word(CHUNK)),
        1 => Just(Part::Name),
        1 => Just(Part::Number),
        1 => Just(Part::Token),
        1 => Just(Part::Cookie),
    ]
}

/// A request: parts of its URL and their places (path or query).
#[derive(Clone, Debug)]
struct Asked {
    parts: Vec<(Part, bool)>,
    /// What its response permits.
    disclosure: Disclosure,
    is_host_named: bool,
    is_literal: bool,
    is_absent: bool,
    /// Another device's lesson planned it, and this visit did not use it.
    is_unused: bool,
}

impl Asked {
    fn candidate(&self, secrets: &Secrets) -> Candidate {
        Candidate {
            host: if self.is_host_named {
                HostNaming::Named
            } else {
                HostNaming::Unknown
            },
            is_literal: self.is_literal,
            is_absent: self.is_absent,
            ..candidate(&secrets.url(&self.parts), self.disclosure)
        }
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let disclosure = select(vec![
        Disclosure::PublicWords,
        Disclosure::TwoDevices,
        Disclosure::Never(Refusal::Credentials),
        Disclosure::Never(Refusal::Url),
    ]);
    let parts = prop::collection::vec((part(), any::<bool>()), 1..5);
    (parts, disclosure, any::<[bool; 4]>()).prop_map(|(parts, disclosure, flags)| {
        let [is_host_named, is_literal, is_absent, is_unused] = flags;
        Asked {
            parts,
            disclosure,
            is_host_named,
            is_literal,
            is_absent,
            is_unused,
        }
    })
}

/// The visits of two personas: who, which page, and the requests.
fn visits() -> impl Strategy<Value = Vec<(bool, usize, Vec<Asked>)>> {
    prop::collection::vec(
        (any::<bool>(), 0..3_usize, prop::collection::vec(asked(), 0..6)),
        1..8,
    )
}

const PAGES: [&str; 3] = ["/article/1001/a", "/article/1002/b", "/article/1003/c"];

/// A persona, and one of its visits.
struct Secrets {
    name: &'static str,
    number: &'static str,
    token: String,
    cookie: String,
}

impl Secrets {
    fn of(is_first: bool, visit: usize) -> Self {
        let (name, number) = if is_first {
            ("alice", "4711")
        } else {
            ("bob", "815")
        };
        Self {
            name,
            number,
            token: format!("tok{visit}{name}77x"),
            cookie: format!("cookie{visit}{name}"),
        }
    }

    fn text(&self, part: Part) -> &str {
        match part {
            Part::Word(word) => word,
            Part::Name => self.name,
            Part::Number => self.number,
            Part::Token => &self.token,
            Part::Cookie => &self.cookie,
        }
    }

    fn url(&self, parts: &[(Part, bool)]) -> String {
        let place = |in_query: bool| {
            let parts = parts.iter().filter(move |(_, of_query)| *of_query == in_query);
            parts.map(|(part, _)| self.text(*part)).collect::<Vec<_>>()
        };
        format!("/{}?q={}", place(false).join("/"), place(true).join("&x="))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    /// Whatever two personas visit, in any order and however often: what a third is told contains no name, number,
    /// token or cookie of either. It is told what waits behind a body only if it gets the body: the bundle, which is the
    /// same for all, and not the document of a visit.
    #[test]
    fn nothing_of_one_persona_is_told_to_another(visits in visits()) {
        let mut learned = PAGES.map(|page| Learned::new(&url(page)));
        let words = VOCABULARY.join(" ");
        let bundle = format!("{words} q x {CHUNK}");
        let of_third = device(9).hash_of_body(&ContentHash::of(bundle.as_bytes()));
        for (visit, (is_first, page, requests)) in visits.iter().enumerate() {
            let secrets = Secrets::of(*is_first, visit);
            let (unused, requested): (Vec<_>, Vec<_>) = requests.iter().partition(|asked| asked.is_unused);
            let candidates = requested.iter().map(|asked| asked.candidate(&secrets)).collect();
            let mut lesson = lesson(u8::from(*is_first), PAGES[*page], candidates);
            lesson.unused = unused.iter().map(|asked| url(&secrets.url(&asked.parts))).collect();
            lesson.cookies = vec![format!("id={}", secrets.cookie).into_bytes()];
            // The page's own document may repeat the cookie and a token; an origin's mistake may even share it.
            let own = format!("<p id={}>{} q x {words}", secrets.token, secrets.cookie);
            let shared = format!("{words} q x {} site.test", secrets.cookie);
            let bodies = [
                (BodyAudience::Everybody, shared.as_str()),
                (BodyAudience::ThisVisit, own.as_str()),
                (BodyAudience::ThisVisit, bundle.as_str()),
            ];
            lesson.bodies = bodies.map(|(audience, text)| (ContentHash::of(text.as_bytes()), audience)).into();
            teach(&lesson, &mut learned[*page], &bodies);
        }
        for learned in &learned {
            let mut behind = learned.behind(NOW);
            let of_bundle = behind.remove(&of_third).unwrap_or_default();
            for extra in learned.extras(NOW).into_iter().chain(of_bundle) {
                for secret in ["alice", "bob", "4711", "815", "tok", "cookie"] {
                    prop_assert!(!extra.url.as_str().contains(secret), "{}", extra.url);
                }
            }
            // What waits behind documents that nobody else gets stands in them.
            for extra in behind.into_values().flatten() {
                for word in extra.url.as_str().split(['/', '?', '&', '=']) {
                    let is_secret = ["alice", "bob", "4711", "815"].contains(&word);
                    prop_assert!(!is_secret && !word.starts_with("cookie"), "{}", extra.url);
                }
            }
        }
    }
}
