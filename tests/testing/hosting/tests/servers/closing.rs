use std::time::Duration;

use anyhow::Result;
use longhaul_hosting::{Announcement, CloseAfter, HostingOptions, KeepAlive};
use longhaul_raw_client::RawClient;
use tokio::{net::TcpStream, time::timeout};

use crate::client::{PATIENCE, ended, fetch, get, server};

fn closing(responses: u32, announcement: Announcement) -> HostingOptions {
    HostingOptions {
        close_after: Some(CloseAfter {
            responses,
            announcement,
        }),
        ..HostingOptions::default()
    }
}

#[tokio::test]
async fn the_last_response_announces_the_close() -> Result<()> {
    let server = server(closing(3, Announcement::Announced)).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    for number in 1..=3 {
        let answer = fetch(&mut client, "/100").await?;
        let close = (number == 3).then_some("close");
        assert_eq!(answer.field("connection"), close, "{number}");
    }
    ended(client).await
}

#[tokio::test]
async fn an_unannounced_close_is_only_a_fin() -> Result<()> {
    let server = server(closing(2, Announcement::Silent)).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    for _ in 0..2 {
        assert_eq!(fetch(&mut client, "/100").await?.field("connection"), None);
    }
    ended(client).await?;
    assert_eq!(server.hosting.statistics().requests, 2);
    Ok(())
}

#[tokio::test]
async fn pipelined_requests_after_the_close_are_lost_and_earlier_responses_are_complete() -> Result<()> {
    for announcement in [Announcement::Announced, Announcement::Silent] {
        let server = server(closing(3, announcement)).await?;
        let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
        // So long that the server leaves bytes unread, which must not make its close a reset.
        let request = get("/300000");
        client.send(&request.repeat(200)).await?;
        for _ in 0..3 {
            assert_eq!(client.response().await?.body.len(), 300_000);
        }
        ended(client).await?;
        assert_eq!(server.hosting.statistics().requests, 3, "{announcement:?}");
    }
    Ok(())
}

#[tokio::test]
async fn without_keep_alive_every_response_closes_the_connection() -> Result<()> {
    let options = HostingOptions {
        keep_alive: KeepAlive::Off,
        ..HostingOptions::default()
    };
    let server = server(options).await?;
    for _ in 0..2 {
        let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
        assert_eq!(
            fetch(&mut client, "/100").await?.field("connection"),
            Some("close")
        );
        ended(client).await?;
    }
    assert_eq!(server.hosting.statistics().connections, 2);
    Ok(())
}

#[tokio::test]
async fn http_1_0_closes_unless_keep_alive_is_requested() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    let ask = |more: &str| format!("GET /9 HTTP/1.0\r\nHost: a.example\r\n{more}\r\n");
    client.send(&ask("Connection: keep-alive\r\n")).await?;
    let answer = client.response().await?;
    assert_eq!(answer.field("connection"), Some("keep-alive"));
    client.send(&ask("")).await?;
    assert_eq!(client.response().await?.body.len(), 9);
    ended(client).await
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_used_one_is_not() -> Result<()> {
    let options = HostingOptions {
        keep_alive_timeout: Duration::from_millis(150),
        think_time: Duration::from_millis(400),
        ..HostingOptions::default()
    };
    let server = server(options).await?;
    let mut client = RawClient::connect(server.hosting.plain()[0]).await?;
    // The think time exceeds the idle time, but does not count as idle.
    for _ in 0..2 {
        assert_eq!(fetch(&mut client, "/100").await?.body.len(), 100);
    }
    ended(client).await
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() -> Result<()> {
    let options = HostingOptions {
        max_connections: 1,
        ..HostingOptions::default()
    };
    let server = server(options).await?;
    let address = server.hosting.plain()[0];
    let mut first = RawClient::connect(address).await?;
    fetch(&mut first, "/1").await?;
    let mut second = RawClient::connect(address).await?;
    second.send(&get("/2")).await?;
    for _ in 0..100 {
        fetch(&mut first, "/1").await?;
    }
    assert_eq!(server.hosting.statistics().connections, 1);
    drop(first);
    assert_eq!(second.response().await?.body.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_dropped_server_closes_its_listeners() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let address = server.hosting.plain()[0];
    let mut client = RawClient::connect(address).await?;
    fetch(&mut client, "/1").await?;
    drop(server);
    timeout(PATIENCE, async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await?;
    Ok(())
}
