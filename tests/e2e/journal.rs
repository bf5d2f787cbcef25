//! The journal on disk (`journal.keep`).
use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{client::ask, origin::Origin, process::run};
use serde_json::Value;

use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, Pair, Setup},
};

const FILE: &str = "agent/journal.sqlite";

/// URLs of the journal.
async fn urls(pair: &Pair) -> Result<Vec<String>> {
    let control = pair.control()?;
    let token = std::fs::read_to_string(pair.folder().join("agent/control-token"))?;
    let request = format!(
        "GET /journal.json HTTP/1.1\r\nHost: {control}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        token.trim()
    );
    let journal: Vec<Value> = serde_json::from_slice(&ask(control, request).await?.body)?;
    Ok(journal
        .iter()
        .filter_map(|record| record["url"].as_str().map(str::to_owned))
        .collect())
}

fn holds(pair: &Pair, words: &str) -> Result<bool> {
    for ending in ["", "-wal"] {
        let Ok(bytes) = std::fs::read(pair.folder().join(format!("{FILE}{ending}"))) else {
            continue;
        };
        if bytes.windows(words.len()).any(|part| part == words.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_journal_survives_restarts_and_forgets_what_the_user_forgets() -> Result<()> {
    let respond = |_: Request<Incoming>| async { ok("text/html", "<p>text") };
    let origin = Origin::start(None, |_| {}, respond).await?;
    let names = [("one.test", origin.address()), ("two.test", origin.address())];
    let mut setup = Setup::resolving(&names);
    setup
        .agent_arguments
        .extend(["--journal-keep", "yes"].map(str::to_owned));
    let mut pair = Pair::start(setup).await?;
    for site in ["one", "two"] {
        assert_eq!(pair.get(&format!("http://{site}.test/page")).await?.status, 200);
    }
    let before = urls(&pair).await?;
    assert_eq!(before, ["http://one.test/page", "http://two.test/page"]);
    pair.end_agent("TERM").await?;
    pair.start_agent().await?;
    assert_eq!(urls(&pair).await?, before);

    let state = pair.folder().join("agent").display().to_string();
    let forgotten = run(
        "longhaul-agent",
        &["forget", "one.test", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    assert_eq!(forgotten.code, Some(0), "{}", forgotten.stderr);
    assert!(!holds(&pair, "one.test")? && holds(&pair, "two.test")?);
    pair.kill_agent().await?;
    pair.start_agent().await?;
    assert_eq!(urls(&pair).await?, ["http://two.test/page"]);
    pair.end().await
}
