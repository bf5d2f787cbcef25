//! The page to measure: as named, or the newest one in the agent's journal.
use std::time::Duration;

use longhaul_types::ByteCount;
use serde_json::Value;
use url::Url;

use super::SpeedError;
use crate::{agent_state::RunningAgent, http_get};

/// Time for the agent's answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Maximum length of the journal: 4,000 requests with URLs of 512 characters.
const MAX_JOURNAL: u64 = 16 * 1024 * 1024;

/// A page to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPage {
    /// Its URL.
    pub url: Url,
    /// Size of its bodies, decoded, when the agent loaded it last; `None` if it has not.
    pub size: Option<ByteCount>,
}

/// Returns the page to measure; without a name, the page that the agent has loaded last.
///
/// # Errors
/// There is no name, and the agent's journal has no page.
pub fn choose(agent: &RunningAgent, named: Option<&Url>) -> Result<ChosenPage, SpeedError> {
    let host = agent.control.to_string();
    let journal = http_get::get_up_to(
        MAX_JOURNAL,
        agent.control,
        &host,
        "/journal.json",
        agent.token.as_deref(),
        ANSWER_TIME,
    );
    // The journal of an agent of another user cannot be read; a named page needs none.
    let journal = journal.ok().filter(|response| response.status == 200);
    let requests: Vec<Value> = journal
        .and_then(|response| serde_json::from_str(&response.body).ok())
        .unwrap_or_default();
    find(&requests, named)
}

fn find(requests: &[Value], named: Option<&Url>) -> Result<ChosenPage, SpeedError> {
    let is_page = |request: &&Value| request["is_page"] == true && request["status"] == 200;
    let loaded = requests.iter().rev().filter(is_page).filter_map(|request| {
        Some((
            Url::parse(request["url"].as_str()?).ok()?,
            request["number"].as_u64()?,
        ))
    });
    let found = match named {
        Some(named) => loaded.into_iter().find(|(url, _)| url == named),
        None => loaded.into_iter().next(),
    };
    let size = |number: u64| {
        let of_page = |request: &&Value| {
            request["number"].as_u64() == Some(number) || request["page"].as_u64() == Some(number)
        };
        let bodies = requests.iter().filter(of_page);
        ByteCount::new(bodies.filter_map(|request| request["bytes"].as_u64()).sum())
    };
    match (found, named) {
        (Some((url, number)), _) => Ok(ChosenPage {
            url,
            size: Some(size(number)),
        }),
        (None, Some(named)) => Ok(ChosenPage {
            url: named.clone(),
            size: None,
        }),
        (None, None) => Err(SpeedError::NoPage),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn journal() -> Vec<Value> {
        let request = |number: u64, url: &str, is_page: bool, page: Option<u64>, status: u64, bytes: u64| json!({ "number": number, "url": url, "is_page": is_page, "page": page, "status": status, "bytes": bytes });
        vec![
            request(1, "http://a.test/", true, None, 200, 100),
            request(2, "http://a.test/x.css", false, Some(1), 200, 30),
            request(3, "http://b.test/", true, None, 200, 500),
            request(4, "http://a.test/y.js", false, Some(1), 200, 4),
            request(5, "http://c.test/", true, None, 404, 7),
        ]
    }

    #[test]
    fn without_a_name_the_newest_page_that_loaded_is_measured() {
        let found = find(&journal(), None).unwrap();
        assert_eq!(
            (found.url.as_str(), found.size),
            ("http://b.test/", Some(ByteCount::new(500)))
        );
    }

    #[test]
    fn the_size_of_a_named_page_is_that_of_its_objects_if_it_was_loaded() {
        let named: Url = "http://a.test/".parse().unwrap();
        assert_eq!(
            find(&journal(), Some(&named)).unwrap().size,
            Some(ByteCount::new(134))
        );
        let unknown: Url = "http://d.test/".parse().unwrap();
        assert_eq!(find(&journal(), Some(&unknown)).unwrap().size, None);
    }

    #[test]
    fn without_a_name_and_without_a_journal_a_name_is_asked_for() {
        let missing = find(&[], None).unwrap_err().to_string();
        assert!(missing.contains("longhaul speed http://"), "{missing}");
    }
}
