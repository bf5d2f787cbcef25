//! Pages that the agent's cache answers: the gateway plans and pushes their objects all the same.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use anyhow::Result;

use super::{
    accelerates_page_loads, answer, body, both_hosts, origin, page, request_count, visitor::Visitor,
};
use crate::pair::Pair;

const PAGE: &str = "http://site.test/";
const NEWS: &str = "http://site.test/news.js";

/// A fresh page whose script changes with each request: the second visit asks the origin for the script alone, and the
/// script is pushed before the browser requests it.
#[tokio::test(flavor = "multi_thread")]
async fn changed_objects_of_a_cached_page_are_pushed() -> Result<()> {
    let editions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&editions);
    let origin = origin(move |request| match request.uri().path() {
        "/" => answer(
            200,
            &[("Content-Type", "text/html"), ("Cache-Control", "max-age=3600")],
            page(&["news.js"]),
        ),
        _ => answer(
            200,
            &[("Content-Type", "text/javascript"), ("Cache-Control", "no-cache")],
            format!("edition {}", count.fetch_add(1, Relaxed)),
        ),
    })
    .await?;
    let pair = Pair::start(both_hosts(&origin)).await?;
    let visitor = Visitor::new(pair.proxy());
    let first = visitor.visit(PAGE, &[NEWS]).await?;
    assert_eq!(body(first.object(NEWS)), b"edition 0");
    let status = pair.status().await?;
    if !accelerates_page_loads(&status) {
        println!("SKIPPED: this agent does not accelerate page loads");
        return Ok(());
    }
    pair.status_until(|status| status["cache_responses"].as_u64() >= Some(1))
        .await?;
    let pushed = status["pushed_objects"].as_u64().unwrap_or_default();
    assert_eq!(body(&visitor.page(PAGE).await?), page(&["news.js"]).as_bytes());
    pair.status_until(|status| status["pushed_objects"].as_u64() > Some(pushed))
        .await?;
    let before = pair.status().await?;
    assert_eq!(body(&visitor.object(PAGE, NEWS, &[]).await?), b"edition 1");
    let after = pair.status().await?;
    assert_eq!(
        after["exits"]["sent.forwarded"], before["exits"]["sent.forwarded"],
        "the script's request crossed the hop"
    );
    assert_eq!(request_count(&origin, "/"), 1);
    assert_eq!(request_count(&origin, "/news.js"), 2);
    Ok(())
}
