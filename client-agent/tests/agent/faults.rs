//! Tests with faults of the gateway, the session or the data.
use crate::support::{TestAgent, TestGateway, gateway::answers::noise, pair};
use longhaul_agent::{
    config::{EarlyCredentials, Fallback},
    gateway::GatewayState,
};
use longhaul_raw_client::Ending;

#[tokio::test]
async fn a_bad_window_never_reaches_the_browser_and_the_rest_is_fetched_again() {
    let (gateway, agent) = pair().await;
    let reply = agent.get("http://site.test/bad-window").await;
    assert_eq!((reply.status, reply.ending), (200, Ending::Whole));
    assert!(reply.body == noise(300_000));
    let status = agent.status();
    assert_eq!((status.windows_bad, status.resumed, status.truncated), (1, 1, 0));
    let seen = gateway.seen("http://site.test/bad-window");
    let resume = seen[1].resume.clone().unwrap();
    assert_eq!(resume.offset, 65_536);
}

#[tokio::test]
async fn a_body_that_cannot_be_resumed_is_truncated() {
    for path in ["bad-window-weak", "bad-window-changed", "cut", "bad-whole"] {
        let (gateway, agent) = pair().await;
        let reply = agent
            .get_released(&format!("http://site.test/{path}"), &gateway)
            .await;
        assert_eq!((reply.status, reply.ending), (200, Ending::Truncated), "{path}");
        let whole = noise(300_000);
        assert!(
            whole.starts_with(&reply.body),
            "{path}: a byte that was not verified"
        );
        assert_eq!(
            (agent.status().truncated, agent.status().failures),
            (1, 1),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_redirection_whose_body_breaks_off_is_followed() {
    let (_gateway, agent) = pair().await;
    let navigation = [("upgrade-insecure-requests", "1")];
    let page = agent.begin("http://site.test/broken-page", &navigation);
    let page = page.await.unwrap();
    assert_eq!(page.status, 502);
    assert!(page.text().contains("first byte"), "{}", page.text());
    let redirection = agent.begin("http://site.test/broken-redirect", &navigation);
    let redirection = redirection.await.unwrap();
    assert_eq!(
        (redirection.status, redirection.field("location")),
        (302, Some("/next"))
    );
    assert_eq!(redirection.ending, Ending::Truncated);
}

#[tokio::test]
async fn a_lost_session_repeats_safe_requests() {
    let (gateway, agent) = pair().await;
    assert_eq!(agent.get("http://site.test/die").await.text(), "this is die");
    let seen = gateway.seen("http://site.test/die");
    assert_eq!(seen.len(), 2);
    assert!(seen[0].session < seen[1].session);
    agent.reach(GatewayState::Open).await;
    assert_eq!(agent.status().sessions, 2);
}

#[tokio::test]
async fn a_lost_session_never_repeats_a_post() {
    let (gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    client
        .send("POST http://site.test/die HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\norder")
        .await
        .unwrap();
    let reply = client.response().await.unwrap();
    assert_eq!(reply.status, 502);
    assert!(
        reply.text().contains("may or may not have received it"),
        "{}",
        reply.text()
    );
    agent.reach(GatewayState::Open).await;
    assert_eq!(agent.get("http://site.test/next").await.status, 200);
    assert_eq!(gateway.seen("http://site.test/die").len(), 1);
}

#[tokio::test]
async fn repeated_session_losses_are_reported_to_the_browser() {
    let (gateway, agent) = pair().await;
    let reply = agent.get("http://site.test/die-always").await;
    assert_eq!(reply.status, 502);
    assert!(reply.text().contains("repeatedly"), "{}", reply.text());
    assert!(gateway.seen("http://site.test/die-always").len() <= 8);
}

#[tokio::test]
async fn a_download_resumes_in_the_next_session() {
    let (gateway, agent) = pair().await;
    let reply = agent.get_released("http://site.test/die-midway", &gateway).await;
    assert_eq!(reply.ending, Ending::Whole);
    assert!(reply.body == noise(300_000));
    let seen = gateway.seen("http://site.test/die-midway");
    assert_eq!(seen.len(), 2);
    assert!(
        seen[1].resume.is_some() && seen[0].session < seen[1].session,
        "{seen:?}"
    );
    assert_eq!(agent.status().windows_bad, 0);
}

#[tokio::test]
async fn an_unknown_base_is_answered_with_full_fields() {
    let (gateway, agent) = pair().await;
    assert_eq!(agent.get("http://site.test/first").await.status, 200);
    assert_eq!(
        agent.get("http://site.test/unknown-base").await.text(),
        "this is unknown-base"
    );
    let seen = gateway.seen("http://site.test/unknown-base");
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].fields, seen[1].fields);
    let mut client = agent.connect().await;
    client
        .send("POST http://other.test/unknown-base HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\norder")
        .await
        .unwrap();
    assert_eq!(client.response().await.unwrap().status, 200);
    let bodies: Vec<Vec<u8>> = gateway
        .seen("http://other.test/unknown-base")
        .into_iter()
        .map(|seen| seen.body)
        .collect();
    assert_eq!(bodies, [b"order", b"order"]);
}

#[tokio::test]
async fn early_data_contains_only_replayable_requests() {
    let gateway = TestGateway::start();
    for (request, early) in [
        ("GET http://site.test/too-early HTTP/1.1\r\nhost: a\r\n\r\n", true),
        ("GET http://site.test/425 HTTP/1.1\r\nhost: a\r\n\r\n", true),
        (
            "GET http://site.test/auth HTTP/1.1\r\nhost: a\r\nauthorization: Basic eA==\r\n\r\n",
            false,
        ),
        (
            "POST http://site.test/echo HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx",
            false,
        ),
        (
            "DELETE http://site.test/delete HTTP/1.1\r\nhost: a\r\n\r\n",
            false,
        ),
    ] {
        let agent = TestAgent::start(&gateway.address(), Fallback::Never).await;
        let mut client = agent.connect().await;
        client.send(request).await.unwrap();
        let reply = client.response().await.unwrap();
        assert_eq!(reply.status, 200, "{request}");
        let url = request.split(' ').nth(1).unwrap();
        let seen = gateway.seen(url);
        // A request may travel in early data or not, depending on timing; a request without permission never
        // does.
        assert!(early || seen.iter().all(|seen| !seen.early), "{request}");
        assert!(!seen.last().unwrap().early || early, "{request}");
        agent.agent.stop().await;
    }
}

#[tokio::test]
async fn cookies_are_not_in_early_data_if_disabled() {
    let gateway = TestGateway::start();
    for run in 0..5 {
        let url = format!("http://site.test/cookie/{run}");
        let agent = TestAgent::in_dir(tempfile::tempdir().unwrap(), &gateway.address(), |config| {
            config.early_credentials = EarlyCredentials::Withheld;
        })
        .await;
        // The handshake is still in progress.
        let reply = agent.begin(&url, &[("cookie", "session=1")]).await.unwrap();
        assert_eq!(reply.status, 200);
        assert!(gateway.seen(&url).iter().all(|seen| !seen.early), "{url}");
        agent.agent.stop().await;
    }
}

#[tokio::test]
async fn an_unknown_device_gets_an_explanation() {
    let gateway = TestGateway::start();
    let stranger = longhaul_types::SecretKey::from_bytes([99; 32]);
    let key = crate::support::gateway_secret().public();
    let agent = TestAgent::enrolled(&gateway.address(), key, stranger, Fallback::Never).await;
    agent.reach(GatewayState::Down).await;
    let reply = agent.get("http://site.test/").await;
    assert_eq!(reply.status, 502);
    assert!(
        reply.text().contains("The gateway refuses this device"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn a_truncated_response_to_an_http_1_0_client_ends_with_a_reset() {
    let (_gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    client
        .send("GET http://site.test/bad-whole HTTP/1.0\r\n\r\n")
        .await
        .unwrap();
    let mut everything = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(client.halves().0, &mut everything).await;
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}
