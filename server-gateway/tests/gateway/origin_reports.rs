//! Reports of what origins sent (docs/protocol/session.md section 12).
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use longhaul_session::{Message, OriginReport};

use crate::{
    agent::{Agent, Answer, BROWSER},
    gateway::Gateway,
    origin::{serve_raw, serve_tcp, text},
};

/// A session of a new device, with the gateway's control stream after the first report.
async fn setup() -> (Gateway, Agent, Answer) {
    let gateway = Gateway::start().await;
    let device = gateway.admit("counted");
    let (agent, mut control) = Agent::connect_listening(&gateway, &device, 0).await;
    assert_eq!(
        report(&mut control).await,
        OriginReport::default(),
        "says that reports will follow"
    );
    (gateway, agent, control)
}

async fn report(control: &mut Answer) -> OriginReport {
    loop {
        match control.next_message().await.unwrap() {
            Message::OriginReport(report) => return report,
            Message::Announcement(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A response with this body, as on the origin's socket.
fn raw(fields: &str, body: &[u8]) -> (Vec<u8>, u64) {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n{fields}\r\n",
        body.len()
    );
    let length = head.len() as u64;
    ([head.as_bytes(), body].concat(), length)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_response_is_reported_as_its_origin_sent_it_and_as_it_crossed_the_hop() {
    let (_gateway, mut agent, mut control) = setup().await;
    let page = text(100_000);
    let coded = gzip(&page);
    let (wire, head) = raw("content-encoding: gzip\r\n", &coded);
    let port = serve_raw(wire).await;
    let response = agent.get(&format!("http://a.test:{port}/"), &[BROWSER]).await;
    assert_eq!(response.body, page);
    let report = report(&mut control).await;
    assert_eq!(report.heads.origin, head);
    assert_eq!(report.coding.origin, coded.len() as u64);
    let hop = report.heads.hop + report.coding.hop;
    let total = response.total.unwrap();
    // The stream also has the `Body` message.
    assert!((total - 12..total).contains(&hop), "{hop} of {total} B");
    assert_eq!(report.unchanged, 0);
}

#[tokio::test]
async fn an_answer_of_the_gateways_cache_counts_as_when_it_was_fetched() {
    let (gateway, mut agent, mut control) = setup().await;
    let page = text(60_000);
    let coded = gzip(&page);
    let (wire, head) = raw("content-encoding: gzip\r\ncache-control: max-age=600\r\n", &coded);
    let port = serve_raw(wire).await;
    let url = format!("http://a.test:{port}/");
    for _ in 0..2 {
        assert_eq!(agent.get(&url, &[BROWSER, ("referer", &url)]).await.body, page);
        let report = report(&mut control).await;
        assert_eq!(
            (report.heads.origin, report.coding.origin),
            (head, coded.len() as u64)
        );
    }
    // Another session of another device.
    drop(agent);
    let device = gateway.admit("other");
    let (mut agent, mut control) = Agent::connect_listening(&gateway, &device, 0).await;
    assert_eq!(report(&mut control).await, OriginReport::default());
    assert_eq!(agent.get(&url, &[BROWSER, ("referer", &url)]).await.body, page);
    let report = report(&mut control).await;
    assert_eq!(report.coding.origin, coded.len() as u64);
}

#[tokio::test]
async fn a_truncated_body_counts_as_far_as_it_came() {
    let (_gateway, mut agent, mut control) = setup().await;
    let body = text(50_000);
    let (wire, _) = raw("", &body);
    let short = wire[..wire.len() - 20_000].to_vec();
    let port = serve_tcp(move |mut connection| {
        let short = short.clone();
        async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut request = [0; 4096];
            let _count = connection.read(&mut request).await.unwrap();
            connection.write_all(&short).await.unwrap();
        }
    })
    .await;
    let _truncated = agent.get(&format!("http://a.test:{port}/"), &[]).await;
    let report = report(&mut control).await;
    assert!(
        (1..=30_000).contains(&report.coding.origin),
        "{}",
        report.coding.origin
    );
}
