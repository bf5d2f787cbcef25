//! Sessions: early data, versions, revocation, shutdown, metrics.
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_driver::{CloseReason, EarlyData, End, LinkState};
use longhaul_gateway_core::admission::devices::Devices;
use longhaul_session::{
    Announcement, FailureReason, FetchId, Hello, Message, Method, Preferences, VersionRange,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    agent::{Agent, Answer, dial_gateway, fetch_of, options, token, wire},
    gateway::Gateway,
    origin::{full, serve},
};

#[tokio::test]
async fn early_data_is_accepted_only_for_replayable_requests() {
    let gateway = Gateway::start().await;
    let device = gateway.admit("early bird");
    // Waits until the gateway has noticed the device.
    drop(Agent::connect_as(&gateway, &device).await);
    let port = serve(|request: Request<Incoming>| async move {
        assert_eq!(
            request.method(),
            http::Method::GET,
            "a POST must not reach the origin in early data"
        );
        let early = request
            .headers()
            .get("early-data")
            .map_or("no", |value| value.to_str().unwrap());
        Response::new(full(early.to_owned()))
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let get = wire(Message::Fetch(fetch_of(FetchId::new(1), Method::Get, &url, &[])));
    let post = wire(Message::Fetch(fetch_of(FetchId::new(2), Method::Post, &url, &[])));
    let secret = wire(Message::Fetch(fetch_of(
        FetchId::new(3),
        Method::Get,
        &url,
        &[("authorization", "Basic x")],
    )));
    let (session, _streams) = dial_gateway(
        &gateway,
        &device,
        Some(token(&gateway, &device)),
        vec![get, post, secret],
    );
    let mut refused = Vec::new();
    let mut got = None;
    while refused.len() < 2 || got.is_none() {
        let answer = Answer::of(session.accept().await.unwrap()).await;
        match &answer.message {
            Message::Failed(failed) => refused.push((failed.fetch, failed.reason)),
            Message::Head(_) => got = Some(answer.response(&session).await.body),
            Message::Welcome(_) => {}
            other => panic!("{other:?}"),
        }
    }
    refused.sort_by_key(|(fetch, _)| *fetch);
    assert_eq!(
        refused,
        [2, 3].map(|id| (FetchId::new(id), FailureReason::TooEarly))
    );
    assert_eq!(got.unwrap(), b"1", "marked as early (RFC 8470)");
}

#[tokio::test]
async fn an_agent_of_another_version_gets_the_supported_versions() {
    let gateway = Gateway::start().await;
    let device = gateway.admit("from the future");
    drop(Agent::connect_as(&gateway, &device).await);
    let hello = wire(Message::Hello(Hello {
        versions: VersionRange { oldest: 7, newest: 9 },
        software: "future/9".to_owned(),
        link: None,
        cache_state: None,
        preferences: Preferences::default(),
    }));
    let config = longhaul_driver::DialConfig {
        gateway_key: gateway.keys().secret.public(),
        remote: gateway.address,
        secret: device,
        token: None,
        profile: None,
        last_stamp: None,
        transport: longhaul_driver::TransportConfig::agent(None),
    };
    let first = longhaul_driver::FirstStream {
        options: options(EarlyData::Allowed),
        bytes: hello.into(),
        end: End::Open,
    };
    let (session, _control) = longhaul_driver::dial(config, vec![first]).unwrap();
    let answer = Answer::of(session.accept().await.unwrap()).await;
    let Message::Welcome(welcome) = answer.message else {
        panic!()
    };
    assert_eq!((welcome.version, welcome.versions), (None, VersionRange::OURS));
}

#[tokio::test]
async fn a_revoked_device_loses_its_session_at_once() {
    let gateway = Gateway::start().await;
    let agent = Agent::connect(&gateway).await;
    Devices::update(&gateway.state, |devices| {
        devices.revoke("test device", std::time::SystemTime::now())
    })
    .unwrap();
    let reason = agent.session.closed().await;
    assert!(
        matches!(reason, CloseReason::PeerClosed { error: 4, .. }),
        "{reason:?}"
    );
}

#[tokio::test]
async fn shutdown_closes_sessions_as_going_away() {
    let gateway = Gateway::start().await;
    let agent = Agent::connect(&gateway).await;
    gateway.stop().await;
    let reason = agent.session.closed().await;
    assert!(
        matches!(reason, CloseReason::PeerClosed { error: 1, .. }),
        "{reason:?}"
    );
}

#[tokio::test]
async fn agents_that_share_a_key_are_told() {
    let gateway = Gateway::start().await;
    let device = gateway.admit("shared");
    let first = Agent::connect_with(&gateway, &device, 7).await;
    let (_second, mut control) = Agent::connect_listening(&gateway, &device, 8).await;
    let first_message = control.next_message().await.unwrap();
    assert!(
        matches!(first_message, Message::OriginReport(_)),
        "{first_message:?}"
    );
    let announced = control.next_message().await.unwrap();
    assert_eq!(announced, Message::Announcement(Announcement::default()));
    let Message::Notice(notice) = control.next_message().await.unwrap() else {
        panic!("no notice")
    };
    assert!(notice.text.contains("another agent"), "{}", notice.text);
    assert!(notice.text.chars().count() <= 500, "agents show no more");
    let reason = first.session.closed().await;
    assert!(
        matches!(reason, CloseReason::PeerClosed { error: 6, .. }),
        "{reason:?}"
    );
}

#[tokio::test]
async fn unknown_devices_are_refused() {
    let gateway = Gateway::start().await;
    let stranger = longhaul_gateway_core::admission::state::random_key().unwrap();
    let (session, _streams) = dial_gateway(&gateway, &stranger, None, Vec::new());
    let mut state = session.state();
    let settled = state
        .wait_for(|state| !matches!(state, LinkState::Connecting))
        .await
        .unwrap()
        .clone();
    assert!(
        matches!(settled, LinkState::Closed(CloseReason::Refused(_))),
        "{settled:?}"
    );
}

pub(crate) async fn scrape(gateway: &Gateway, fields: &str) -> String {
    let mut connection = TcpStream::connect(gateway.metrics).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nconnection: close\r\n{fields}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn metrics_count_and_are_served_only_to_this_machine() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let port = serve(|_| async { Response::new(full("hello")) }).await;
    agent.get(&format!("http://a.test:{port}/"), &[]).await;
    agent.get_failure("http://127.0.0.1/").await;
    let text = loop {
        let text = scrape(&gateway, "host: localhost").await;
        // The fetch is counted when its task ends, shortly after the response.
        if text.contains("longhaul_fetches_total{outcome=\"failed\"} 1") {
            break text;
        }
    };
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} in {text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert_eq!(value("longhaul_fetches_total{outcome=\"complete\"}"), 1);
    assert_eq!(value("longhaul_failures_total{reason=\"address_refused\"}"), 1);
    assert_eq!(value("longhaul_sessions_open"), 1);
    assert!(
        value("longhaul_link_sent_bytes_total") > 100 && value("longhaul_link_received_bytes_total") > 100
    );
    assert!(value("longhaul_origin_received_bytes_total") > 5);
    for fields in [
        "host: evil.test",
        "host: localhost\r\nvia: 1.1 longhaul",
        "host: localhost\r\norigin: http://x",
    ] {
        assert!(
            scrape(&gateway, fields).await.starts_with("HTTP/1.1 403"),
            "{fields}"
        );
    }
}
