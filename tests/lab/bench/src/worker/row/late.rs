//! Requests of the browser that crossed the hop, and why the plan of the page did not answer them.
use std::collections::BTreeMap;

use longhaul_loader::{ObjectClass, ObjectLoad};
use longhaul_report::Row;
use serde_json::Value;
use url::{Position, Url};

use super::super::{load_detail, network::Network};

/// Length at which the agent's journal cuts URLs, in characters.
const MAX_URL: usize = 512;
/// Beginning of the names of the phase in which the agent waits for the gateway's answer to the request itself.
const SENT: &str = "sent.";

/// What agent and gateway have recorded so far of the visits to pages.
#[derive(Debug, Default)]
pub(super) struct Learning {
    /// The agent's journal.
    journal: Vec<Value>,
    /// Requests that visits do not teach, by the gateway's reason.
    refused: BTreeMap<String, u64>,
}

impl Learning {
    pub(super) async fn take(network: &Network) -> Self {
        Self {
            journal: network.journal().await,
            refused: network.refused_lessons().await,
        }
    }

    /// Writes what was recorded since `before` into the row; without an agent, nothing. Requests inside tunnels are not
    /// recorded.
    pub(super) fn fill(&self, row: &mut Row, before: &Self, objects: &[ObjectLoad]) {
        let classes: BTreeMap<String, ObjectClass> = objects
            .iter()
            .map(|object| (journal_url(&object.url), object.class))
            .collect();
        let last = number(before.journal.last());
        let requests = self.journal.iter().filter(|record| number(Some(record)) > last);
        for record in requests {
            // The others are those of the next page, and of scripts after the load event.
            let Some(class) = record["url"].as_str().and_then(|url| classes.get(url)) else {
                continue;
            };
            let forwarded = row.forwarded.get_or_insert_default();
            let Some(reason) = reason(record) else { continue };
            *forwarded += 1;
            if record["is_page"] != true {
                let of_class = row.late.entry(destination(*class, record)).or_default();
                *of_class.entry(reason).or_default() += 1;
            }
        }
        row.lessons_refused_before = counted(&before.refused, &BTreeMap::new());
        row.lessons_refused = counted(&self.refused, &before.refused);
    }
}

/// Number of a request in the journal.
fn number(record: Option<&Value>) -> Option<u64> {
    record?["number"].as_u64()
}

/// The URL as the journal has it.
fn journal_url(url: &Url) -> String {
    url[..Position::AfterQuery].chars().take(MAX_URL).collect()
}

/// What the browser requested the object for, as far as it is known.
fn destination(class: ObjectClass, record: &Value) -> String {
    let is_json = record["media"]
        .as_str()
        .is_some_and(|media| media.contains("json"));
    match class {
        ObjectClass::Document => "frame".to_owned(),
        ObjectClass::Other if is_json => "json".to_owned(),
        ObjectClass::Other
        | ObjectClass::Style
        | ObjectClass::Script
        | ObjectClass::Image
        | ObjectClass::Font => load_detail::name(&class),
    }
}

/// Why the agent forwarded a request, by the phase that it left before it was sent; `None` if the answer did not come
/// from the gateway's answer to the request itself.
fn reason(record: &Value) -> Option<String> {
    let names = record["phases"].as_array()?.iter();
    let phases: Vec<&str> = names.filter_map(|phase| phase[0].as_str()).collect();
    phases.last().filter(|phase| phase.starts_with(SENT))?;
    let before = phases.iter().rev().find(|phase| !phase.starts_with(SENT));
    let words = match before.copied().unwrap_or_default() {
        "lookup.no-page-load" => "no page load",
        "lookup.ineligible" => "never planned",
        "manifest.not-found" => "not planned",
        "manifest.time" | "manifest.open" => "plan open",
        "promised.withdrawn" => "withdrawn",
        "promised.mismatch" => "other request planned",
        "promised.used" => "requested before",
        other if other.starts_with("promised.") || other.starts_with("arriving.") => "push broken",
        _ => "unknown",
    };
    Some(words.to_owned())
}

/// The counts that have grown, and by how much.
fn counted(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = now.iter().map(|(reason, count)| {
        let before = before.get(reason).copied().unwrap_or(0);
        (reason.clone(), count.saturating_sub(before))
    });
    grown.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_loader::Outcome;
    use serde_json::json;

    use super::*;

    fn object(path: &str, class: ObjectClass) -> ObjectLoad {
        ObjectLoad {
            url: format!("http://a.test/{path}").parse().unwrap(),
            class,
            outcome: Outcome::Delivered,
            status: Some(200),
            body_bytes: 1,
            coded_bytes: None,
            body_hash: None,
            discovered: Duration::ZERO,
            sent: None,
            first_byte: None,
            ended: None,
            connection: None,
        }
    }

    fn record(number: u64, path: &str, phases: &[&str]) -> Value {
        let phases: Vec<_> = phases.iter().map(|phase| json!([phase, 1])).collect();
        json!({
            "number": number, "url": format!("http://a.test/{path}"), "is_page": path.is_empty(),
            "media": "application/json", "phases": phases,
        })
    }

    #[test]
    fn late_requests_are_counted_by_class_and_reason() {
        let not_found = &["lookup.page-load", "manifest.not-found", "sent.forwarded"][..];
        let before = Learning {
            journal: vec![record(4, "s.js", not_found)],
            refused: BTreeMap::from([("url".to_owned(), 2), ("host".to_owned(), 0)]),
        };
        let left = Learning {
            journal: vec![
                record(4, "s.js", not_found),
                record(5, "", &["lookup.navigation", "sent.forwarded"]),
                record(
                    6,
                    "s.js",
                    &["lookup.announced", "promised.head", "arriving.pushed"],
                ),
                record(7, "data", not_found),
                record(8, "data", &["manifest.open", "sent.repeated", "sent.failed"]),
                record(9, "f", &["promised.stuck", "sent.forwarded"]),
                record(10, "later", not_found),
            ],
            refused: BTreeMap::from([("url".to_owned(), 2), ("status".to_owned(), 1)]),
        };
        let mut row = Row::default();
        let objects = [
            object("", ObjectClass::Document),
            object("s.js", ObjectClass::Script),
            object("data#part", ObjectClass::Other),
            object("f", ObjectClass::Document),
        ];
        left.fill(&mut row, &before, &objects);
        assert_eq!(row.forwarded, Some(4));
        let late = json!({
            "frame": {"push broken": 1}, "json": {"not planned": 1, "plan open": 1},
        });
        assert_eq!(serde_json::to_value(&row.late).unwrap(), late);
        assert_eq!(
            row.lessons_refused_before,
            BTreeMap::from([("url".to_owned(), 2)])
        );
        assert_eq!(row.lessons_refused, BTreeMap::from([("status".to_owned(), 1)]));
    }

    #[test]
    fn without_an_agent_nothing_is_forwarded() {
        let mut row = Row::default();
        let objects = [object("", ObjectClass::Document)];
        Learning::default().fill(&mut row, &Learning::default(), &objects);
        assert_eq!(row, Row::default());
    }
}
