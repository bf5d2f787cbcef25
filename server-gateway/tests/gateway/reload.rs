//! Settings that change while the gateway runs.
use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_driver::{CloseReason, EarlyData, End, LinkState, Refusal, SendStream};
use longhaul_gateway_core::config::settings;
use longhaul_session::{FailureReason, Message, Method, TunnelOpen, TunnelSecurity};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Semaphore, oneshot},
    time::timeout,
};

use crate::{
    agent::{Agent, Answer, BodyEnd, dial_gateway, fetch_of, options, wire},
    gateway::Gateway,
    origin::{OriginBody, full, serve, serve_tcp, text},
    sessions::scrape,
    store::reply,
};

/// Longest wait of a test for an answer: a multiple of the timeouts that it sets.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_limit_of_sessions_applies_to_the_next_session() {
    let gateway = Gateway::start().await;
    let mut first = Agent::connect(&gateway).await;
    gateway
        .reload(|flags| flags.set(&settings::LIMITS_SESSIONS, "1"))
        .await;
    let second = gateway.admit("second");
    // Until the gateway notices the new device, it refuses the device as unknown.
    loop {
        let (session, _streams) = dial_gateway(&gateway, &second, None, Vec::new());
        let mut state = session.state();
        let settled = state
            .wait_for(|state| !matches!(state, LinkState::Connecting))
            .await
            .unwrap()
            .clone();
        match settled {
            LinkState::Closed(CloseReason::Refused(Refusal::UnknownDevice)) => {}
            LinkState::Closed(CloseReason::Refused(Refusal::TooManySessions)) => break,
            other => panic!("{other:?}"),
        }
    }
    gateway
        .reload(|flags| flags.set(&settings::LIMITS_SESSIONS, "2"))
        .await;
    let _second = Agent::connect_as(&gateway, &second).await;
    // The session that was open all the time still works.
    let port = serve(|_| async { Response::new(full("hello")) }).await;
    assert_eq!(
        first.get(&format!("http://a.test:{port}/"), &[]).await.body,
        b"hello"
    );
}

#[tokio::test]
async fn the_guard_and_the_table_of_names_apply_to_the_next_request() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let port = serve(|_| async { Response::new(full("hello")) }).await;
    let literal = format!("http://127.0.0.1:{port}/");
    assert_eq!(agent.get_failure(&literal).await, FailureReason::AddressRefused);
    gateway
        .reload(|flags| flags.set(&settings::GUARD_ALLOW, "127.0.0.0/8"))
        .await;
    assert_eq!(agent.get(&literal, &[]).await.body, b"hello");
    gateway.reload(|_| {}).await;
    assert_eq!(
        agent.get_failure(&format!("{literal}again")).await,
        FailureReason::AddressRefused,
        "although a connection is pooled"
    );
    let name = format!("http://shop.example:{port}/");
    gateway
        .reload(|flags| flags.set(&settings::FETCH_RESOLVE, "shop.example=127.0.0.1"))
        .await;
    assert_eq!(agent.get(&name, &[]).await.body, b"hello");
}

async fn open_tunnel(agent: &mut Agent, port: u16) -> Message {
    let open = Message::TunnelOpen(TunnelOpen {
        id: agent.id(),
        host: "host.test".to_owned(),
        port,
        security: TunnelSecurity::Untouched,
    });
    let first = wire(open).into();
    let stream = agent
        .session
        .open(options(EarlyData::Forbidden), first, End::Open)
        .await;
    let answer = agent.answer().await;
    drop(stream);
    answer.message
}

#[tokio::test]
async fn the_ports_of_tunnels_apply_to_the_next_tunnel() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let port = serve_tcp(|connection| async move { drop(connection) }).await;
    assert!(matches!(
        open_tunnel(&mut agent, port).await,
        Message::TunnelAccept(_)
    ));
    gateway
        .reload(|flags| flags.set(&settings::TUNNEL_PORTS, "1"))
        .await;
    match open_tunnel(&mut agent, port).await {
        Message::TunnelFailed(failed) => assert_eq!(failed.reason, FailureReason::TargetRefused),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_limit_of_a_device_applies_to_requests_that_wait() {
    let gateway = Gateway::start_in(tempfile::tempdir().unwrap(), |flags| {
        flags.set(&settings::LIMITS_STREAMS_PER_DEVICE, "1");
    })
    .await;
    let mut agent = Agent::connect(&gateway).await;
    let (arrived, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (arrives, released) = (Arc::clone(&arrived), Arc::clone(&release));
    let port = serve(move |_| {
        let (arrives, released) = (Arc::clone(&arrives), Arc::clone(&released));
        async move {
            arrives.add_permits(1);
            released.acquire().await.unwrap().forget();
            Response::new(full("done"))
        }
    })
    .await;
    for name in ["one", "two"] {
        let url = format!("http://a.test:{port}/{name}");
        let fetch = fetch_of(agent.id(), Method::Get, &url, &[]);
        agent.send(Message::Fetch(fetch)).await;
    }
    arrived.acquire().await.unwrap().forget();
    // The second request waits for the first one, until the limit is raised.
    assert!(arrived.try_acquire().is_err());
    gateway
        .reload(|flags| flags.set(&settings::LIMITS_STREAMS_PER_DEVICE, "2"))
        .await;
    arrived.acquire().await.unwrap().forget();
    release.add_permits(2);
    for _ in 0..2 {
        let answer = agent.answer().await;
        assert_eq!(answer.response(&agent.session).await.body, b"done");
    }
}

#[tokio::test]
async fn a_wrong_file_changes_nothing() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, "no certificate").unwrap();
    let state = gateway.folder().join("state");
    let flags = longhaul_gateway_core::config::SettingArgs::default()
        .with(&settings::STATE_DIR, state.to_str().unwrap())
        .with(&settings::TUNNEL_PORTS, "1")
        .with(&settings::FETCH_EXTRA_CA, ca.to_str().unwrap());
    let environment = longhaul_gateway_core::config::Environment::new();
    let (config, _) = longhaul_gateway_core::config::resolve(&flags, &environment).unwrap();
    let error = gateway.control.reload(&config).await.unwrap_err();
    let words = format!("fetch.extra-ca: {} contains no certificate", ca.display());
    assert!(error.to_string().starts_with(&words), "{error}");
    let port = serve_tcp(|connection| async move { drop(connection) }).await;
    assert!(matches!(
        open_tunnel(&mut agent, port).await,
        Message::TunnelAccept(_)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_main_loop_that_hangs_does_not_answer_the_watchdog() {
    let home = tempfile::tempdir().unwrap();
    let flags = longhaul_gateway_core::config::SettingArgs::default()
        .with(&settings::LISTEN, "127.0.0.1:0")
        .with(&settings::STATE_DIR, home.path().to_str().unwrap());
    let environment = longhaul_gateway_core::config::Environment::new();
    let (config, _) = longhaul_gateway_core::config::resolve(&flags, &environment).unwrap();
    let server = longhaul_gateway::Server::bind(&config).await.unwrap();
    let control = server.control();
    let (hang, hangs) = oneshot::channel::<()>();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let running = tokio::spawn(server.run(async move {
        let _told = hangs.await;
        // Blocks the task of the main loop, as an endless loop does.
        let _released = held.recv();
    }));
    control.answered().await;
    hang.send(()).unwrap();
    // The main loop hangs as soon as it takes the message; until then it may answer.
    while timeout(Duration::from_millis(200), control.answered())
        .await
        .is_ok()
    {}
    drop(release);
    running.await.unwrap();
}

#[tokio::test]
async fn the_longest_wait_for_a_slot_applies_to_the_next_request() {
    let gateway = Gateway::start_in(tempfile::tempdir().unwrap(), |flags| {
        flags.set(&settings::LIMITS_STREAMS_PER_DEVICE, "1");
    })
    .await;
    let mut agent = Agent::connect(&gateway).await;
    let arrived = Arc::new(Semaphore::new(0));
    let arrives = Arc::clone(&arrived);
    let port = serve(move |_| {
        arrives.add_permits(1);
        std::future::pending::<Response<OriginBody>>()
    })
    .await;
    let url = |name: &str| format!("http://a.test:{port}/{name}");
    let occupying = fetch_of(agent.id(), Method::Get, &url("one"), &[]);
    agent.send(Message::Fetch(occupying)).await;
    arrived.acquire().await.unwrap().forget();
    gateway
        .reload(|flags| flags.set(&settings::LIMITS_QUEUE_TIMEOUT, "1s"))
        .await;
    let hurried = fetch_of(agent.id(), Method::Get, &url("three"), &[]);
    let id = hurried.id;
    agent.send(Message::Fetch(hurried)).await;
    let failed = timeout(LIMIT, agent.answer()).await.unwrap().failed();
    assert_eq!((failed.fetch, failed.reason), (id, FailureReason::Overloaded));
}

/// An origin that sends the head and the first bytes of a body, and no more.
async fn stuck_origin() -> u16 {
    serve_tcp(|mut connection| async move {
        let mut request = [0; 4096];
        while connection.read(&mut request).await.is_ok_and(|length| length > 0) {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe first bytes";
            if connection.write_all(head).await.is_err() {
                return;
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_timeouts_of_origins_apply_to_the_next_request() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let silent = serve(|_| std::future::pending::<Response<OriginBody>>()).await;
    gateway
        .reload(|flags| {
            flags.set(&settings::FETCH_RESPONSE_TIMEOUT, "1s");
            flags.set(&settings::FETCH_IDLE_TIMEOUT, "1s");
        })
        .await;
    let url = format!("http://a.test:{silent}/");
    let failure = timeout(LIMIT, agent.get_failure(&url)).await.unwrap();
    assert_eq!(failure, FailureReason::ResponseTimeout);
    let url = format!("http://a.test:{}/", stuck_origin().await);
    let response = timeout(LIMIT, agent.get(&url, &[])).await.unwrap();
    assert_ne!(response.end, BodyEnd::Complete);
}

#[tokio::test]
async fn the_silence_that_a_tunnel_survives_applies_to_the_next_tunnel() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let port = serve_tcp(|mut connection| async move {
        let _end = connection.read(&mut [0]).await;
    })
    .await;
    let before = open_quiet_tunnel(&mut agent, port).await;
    // The shortest time that the setting permits.
    gateway
        .reload(|flags| flags.set(&settings::TUNNEL_IDLE_TIMEOUT, "10s"))
        .await;
    let (_up, mut after) = open_quiet_tunnel(&mut agent, port).await;
    let end = timeout(LIMIT, after.bytes()).await.unwrap();
    assert!(!matches!(end, Ok(Some(_))), "{end:?}");
    // The earlier tunnel may be silent for half an hour.
    let (_up, mut before) = before;
    assert!(timeout(Duration::from_millis(200), before.bytes()).await.is_err());
}

/// Opens a tunnel on which nobody sends anything.
async fn open_quiet_tunnel(agent: &mut Agent, port: u16) -> (SendStream, Answer) {
    let open = Message::TunnelOpen(TunnelOpen {
        id: agent.id(),
        host: "quiet.test".to_owned(),
        port,
        security: TunnelSecurity::Untouched,
    });
    let first = wire(open).into();
    let up = agent
        .session
        .open(options(EarlyData::Forbidden), first, End::Open)
        .await
        .unwrap();
    let answer = agent.answer().await;
    assert!(matches!(answer.message, Message::TunnelAccept(_)));
    (up, answer)
}

#[tokio::test]
async fn the_effort_of_compression_applies_to_the_next_response() {
    let gateway = Gateway::start().await;
    let page = text(200_000);
    // Each response differs, so that no encoding of another one serves it.
    let of_path = move |path: &str| [path.as_bytes(), &page].concat();
    let body_of = of_path.clone();
    let port = serve(move |request: Request<Incoming>| {
        let body = body_of(request.uri().path());
        async move { reply(200, &[("content-type", "text/html")], full(body)) }
    })
    .await;
    // Sessions from before the reloads. Each gets one response, after which the gateway would know from its
    // measurement that the link is fast.
    let mut agents = Vec::new();
    for _ in 0..3 {
        agents.push(Agent::connect_by(&gateway, "gprs-3+1").await);
    }
    let mut sizes = Vec::new();
    for (round, effort) in ["link", "fixed", "link"].into_iter().enumerate() {
        gateway
            .reload(|flags| flags.set(&settings::CODING_EFFORT, effort))
            .await;
        let url = format!("http://a.test:{port}/{round}");
        let response = agents[round].get(&url, &[]).await;
        assert!(response.body == of_path(&format!("/{round}")), "{effort}");
        sizes.push(response.total.unwrap());
    }
    let metrics = scrape(&gateway, "host: localhost").await;
    let used = |coder: &str| metrics.contains(&format!("longhaul_codings_total{{coder=\"{coder}\"}} "));
    assert!(used("brotli-5"), "{metrics}");
    // The fixed effort is less than that for the slowest links.
    assert!(sizes[1] > sizes[0] && sizes[1] > sizes[2], "{sizes:?}");
}
