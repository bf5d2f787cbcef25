//! Tests of the control port and of the commands that use it.
use crate::support::{TestAgent, pair};
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
