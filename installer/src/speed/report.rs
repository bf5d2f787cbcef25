//! The result for people and for programs.
use std::{fmt::Write as _, time::Duration};

use longhaul_types::ByteCount;
use serde_json::{Value, json};

use super::{ChosenPage, Load, Measurement, SpeedOptions, Way};

/// Maximum number of failures that are listed.
const LISTED: usize = 5;

/// Says what will be loaded, before anything is.
pub fn announcement(page: &ChosenPage, options: &SpeedOptions) -> String {
    let loads = options.loads;
    let about = match page.size {
        // The direct loads and the first one through Longhaul bring the page; the others find it in the agent's cache.
        Some(size) => {
            let all = size
                .bytes()
                .saturating_mul(u64::from(loads) + 1)
                .min(options.limit.bytes());
            format!("about {}, ", ByteCount::new(all))
        }
        None => String::new(),
    };
    format!(
        "This loads {} {loads} times directly and {loads} times through Longhaul: {about}at most {}.\n",
        page.url, options.limit
    )
}

/// The result as text.
pub fn to_text(all: &Measurement) -> String {
    let mut out = String::new();
    let mut line = |name: &str, words: &str| {
        let _infallible = writeln!(out, "{name:<10} {words}");
    };
    line("page", &format!("{} ({})", all.url, objects(all)));
    for (way, loads) in [(Way::Direct, &all.direct), (Way::Longhaul, &all.longhaul)] {
        let times: Vec<String> = loads.iter().map(|load| seconds(load.time)).collect();
        let median = all.median(way).map(seconds).unwrap_or_default();
        line(
            way.name(),
            &format!("{median} in the median ({})", times.join(", ")),
        );
        let bytes: Vec<String> = loads.iter().map(|load| load.bytes.to_string()).collect();
        let what = match way {
            Way::Direct => "of bodies",
            Way::Longhaul => "on the hop, with all headers",
        };
        line("", &format!("{} {what}", bytes.join(", ")));
    }
    line("link", &link(all));
    line("ideal", &ideal(all));
    let _infallible = writeln!(out, "\n{}", verdict(all));
    for (url, reason) in failures(all).take(LISTED) {
        let _infallible = writeln!(out, "failed: {url}\n        {reason}");
    }
    if all.is_limited {
        out.push_str("The limit on bytes ended the measurement early; --limit sets another.\n");
    }
    out
}

/// The result as one line of JSON.
pub fn to_json(all: &Measurement) -> String {
    let loads = |loads: &[Load]| -> Vec<Value> {
        let of_load = |load: &Load| {
            json!({
                "time_s": load.time.as_secs_f64(),
                "bytes": load.bytes.bytes(),
                "objects": load.objects,
                "failed": load.failures.len(),
            })
        };
        loads.iter().map(of_load).collect()
    };
    let milliseconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1000.0);
    let result = json!({
        "url": all.url,
        "direct": loads(&all.direct),
        "longhaul": loads(&all.longhaul),
        "direct_s": all.median(Way::Direct).map(|time| time.as_secs_f64()),
        "longhaul_s": all.median(Way::Longhaul).map(|time| time.as_secs_f64()),
        "longhaul_first_s": all.longhaul.first().map(|load| load.time.as_secs_f64()),
        "ideal_bytes": all.ideal_size.bytes(),
        "ideal_s": all.ideal().map(|time| time.as_secs_f64()),
        "rate_bps": all.link.rate.map(|rate| rate.as_bps()),
        "rtt_ms": milliseconds(all.link.min_rtt),
        "queue_ms": milliseconds(all.link.queue()),
        "carrier": all.link.carrier,
        "limited": all.is_limited,
        "failures": failures(all).map(|(url, reason)| json!({ "url": url, "reason": reason })).collect::<Vec<_>>(),
    });
    format!("{result}\n")
}

fn failures(all: &Measurement) -> impl Iterator<Item = &(String, String)> {
    all.direct
        .iter()
        .chain(&all.longhaul)
        .flat_map(|load| &load.failures)
}

fn objects(all: &Measurement) -> String {
    let objects = all.direct.first().map_or(0, |load| load.objects);
    let noun = if objects == 1 { "object" } else { "objects" };
    format!("{objects} {noun}, {} with text as by gzip", all.ideal_size)
}

fn link(all: &Measurement) -> String {
    let not_measured = || "not measured".to_owned();
    let rate = all.link.rate.map_or_else(not_measured, |rate| rate.to_string());
    let time =
        |time: Option<Duration>| time.map_or_else(not_measured, |time| format!("{} ms", time.as_millis()));
    let (rtt, queue) = (time(all.link.min_rtt), time(all.link.queue()));
    format!(
        "rate {rate}, round trip {rtt}, queue under load {queue}, over {}",
        all.link.carrier
    )
}

fn ideal(all: &Measurement) -> String {
    match all.ideal() {
        Some(time) => format!(
            "{}: the page in one piece at this rate, after one round trip",
            seconds(time)
        ),
        None => "not known, because the link was not measured: the page is too small".to_owned(),
    }
}

/// The comparison in a sentence or two. The first load through Longhaul is judged: later ones have the agent's cache, the
/// direct ones have none.
fn verdict(all: &Measurement) -> String {
    if all.failed() > 0 {
        return format!(
            "The times cannot be compared, because {} loads of objects failed:",
            all.failed()
        );
    }
    let (Some(direct), Some(first)) = (all.median(Way::Direct), all.longhaul.first()) else {
        return String::new();
    };
    let factor = direct.as_secs_f64() / first.time.as_secs_f64().max(0.001);
    let words = if factor >= 1.05 {
        format!("Longhaul's first load was {factor:.1} times as fast as the direct ones.")
    } else if factor > 0.95 {
        "Longhaul's first load took as long as the direct ones.".to_owned()
    } else {
        format!(
            "Longhaul's first load took {:.1} times as long as the direct ones.",
            1.0 / factor
        )
    };
    if all.longhaul.len() < 2 {
        return words;
    }
    format!("{words} Its later loads find in the agent's cache what has not changed.")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use longhaul_types::BitRate;

    use super::*;
    use crate::speed::agent_figures::LinkFigures;

    fn load(milliseconds: u64, bytes: u64) -> Load {
        Load {
            time: Duration::from_millis(milliseconds),
            bytes: ByteCount::new(bytes),
            objects: 3,
            failures: Vec::new(),
        }
    }

    fn measured() -> Measurement {
        Measurement {
            url: "http://a.test/".to_owned(),
            direct: vec![load(4000, 60_000), load(6000, 60_000), load(5000, 60_000)],
            longhaul: vec![load(2000, 20_000), load(700, 900), load(600, 800)],
            ideal_size: ByteCount::new(48_000),
            link: LinkFigures {
                rate: Some(BitRate::kbps(384)),
                min_rtt: Some(Duration::from_millis(260)),
                loaded_rtt: Some(Duration::from_millis(410)),
                carrier: "udp".to_owned(),
            },
            is_limited: false,
        }
    }

    #[test]
    fn the_report_has_both_ways_the_link_and_the_ideal() {
        let text = to_text(&measured());
        for words in [
            "direct     5.00 s in the median (4.00 s, 6.00 s, 5.00 s)",
            "Longhaul   0.70 s in the median (2.00 s, 0.70 s, 0.60 s)",
            "round trip 260 ms, queue under load 150 ms, over udp",
            "ideal      1.26 s",
            "first load was 2.5 times as fast",
        ] {
            assert!(text.contains(words), "no `{words}` in\n{text}");
        }
        let json: Value = serde_json::from_str(&to_json(&measured())).unwrap();
        assert_eq!(
            (&json["direct_s"], &json["longhaul_first_s"]),
            (&json!(5.0), &json!(2.0))
        );
        assert_eq!(
            (&json["ideal_s"], &json["queue_ms"]),
            (&json!(1.26), &json!(150.0))
        );
    }

    #[test]
    fn a_slower_load_and_failures_are_said() {
        let mut slower = measured();
        slower.longhaul = vec![load(10_000, 20_000)];
        assert!(to_text(&slower).contains("took 2.0 times as long"));
        let failure = ("http://a.test/x".to_owned(), "status 404".to_owned());
        slower.direct[0].failures.push(failure);
        let text = to_text(&slower);
        assert!(
            text.contains("cannot be compared, because 1 ") && text.contains("failed: http://a.test/x"),
            "{text}"
        );
    }

    #[test]
    fn bytes_are_announced_and_never_more_than_the_limit() {
        let options = SpeedOptions {
            page: "http://a.test/".parse().unwrap(),
            loads: 3,
            limit: ByteCount::new(2_000_000),
        };
        let known = |size| ChosenPage {
            url: options.page.clone(),
            size,
        };
        let text = announcement(&known(Some(ByteCount::new(100_000))), &options);
        let about = ByteCount::new(400_000).to_string();
        assert!(
            text.contains(&about) && text.contains("3 times directly"),
            "{text}"
        );
        let text = announcement(&known(None), &options);
        assert!(!text.contains("about") && text.contains("at most"), "{text}");
    }
}
