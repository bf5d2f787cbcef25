//! Tests of the control port and of the commands that use it.
use crate::support::{PATIENCE, TestAgent, pair};
use longhaul_agent::{config::Fallback, control_client, state_dir::StateDir};
use longhaul_raw_client::RawClient;

#[tokio::test]
async fn the_status_is_served_and_has_its_keys() {
    let (_gateway, agent) = pair().await;
    assert_eq!(agent.get("http://site.test/page").await.status, 200);
    let address = control_client::control_address(&StateDir::new(agent.dir.path().join("state"))).unwrap();
    let state_dir = StateDir::new(agent.dir.path().join("state"));
    let json = control_client::fetch_status(address, None).await.unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["state"], "open");
    assert_eq!(
        value["gateway_key"],
        crate::support::gateway_secret().public().to_string()
    );
    assert_eq!(
        (value["requests"].as_u64(), value["failures"].as_u64()),
        (Some(1), Some(0))
    );
    for key in ["bytes_down", "bytes_up", "body_bytes_decoded"] {
        assert!(value[key].as_u64().unwrap() > 0, "{key} in {json}");
    }
    assert!(
        value["session"]["rtt_ms"].is_number() && value["windows_bad"] == 0 && value["direct_requests"] == 0
    );
    let token = state_dir.control_token().unwrap();
    assert!(!json.contains(&token));
    let summary = control_client::summary(&json, Some(&token)).unwrap();
    assert!(summary.contains("state     open"), "{summary}");
    assert!(
        summary.contains(&format!("http://{address}/?token={token}\n")),
        "{summary}"
    );
}

#[tokio::test]
async fn the_page_is_for_this_machine_only() {
    let agent = TestAgent::start("127.0.0.1:9", Fallback::Never).await;
    let address = control_client::control_address(&StateDir::new(agent.dir.path().join("state"))).unwrap();
    let mut client = RawClient::connect(address).await.unwrap();
    for (request, status, words) in [
        (
            format!("GET / HTTP/1.1\r\nhost: {address}\r\n\r\n"),
            200,
            "Longhaul agent",
        ),
        (
            format!(
                "GET /proxy.pac HTTP/1.1\r\nhost: localhost:{}\r\n\r\n",
                address.port()
            ),
            200,
            "FindProxyForURL",
        ),
        (
            format!("GET / HTTP/1.1\r\nhost: evil.test:{}\r\n\r\n", address.port()),
            403,
            "own address",
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nhost: {address}\r\norigin: http://evil.test\r\ncontent-length: 0\r\n\r\n"
            ),
            403,
            "own pages",
        ),
        (
            format!("GET /other HTTP/1.1\r\nhost: {address}\r\n\r\n"),
            404,
            "status.json",
        ),
    ] {
        client.send(&request).await.unwrap();
        let reply = client.response().await.unwrap();
        assert_eq!(reply.status, status, "{request}");
        assert!(reply.text().contains(words), "{}", reply.text());
    }
    agent.agent.stop().await;
    assert!(control_client::control_address(&StateDir::new(agent.dir.path().join("state"))).is_err());
}

#[tokio::test]
async fn open_dashboards_get_the_same_events_and_each_page_that_is_loaded() {
    let (_gateway, agent) = pair().await;
    let state_dir = StateDir::new(agent.dir.path().join("state"));
    let address = control_client::control_address(&state_dir).unwrap();
    let token = state_dir.control_token().unwrap();
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut client = RawClient::connect(address).await.unwrap();
        let request =
            format!("GET /live HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
        client.send(request).await.unwrap();
        let head = client.head().await.unwrap();
        assert_eq!(
            (head.status, head.field("content-type")),
            (200, Some("text/event-stream"))
        );
        streams.push(client);
    }
    let mut browser = agent.connect().await;
    browser
        .send("GET http://site.test/page HTTP/1.1\r\nhost: ignored\r\nupgrade-insecure-requests: 1\r\naccept: text/html\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(browser.response().await.unwrap().status, 200);
    for stream in &mut streams {
        let mut seen = String::new();
        while !(seen.contains("\"state\":\"open\"")
            && seen.contains("event: pages")
            && seen.contains("/page</small>"))
        {
            let part = tokio::time::timeout(PATIENCE, stream.read())
                .await
                .unwrap()
                .unwrap();
            assert!(!part.is_empty(), "{seen}");
            seen.push_str(&String::from_utf8_lossy(&part));
        }
    }
}

#[tokio::test]
async fn a_page_has_a_receipt_and_can_be_forgotten() {
    let (_gateway, agent) = pair().await;
    let state_dir = StateDir::new(agent.dir.path().join("state"));
    let address = control_client::control_address(&state_dir).unwrap();
    let token = state_dir.control_token().unwrap();
    let mut browser = agent.connect().await;
    browser
        .send("GET http://site.test/page HTTP/1.1\r\nhost: ignored\r\nupgrade-insecure-requests: 1\r\naccept: text/html\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(browser.response().await.unwrap().status, 200);
    let ask = async |request: &str| {
        let mut client = RawClient::connect(address).await.unwrap();
        let fields = format!("host: {address}\r\norigin: http://{address}\r\nauthorization: Bearer {token}");
        let request =
            format!("{request} HTTP/1.1\r\n{fields}\r\ncontent-length: 0\r\naccept: text/html\r\n\r\n");
        client.send(request).await.unwrap();
        client.response().await.unwrap()
    };
    // The end is recorded when the agent's task has ended, which may be after the browser has the response.
    let started = tokio::time::Instant::now();
    let request = loop {
        let journal = ask("GET /journal.json").await.text();
        let journal: serde_json::Value = serde_json::from_str(&journal).unwrap();
        if journal[0]["end"] == "complete" && journal[0]["hop_bytes"].as_u64() > Some(0) {
            break journal[0].clone();
        }
        assert!(started.elapsed() < PATIENCE, "{journal}");
    };
    assert_eq!(
        (&request["url"], &request["source"]),
        (&"http://site.test/page".into(), &"gateway".into())
    );
    assert!(
        request["bytes"].as_u64() > Some(0) && request["hop_bytes"].as_u64() > Some(0),
        "{request}"
    );
    assert_eq!(
        (&request["end"], &request["status"]),
        (&"complete".into(), &200.into())
    );
    assert!(
        request["phases"]
            .as_array()
            .is_some_and(|phases| phases.len() >= 2),
        "{request}"
    );
    let page = ask("GET /page?number=0").await;
    assert!(
        page.status == 200 && page.text().contains("asked for"),
        "{}",
        page.text()
    );
    let told = ask("POST /page/forget?number=0").await;
    assert!(
        told.status == 200 && told.text().contains("forgotten on this computer"),
        "{}",
        told.text()
    );
    assert_eq!(ask("GET /page?number=0").await.status, 404);
    assert_eq!(ask("GET /journal.json").await.text().trim(), "[]");
    assert_eq!(ask("POST /page/forget?number=0").await.status, 404);
}
