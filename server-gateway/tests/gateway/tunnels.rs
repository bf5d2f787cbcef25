//! Tunnels.
use longhaul_driver::{EarlyData, End, StreamError};
use longhaul_session::{FailureReason, Message, TunnelOpen, TunnelSecurity};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use crate::{
    agent::{Agent, Answer, options, wire},
    gateway::Gateway,
    origin::serve_tcp,
};

async fn read_all(answer: &mut Answer) -> Result<Vec<u8>, StreamError> {
    let mut all = Vec::new();
    while let Some(bytes) = answer.bytes().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

async fn refused(agent: &mut Agent, host: &str, port: u16) -> FailureReason {
    let id = agent.id();
    agent
        .send(Message::TunnelOpen(TunnelOpen {
            id,
            host: host.to_owned(),
            port,
            security: TunnelSecurity::Untouched,
        }))
        .await;
    match agent.answer().await.message {
        Message::TunnelFailed(failed) => failed.reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tunnels_pass_bytes_both_ways_and_close_each_direction_separately() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    // Responds only after the agent's end of stream, so that a lost half-close blocks the test.
    let port = serve_tcp(|mut connection: TcpStream| async move {
        let mut all = Vec::new();
        connection.read_to_end(&mut all).await.unwrap();
        all.reverse();
        connection.write_all(&all).await.unwrap();
    })
    .await;
    let mut first = wire(Message::TunnelOpen(TunnelOpen {
        id: agent.id(),
        host: "echo.test".to_owned(),
        port,
        security: TunnelSecurity::Untouched,
    }));
    first.extend(b"pipelined, ");
    let mut up = agent
        .session
        .open(options(EarlyData::Forbidden), first.into(), End::Open)
        .await
        .unwrap();
    let mut answer = agent.answer().await;
    assert!(matches!(answer.message, Message::TunnelAccept(_)));
    let long = vec![b'x'; 500_000];
    up.write(long.clone().into()).await.unwrap();
    up.finish().await.unwrap();
    let mut expected = [b"pipelined, ".as_slice(), &long].concat();
    expected.reverse();
    assert_eq!(read_all(&mut answer).await.unwrap(), expected);
}

#[tokio::test]
async fn a_reset_by_the_host_is_not_a_clean_end() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let port = serve_tcp(|connection: TcpStream| async move {
        connection.set_zero_linger().unwrap();
    })
    .await;
    let id = agent.id();
    let open = wire(Message::TunnelOpen(TunnelOpen {
        id,
        host: "reset.test".to_owned(),
        port,
        security: TunnelSecurity::Untouched,
    }));
    let _up = agent
        .session
        .open(options(EarlyData::Forbidden), open.into(), End::Open)
        .await
        .unwrap();
    let Ok(stream) = agent.session.accept().await else {
        panic!()
    };
    // The reset may arrive before the response is read, or even before it is sent.
    let mut answer = Answer::of(stream).await;
    if matches!(answer.message, Message::TunnelAccept(_)) {
        assert!(matches!(
            read_all(&mut answer).await,
            Err(StreamError::Cancelled(_))
        ));
    }
}

#[tokio::test]
async fn a_cancelled_tunnel_closes_the_connection() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let (ended_in, mut ended) = mpsc::channel(1);
    let port = serve_tcp(move |mut connection: TcpStream| {
        let ended = ended_in.clone();
        async move {
            let _reset_or_end = connection.read(&mut [0; 16]).await;
            ended.send(()).await.unwrap();
        }
    })
    .await;
    let id = agent.id();
    let open = wire(Message::TunnelOpen(TunnelOpen {
        id,
        host: "quiet.test".to_owned(),
        port,
        security: TunnelSecurity::Untouched,
    }));
    let mut up = agent
        .session
        .open(options(EarlyData::Forbidden), open.into(), End::Open)
        .await
        .unwrap();
    assert!(matches!(agent.answer().await.message, Message::TunnelAccept(_)));
    up.cancel(1);
    ended.recv().await.unwrap();
}

#[tokio::test]
async fn tunnels_to_forbidden_targets_are_refused() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let open = serve_tcp(|_| async {}).await;
    assert_eq!(
        refused(&mut agent, "mail.test", 25).await,
        FailureReason::TargetRefused
    );
    for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost", "10.0.0.1"] {
        assert_eq!(
            refused(&mut agent, host, open).await,
            FailureReason::AddressRefused,
            "{host}"
        );
    }
    // Tunnels to the gateway's own ports are refused even if the address is allowed.
    let own = gateway.metrics.port();
    assert_eq!(
        refused(&mut agent, "metrics.test", own).await,
        FailureReason::AddressRefused
    );
}
