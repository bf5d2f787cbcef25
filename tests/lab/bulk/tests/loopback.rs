//! Transfers of every system on real sockets.
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use longhaul_bulk::{Client, Order, Progress, Server, System};

/// Operations here take milliseconds; a minute means that one hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(what: impl std::fmt::Display) {
    println!("SKIPPED {what}");
}

/// Returns the server, or `None` if the kernel does not provide the congestion control.
async fn start(system: System) -> Option<Server> {
    match Server::start(system, anywhere(), None).await {
        Ok(server) => Some(server),
        Err(error @ longhaul_bulk::ServeError::Congestion { .. }) => {
            skip(format_args!("{system}: {error}"));
            None
        }
        Err(error) => panic!("{system}: {error}"),
    }
}

async fn limited<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work)
        .await
        .unwrap_or_else(|_| panic!("{what} hangs"))
}

#[tokio::test]
async fn responses_are_complete_on_an_open_session() {
    for system in System::ALL {
        let Some(server) = start(system).await else {
            continue;
        };
        let client = limited("prepare", Client::prepare(&server.access(), 0, None))
            .await
            .unwrap();
        limited("open", client.open()).await.unwrap();
        for bytes in [8, 9, 2000, 60_000, 3_000_000] {
            let progress = Progress::new();
            limited(system.name(), client.fetch(Order::bytes(bytes), &progress))
                .await
                .unwrap_or_else(|error| panic!("{system}, {bytes} bytes: {error}"));
            assert_eq!(progress.last().map(|last| last.total), Some(bytes), "{system}");
            assert!(progress.asked() <= progress.first_byte(), "{system}");
            assert!(progress.first_byte() <= progress.ended(), "{system}");
        }
        limited("close", client.close()).await;
    }
}

#[tokio::test]
async fn the_first_request_is_sent_with_the_handshake() {
    for system in System::ALL {
        let Some(server) = start(system).await else {
            continue;
        };
        let client = limited("prepare", Client::prepare(&server.access(), 0, None))
            .await
            .unwrap();
        let progress = Progress::new();
        limited(system.name(), client.fetch(Order::bytes(60_000), &progress))
            .await
            .unwrap_or_else(|error| panic!("{system}: {error}"));
        assert_eq!(progress.last().map(|last| last.total), Some(60_000), "{system}");
    }
}

#[tokio::test]
async fn messages_overtake_a_download() {
    for system in System::ALL {
        let Some(server) = start(system).await else {
            continue;
        };
        let client = limited("prepare", Client::prepare(&server.access(), 1, None))
            .await
            .unwrap();
        limited("open", client.open()).await.unwrap();
        let bulk = Progress::new();
        let download = tokio::spawn({
            let (client, bulk) = (client.clone(), bulk.clone());
            async move { client.fetch(Order::endless(), &bulk).await }
        });
        for _ in 0..5 {
            let message = Progress::new();
            limited(system.name(), client.fetch(Order::urgent(2000), &message))
                .await
                .unwrap_or_else(|error| panic!("{system}: {error}"));
        }
        bulk.stop();
        limited("stopping", download)
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{system}: {error}"));
        assert!(bulk.ended().is_some(), "{system}");
        limited("close", client.close()).await;
    }
}

#[tokio::test]
async fn a_server_that_ends_is_an_error() {
    for system in System::ALL {
        let Some(server) = start(system).await else {
            continue;
        };
        let client = limited("prepare", Client::prepare(&server.access(), 0, None))
            .await
            .unwrap();
        limited("open", client.open()).await.unwrap();
        let progress = Progress::new();
        let download = tokio::spawn({
            let (client, progress) = (client.clone(), progress.clone());
            async move { client.fetch(Order::endless(), &progress).await }
        });
        limited("the first byte", async {
            while progress.first_byte().is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(server);
        // QUIC and Longhaul cannot distinguish a peer that ends without a message from a silent link, which
        // they must outlast.
        if system.name() == "cubic" || system.name() == "bbr" {
            let outcome = limited(system.name(), download).await.unwrap();
            assert!(outcome.is_err(), "{system}");
        } else {
            download.abort();
        }
    }
}
