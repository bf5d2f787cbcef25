use super::*;
use crate::CrossOrigin;

const DAY: Duration = Duration::from_secs(24 * 3600);
const START: UnixTime = UnixTime::new(Duration::from_secs(1_760_000_000));

fn url(text: &str) -> Url {
    Url::parse("http://a.test/").unwrap().join(text).unwrap()
}

fn asked_for(url: Url, destination: Destination) -> LearnedRef {
    LearnedRef {
        url,
        destination,
        form: RequestForm::default(),
    }
}

/// Memory of a device: both records of each page are serialized and parsed after every visit.
#[derive(Default)]
struct Memory {
    records: BTreeMap<String, Vec<u8>>,
}

#[derive(Default)]
struct Seen<'a> {
    unplanned: &'a [&'a str],
    used: &'a [&'a str],
    unused: &'a [&'a str],
    unused_but_fresh: &'a [&'a str],
}

impl Memory {
    fn learned(&self, page: &str) -> Learned {
        let keys = RecordKeys::of(&url(page));
        let record = |key| self.records.get(key).map(Vec::as_slice);
        Learned::read(&url(page), record(&keys.page), record(&keys.pattern)).unwrap()
    }

    fn visit(&mut self, page: &str, seen: &Seen<'_>, now: UnixTime) {
        let mut learned = self.learned(page);
        let unplanned: Vec<_> = seen
            .unplanned
            .iter()
            .map(|text| asked_for(url(text), Destination::Script))
            .collect();
        let used: Vec<_> = seen.used.iter().map(|text| url(text)).collect();
        let unused = |list: &[&str], held| {
            let unused = list.iter().map(move |text| Unused { url: url(text), held });
            unused.collect::<Vec<_>>()
        };
        let mut all = unused(seen.unused, HeldFresh::No);
        all.extend(unused(seen.unused_but_fresh, HeldFresh::Possible));
        let _unlearned = learned.update(&Visit {
            asked_unplanned: &unplanned,
            asked_behind: &[],
            asked_absent: &[],
            pushed_used: &used,
            pushed_unused: &all,
            teachers: Teachers::OneDevice,
            now,
        });
        let keys = RecordKeys::of(&url(page));
        self.records.insert(keys.page, learned.page_record());
        self.records.insert(keys.pattern, learned.pattern_record());
    }

    fn extras(&self, page: &str, now: UnixTime) -> Vec<String> {
        let extras = self.learned(page).extras(now);
        extras.iter().map(|extra| extra.url.to_string()).collect()
    }

    fn suppressed(&self, page: &str, object: &str, now: UnixTime) -> bool {
        self.learned(page).suppressed(&url(object), now)
    }
}

fn later(days: u32) -> UnixTime {
    START + DAY * days
}

fn asked<'a>(unplanned: &'a [&'a str]) -> Seen<'a> {
    Seen {
        unplanned,
        ..Seen::default()
    }
}

#[test]
fn objects_loaded_by_scripts_are_planned_at_the_next_visit() {
    let mut memory = Memory::default();
    assert!(memory.extras("/p", START).is_empty());
    memory.visit(
        "/p",
        &asked(&["/b.js", "/a.js", "http://cdn.test/c.js", "/b.js"]),
        START,
    );
    let expected = ["http://a.test/b.js", "http://a.test/a.js", "http://cdn.test/c.js"];
    assert_eq!(memory.extras("/p#part", later(1)), expected);
    assert!(memory.extras("/other", later(1)).is_empty());
    assert_eq!(
        memory.learned("/p").extras(later(1))[0].destination,
        Destination::Script
    );
}

#[test]
fn objects_of_two_pages_are_planned_for_all_pages_of_the_pattern() {
    let mut memory = Memory::default();
    memory.visit(
        "/article/1001",
        &asked(&["/lib.js", "/api/1001/votes", "/only-here.js"]),
        START,
    );
    assert!(memory.extras("/article/1003", START).is_empty());
    // A second visit of the same page does not count as a second page.
    memory.visit("/article/1001", &asked(&["/lib.js", "/api/1001/votes"]), START);
    assert!(memory.extras("/article/1003", START).is_empty());
    memory.visit("/article/1002", &asked(&["/lib.js", "/api/1002/votes"]), START);
    assert_eq!(
        memory.extras("/article/1003", START),
        ["http://a.test/lib.js", "http://a.test/api/1003/votes"]
    );
    assert!(memory.extras("/section/news", START).is_empty());
}

#[test]
fn documents_and_other_schemes_are_not_learned() {
    let mut learned = Learned::new(&url("/p"));
    let unplanned = [
        asked_for(url("/next"), Destination::Document),
        asked_for(Url::parse("data:text/css,x").unwrap(), Destination::Style),
        asked_for(url(&format!("/{}", "x".repeat(2000))), Destination::Script),
        asked_for(url("/p"), Destination::Other),
    ];
    let unlearned = learned.update(&Visit {
        asked_unplanned: &unplanned,
        asked_behind: &[],
        asked_absent: &[],
        pushed_used: &[],
        pushed_unused: &[],
        teachers: Teachers::OneDevice,
        now: START,
    });
    assert_eq!((unlearned.too_long, unlearned.no_room), (1, 0));
    assert!(learned.extras(START).is_empty());
}

#[test]
fn cache_busters_are_detected_at_once_or_when_two_visits_differ() {
    let mut memory = Memory::default();
    let first = [
        "/t.js?_=1760000000123",
        "/r.js?r=0.123456789",
        "/ad.js?token=abcd",
        "/ok.js?v=3",
    ];
    memory.visit("/p", &asked(&first), START);
    assert_eq!(
        memory.extras("/p", START),
        ["http://a.test/ad.js?token=abcd", "http://a.test/ok.js?v=3"]
    );
    let second = ["/t.js?_=1760000900123", "/ad.js?token=efgh", "/ok.js?v=3"];
    memory.visit("/p", &asked(&second), START);
    assert_eq!(memory.extras("/p", START), ["http://a.test/ok.js?v=3"]);
    memory.visit("/p", &asked(&["/ad.js?token=ijkl", "/ok.js?v=3"]), START);
    assert_eq!(memory.extras("/p", START), ["http://a.test/ok.js?v=3"]);
}

#[test]
fn urls_of_one_shape_are_stable_if_they_are_requested_again() {
    let mut memory = Memory::default();
    let pages = ["/api?page=1", "/api?page=2"];
    memory.visit("/p", &asked(&pages), START);
    memory.visit(
        "/p",
        &Seen {
            used: &pages,
            ..Seen::default()
        },
        START,
    );
    assert_eq!(memory.extras("/p", START).len(), 2);
    // A third object beside them does not make them volatile.
    let third = Seen {
        unplanned: &["/api?page=3"],
        used: &pages,
        ..Seen::default()
    };
    memory.visit("/p", &third, START);
    assert_eq!(memory.extras("/p", START).len(), 3);
}

#[test]
fn learned_objects_without_requests_are_removed() {
    let mut memory = Memory::default();
    memory.visit("/p", &asked(&["/a.js"]), START);
    memory.visit("/p", &Seen::default(), START);
    assert_eq!(memory.extras("/p", START).len(), 1);
    memory.visit("/p", &Seen::default(), START);
    assert!(memory.extras("/p", START).is_empty());
    // The browser's next request restores them.
    memory.visit("/p", &asked(&["/a.js"]), START);
    assert_eq!(memory.extras("/p", START).len(), 1);
    assert!(memory.extras("/p", later(60)).is_empty());
}

#[test]
fn unused_pushes_are_suppressed_for_growing_times() {
    let mut memory = Memory::default();
    let unused = Seen {
        unused: &["/print.css"],
        ..Seen::default()
    };
    memory.visit("/p", &unused, START);
    assert!(memory.suppressed("/p", "/print.css", START));
    assert!(!memory.suppressed("/p", "/screen.css", START));
    assert!(!memory.suppressed("/p", "/print.css", later(1)));
    memory.visit("/p", &unused, later(1));
    assert!(memory.suppressed("/p", "/print.css", later(2)));
    assert!(!memory.suppressed("/p", "/print.css", later(3)));
    for _ in 0..300 {
        memory.visit("/p", &unused, later(3));
    }
    assert!(memory.suppressed("/p", "/print.css", later(66)));
    assert!(!memory.suppressed("/p", "/print.css", later(67)));
    // A request of the browser restores the object.
    memory.visit("/p", &asked(&["/print.css"]), later(4));
    assert!(!memory.suppressed("/p", "/print.css", later(4)));
}

#[test]
fn objects_that_the_browser_may_hold_fresh_stay_planned() {
    let mut memory = Memory::default();
    let seen = Seen {
        unused_but_fresh: &["/app.js"],
        ..Seen::default()
    };
    memory.visit("/p", &seen, START);
    assert!(!memory.suppressed("/p", "/app.js", START));
}

#[test]
fn unused_pushes_of_two_pages_are_suppressed_for_the_pattern() {
    let mut memory = Memory::default();
    let unused = Seen {
        unused: &["/hidden.png"],
        ..Seen::default()
    };
    memory.visit("/article/1001", &unused, START);
    assert!(!memory.suppressed("/article/1003", "/hidden.png", START));
    memory.visit("/article/1002", &unused, START);
    assert!(memory.suppressed("/article/1003", "/hidden.png", START));
}

#[test]
fn an_unused_learned_object_is_suppressed_as_well() {
    let mut memory = Memory::default();
    memory.visit("/p", &asked(&["/a.js"]), START);
    memory.visit(
        "/p",
        &Seen {
            unused: &["/a.js"],
            ..Seen::default()
        },
        START,
    );
    assert!(memory.extras("/p", START).is_empty());
}

#[test]
fn new_learned_objects_replace_only_missed_ones() {
    let mut memory = Memory::default();
    let count = MAX_EXTRAS + 6;
    let names: Vec<String> = (0..count).map(|index| format!("/s{index}.js")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    memory.visit("/p", &asked(&names), START);
    assert_eq!(memory.extras("/p", START).len(), MAX_EXTRAS);
    memory.visit(
        "/p",
        &Seen {
            used: &names[1..MAX_EXTRAS],
            unplanned: &["/new.js"],
            ..Seen::default()
        },
        START,
    );
    let extras = memory.extras("/p", START);
    assert_eq!(extras.len(), MAX_EXTRAS);
    assert!(!extras.contains(&"http://a.test/s0.js".to_owned()));
    assert_eq!(extras.last().unwrap(), "http://a.test/new.js");
}

#[test]
fn a_second_device_confirms_a_request_for_a_limited_time() {
    let mut learned = Learned::new(&url("/p"));
    let asked = |url, device| Testimony {
        url,
        device,
        literal: None,
    };
    assert_eq!(learned.testify(asked(1, 10), START), Witnesses::One);
    assert_eq!(learned.testify(asked(1, 10), later(1)), Witnesses::One);
    let record = learned.page_record();
    let mut learned = Learned::read(&url("/p"), Some(&record), None).unwrap();
    assert_eq!(learned.testify(asked(2, 20), later(2)), Witnesses::One);
    assert_eq!(learned.testify(asked(1, 20), later(2)), Witnesses::Two);
    // The testimony is used up.
    assert_eq!(learned.testify(asked(1, 20), later(2)), Witnesses::One);
    assert_eq!(learned.testify(asked(2, 10), later(62)), Witnesses::One);
    // Many requests of one device replace older testimonies, and the record stays bounded.
    for number in 0..2000 {
        assert_eq!(
            learned.testify(asked(100 + number, 30), later(62)),
            Witnesses::One
        );
    }
    assert!(learned.page_record().len() < 16 * 1024);
    assert!(learned.extras(later(62)).is_empty());
}

#[test]
fn the_form_of_the_newest_unplanned_request_is_kept() {
    let mut learned = Learned::new(&url("/p"));
    for cross_origin in [CrossOrigin::None, CrossOrigin::Credentials] {
        let form = RequestForm {
            cross_origin,
            referrer_policy: Some(crate::ReferrerPolicy::NoReferrer),
        };
        let asked = LearnedRef {
            form,
            ..asked_for(url("http://b.test/x.json"), Destination::Other)
        };
        let _unlearned = learned.update(&Visit {
            asked_unplanned: std::slice::from_ref(&asked),
            asked_behind: &[],
            asked_absent: &[],
            pushed_used: &[],
            pushed_unused: &[],
            teachers: Teachers::OneDevice,
            now: START,
        });
        let record = learned.page_record();
        let read = Learned::read(&url("/p"), Some(&record), None).unwrap();
        assert_eq!(read.extras(START), [asked]);
    }
}

#[test]
fn an_absent_host_is_remembered_for_a_day_by_one_request() {
    let page = url("/p");
    let mut learned = Learned::new(&page);
    let missing = |text: &str| asked_for(url(text), Destination::Image);
    let absent = [
        "http://missing.test/1",
        "http://missing.test/2",
        "http://other.test/",
    ]
    .map(missing);
    let visit = |learned: &mut Learned, absent: &[LearnedRef], used: &[Url], now| {
        let _unlearned = learned.update(&Visit {
            asked_unplanned: &[],
            asked_behind: &[],
            asked_absent: absent,
            pushed_used: used,
            pushed_unused: &[],
            teachers: Teachers::OneDevice,
            now,
        });
        *learned = Learned::read(&page, Some(&learned.page_record()), None).unwrap();
    };
    let planned = |learned: &Learned, now| {
        let extras = learned.extras(now).into_iter();
        extras.map(|extra| extra.url.to_string()).collect::<Vec<_>>()
    };
    let of_each = ["http://missing.test/1", "http://other.test/"];
    visit(&mut learned, &absent, &[], START);
    assert_eq!(planned(&learned, START), of_each);
    visit(&mut learned, &absent[1..2], &[], START + DAY / 2);
    assert_eq!(planned(&learned, START + DAY), of_each[..1]);
    // A host that answers again is remembered as any other object.
    visit(&mut learned, &[], &[url("http://missing.test/1")], START + DAY);
    assert_eq!(planned(&learned, later(30)), of_each[..1]);
}

#[test]
fn records_of_all_devices_are_told_of_unused_pushes_only() {
    let page = url("/p");
    let mut learned = Learned::new(&page);
    let visit = |learned: &mut Learned, asked: &[LearnedRef], unused: &[Unused]| {
        let _unlearned = learned.update(&Visit {
            asked_unplanned: asked,
            asked_behind: &[],
            asked_absent: &[],
            pushed_used: &[],
            pushed_unused: unused,
            teachers: Teachers::AllDevices,
            now: START,
        });
        *learned = Learned::read(&page, Some(&learned.page_record()), None).unwrap();
    };
    let script = [asked_for(url("/a.js"), Destination::Script)];
    visit(&mut learned, &script, &[]);
    for _ in 0..20 {
        visit(&mut learned, &[], &[]);
    }
    assert_eq!(learned.extras(START), script);
    let unused = |held| ["/a.js", "/in-markup.png"].map(|text| Unused { url: url(text), held });
    visit(&mut learned, &[], &unused(HeldFresh::Possible));
    assert_eq!(learned.extras(START), script);
    visit(&mut learned, &[], &unused(HeldFresh::No));
    assert!(learned.extras(START).is_empty() && learned.suppressed(&url("/in-markup.png"), later(59)));
    assert!(!learned.suppressed(&url("/in-markup.png"), later(60)));
    // A request of any browser restores the object.
    visit(&mut learned, &script, &[]);
    assert_eq!(learned.extras(START), script);
    assert!(learned.suppressed(&url("/in-markup.png"), START));
}

#[test]
fn damaged_records_are_refused() {
    let page = url("/p");
    assert!(Learned::read(&page, Some(b""), None).is_err());
    assert!(Learned::read(&page, None, Some(&[9])).is_err());
    assert!(Learned::read(&page, None, None).is_ok());
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any visits, records stay within their bounds and can be parsed.
        #[test]
        fn records_stay_bounded(visits in proptest::collection::vec(
            (0_u32..4, proptest::collection::vec("/[a-c]{1,2}(\\?[xy]=[0-9]{1,14})?", 0..40), 0_u32..40), 1..20)) {
            let mut memory = Memory::default();
            for (page, objects, day) in visits {
                let page = format!("/article/{}", 1000 + page);
                let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
                let (asked, rest) = objects.split_at(objects.len() / 2);
                let (used, unused) = rest.split_at(rest.len() / 2);
                memory.visit(&page, &Seen { unplanned: asked, used, unused, ..Seen::default() }, later(day));
                prop_assert!(memory.extras(&page, later(day)).len() <= MAX_EXTRAS);
                prop_assert!(memory.records.values().all(|record| record.len() <= 114 * 1024));
            }
        }
    }
}
