//! Limits of the connections to one host.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use longhaul_origin::{FetchError, Limit, Limits, OriginClient, OriginConfig};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Semaphore, mpsc},
};

use crate::rig::{LOCAL, Origin, config_of, get, read_head, text};

#[tokio::test]
async fn requests_to_one_host_are_bounded() {
    const LIMIT: usize = 3;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let release = Arc::new(Semaphore::new(0));
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (now, peak, permits) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&release));
    let origin = Origin::start(move |_, mut stream| {
        let (now, peak, permits, arrived) = (
            Arc::clone(&now),
            Arc::clone(&peak),
            Arc::clone(&permits),
            arrived.clone(),
        );
        async move {
            while read_head(&mut stream).await.is_some() {
                peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                arrived.send(()).unwrap();
                permits.acquire().await.unwrap().forget();
                now.fetch_sub(1, SeqCst);
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    .await
                    .unwrap();
            }
        }
    })
    .await;
    let limits = Limits {
        connections_per_host: LIMIT,
        reserved_per_host: LIMIT,
        waiting_per_host: 9,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(origin.address)
    })
    .unwrap();
    let fetches: Vec<_> = (0..12)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                text(client.fetch(get("http://site.test/"), LOCAL).await?)
                    .await
                    .map_err(|_| FetchError::Reset)
            })
        })
        .collect();
    for _ in 0..LIMIT {
        arrivals.recv().await.unwrap();
    }
    assert_eq!(
        client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Overloaded(Limit::Host)
    );
    for _ in LIMIT..12 {
        release.add_permits(1);
        arrivals.recv().await.unwrap();
    }
    release.add_permits(LIMIT);
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap().unwrap(), "ok");
    }
    assert_eq!(most.load(SeqCst), LIMIT);
}

#[tokio::test]
async fn a_dropped_body_releases_its_slot() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            .await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let limits = Limits {
        connections_per_host: 1,
        connections: 1,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(origin.address)
    })
    .unwrap();
    for _ in 0..3 {
        drop(client.fetch(get("http://site.test/"), LOCAL).await.unwrap());
    }
    assert_eq!(origin.connections(), 3);
}
