//! Changes of the settings of a running client, with real origins.

use std::time::Duration;

use crate::rig::{LOCAL, Origin, config_of, get, guard, read_head, text};
use longhaul_origin::{
    AddressClass, FetchError, OriginClient, OriginConfig, OriginConfigError, ResolveMap, Timeouts,
};
use tokio::{io::AsyncWriteExt as _, sync::watch};

/// An origin that answers each request of a connection with this text.
async fn saying(word: &'static str) -> Origin {
    Origin::start(move |_, mut stream| async move {
        while read_head(&mut stream).await.is_some() {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{word}", word.len());
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await
}

async fn fetch(client: &OriginClient, url: &str) -> Result<String, FetchError> {
    let response = client.fetch(get(url), LOCAL).await?;
    Ok(text(response).await.unwrap())
}

#[tokio::test]
async fn another_table_of_names_leads_to_another_origin_although_a_connection_is_pooled() {
    let (first, second) = (saying("first").await, saying("second").await);
    let client = OriginClient::new(config_of(first.address)).unwrap();
    let isolated = client.isolated();
    for client in [&client, &isolated] {
        assert_eq!(fetch(client, "http://site.test/").await.unwrap(), "first");
        assert_eq!(fetch(client, "http://site.test/").await.unwrap(), "first");
    }
    assert_eq!(first.connections(), 2, "pooled, one for each client");
    client.reconfigure(config_of(second.address)).unwrap();
    for client in [&client, &isolated] {
        assert_eq!(fetch(client, "http://site.test/").await.unwrap(), "second");
    }
    // The same rules keep their pooled connections.
    client.reconfigure(config_of(second.address)).unwrap();
    assert_eq!(fetch(&client, "http://site.test/").await.unwrap(), "second");
    assert_eq!((first.connections(), second.connections()), (2, 2));
}

#[tokio::test]
async fn a_guard_that_no_longer_allows_an_address_also_ends_the_use_of_pooled_connections() {
    let origin = saying("private").await;
    let url = format!("http://{}/", origin.address);
    let with = |allow: &[&str]| OriginConfig {
        guard: guard(allow),
        ..OriginConfig::default()
    };
    let client = OriginClient::new(with(&["127.0.0.0/8"])).unwrap();
    assert_eq!(fetch(&client, &url).await.unwrap(), "private");
    client.reconfigure(with(&[])).unwrap();
    match fetch(&client, &url).await {
        Err(FetchError::GuardRefused(refusal)) => assert_eq!(refusal.class, AddressClass::Loopback),
        other => panic!("{other:?}"),
    }
    client.reconfigure(with(&["127.0.0.0/8"])).unwrap();
    assert_eq!(fetch(&client, &url).await.unwrap(), "private");
}

#[tokio::test]
async fn a_response_in_progress_continues_and_its_connection_is_not_used_again() {
    let (release, released) = watch::channel(false);
    let slow = Origin::start(move |_, mut stream| {
        let mut released = released.clone();
        async move {
            while read_head(&mut stream).await.is_some() {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst";
                if stream.write_all(head).await.is_err() {
                    return;
                }
                released.wait_for(|released| *released).await.unwrap();
                let _sent = stream.write_all(b"-last").await;
            }
        }
    })
    .await;
    let other = saying("other").await;
    let client = OriginClient::new(config_of(slow.address)).unwrap();
    let response = client.fetch(get("http://site.test/"), LOCAL).await.unwrap();
    client.reconfigure(config_of(other.address)).unwrap();
    release.send_replace(true);
    assert_eq!(text(response).await.unwrap(), "first-last");
    assert_eq!(fetch(&client, "http://site.test/").await.unwrap(), "other");
    assert_eq!(slow.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn timeouts_apply_to_later_requests() {
    let silent =
        Origin::start(|_, mut stream| async move { while read_head(&mut stream).await.is_some() {} }).await;
    let with = |seconds| OriginConfig {
        timeouts: Timeouts {
            response_head: Duration::from_secs(seconds),
            ..Timeouts::default()
        },
        resolve: ResolveMap::parse([("*", silent.address.to_string())]).unwrap(),
        ..OriginConfig::default()
    };
    let client = OriginClient::new(with(60)).unwrap();
    client.reconfigure(with(5)).unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(
        fetch(&client, "http://site.test/").await,
        Err(FetchError::ResponseTimeout)
    );
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_secs(5) && waited < Duration::from_secs(30),
        "{waited:?}"
    );
}

#[tokio::test]
async fn wrong_settings_change_nothing() {
    let (first, second) = (saying("first").await, saying("second").await);
    let client = OriginClient::new(config_of(first.address)).unwrap();
    let wrong = OriginConfig {
        extra_ca: vec![b"no certificate".to_vec()],
        ..config_of(second.address)
    };
    assert_eq!(
        client.reconfigure(wrong),
        Err(OriginConfigError::NoCertificate { file: 1 })
    );
    assert_eq!(fetch(&client, "http://site.test/").await.unwrap(), "first");
}
