use std::{future::Future, pin::pin, task::Poll};

use longhaul_types::PublicKey;
use tokio::time::Instant;

use super::*;

const ANNA: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([1; 32]));
const BERT: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([2; 32]));

fn schedulers(limits: Limits) -> HostSchedulers {
    HostSchedulers::new(limits, &Timeouts::default())
}

fn target(url: &str) -> Target {
    Target::of(&url.parse().unwrap()).unwrap()
}

/// Polls a future once; returns true if it is pending.
async fn waits(future: impl Future) -> bool {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn the_first_https_request_of_a_device_goes_alone() {
    let schedulers = schedulers(Limits::default());
    let site = target("https://site.test/");
    let mut probe = schedulers.enter(&site, ANNA).await.unwrap();
    assert!(waits(schedulers.enter(&site, ANNA)).await);
    assert!(!waits(schedulers.enter(&target("https://other.test/"), ANNA)).await);
    assert!(!waits(schedulers.enter(&target("http://site.test/"), ANNA)).await);
    assert!(!waits(schedulers.enter(&site, BERT)).await, "its own probe");
    let live = schedulers.h2_opened(&site, ANNA);
    probe.connected(true);
    let second = schedulers.enter(&site, ANNA).await.unwrap();
    // The connection is lost: the next request is a probe again.
    drop((live, probe, second));
    let _probe = schedulers.enter(&site, ANNA).await.unwrap();
    assert!(waits(schedulers.enter(&site, ANNA)).await);
}

#[tokio::test]
async fn all_devices_share_the_knowledge_that_a_host_lacks_http2() {
    let schedulers = schedulers(Limits::default());
    let site = target("https://site.test/");
    let mut probe = schedulers.enter(&site, ANNA).await.unwrap();
    assert!(waits(schedulers.enter(&site, ANNA)).await);
    probe.connected(false);
    for owner in [ANNA, BERT] {
        let _one = schedulers.enter(&site, owner).await.unwrap();
        assert!(!waits(schedulers.enter(&site, owner)).await);
    }
}

#[tokio::test]
async fn a_failed_probe_lets_all_others_through() {
    let schedulers = schedulers(Limits::default());
    let site = target("https://site.test/");
    let probe = schedulers.enter(&site, ANNA).await.unwrap();
    let mut second = pin!(schedulers.enter(&site, ANNA));
    assert!(waits(&mut second).await);
    drop(probe);
    let _second = second.await.unwrap();
    assert!(!waits(schedulers.enter(&site, ANNA)).await);
}

#[tokio::test(start_paused = true)]
async fn a_full_host_serves_another_device_at_once() {
    let limits = Limits::default();
    let schedulers = schedulers(limits);
    let site = target("http://site.test/");
    let mut held = Vec::new();
    for _ in 0..limits.connections_per_host {
        held.push(schedulers.enter(&site, ANNA).await.unwrap());
    }
    assert!(waits(schedulers.enter(&site, ANNA)).await);
    for _ in 0..limits.reserved_per_host {
        held.push(schedulers.enter(&site, BERT).await.unwrap());
    }
    assert!(waits(schedulers.enter(&site, BERT)).await, "beyond its share");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_a_reason() {
    let limits = Limits {
        connections_per_host: 1,
        reserved_per_host: 1,
        long_lived_per_device: 0,
        waiting_per_host: 1,
        ..Limits::default()
    };
    let schedulers = schedulers(limits);
    let site = target("http://site.test/");
    let _first = schedulers.enter(&site, ANNA).await.unwrap();
    let begun = Instant::now();
    let (second, third) = tokio::join!(schedulers.enter(&site, ANNA), schedulers.enter(&site, ANNA));
    for refused in [second, third] {
        assert_eq!(refused.err(), Some(FetchError::Overloaded(Limit::Host)));
    }
    assert_eq!(begun.elapsed(), Timeouts::default().host_wait);
}

#[tokio::test(start_paused = true)]
async fn long_lived_responses_do_not_count_for_the_host() {
    let limits = Limits {
        connections_per_host: 2,
        reserved_per_host: 1,
        ..Limits::default()
    };
    let schedulers = schedulers(limits);
    let site = target("http://site.test/");
    let events = schedulers.enter(&site, ANNA).await.unwrap();
    events.mark_long_lived();
    let _slow = [
        schedulers.enter(&site, ANNA).await.unwrap(),
        schedulers.enter(&site, ANNA).await.unwrap(),
    ];
    let begun = Instant::now();
    let _next = schedulers.enter(&site, ANNA).await.unwrap();
    assert_eq!(begun.elapsed(), LONG_LIVED_AGE);
}

#[tokio::test]
async fn idle_hosts_are_forgotten() {
    let schedulers = schedulers(Limits::default());
    let busy = target("http://busy.test/");
    let _permit = schedulers.enter(&busy, ANNA).await.unwrap();
    for index in 0..2 * MAX_HOSTS {
        schedulers
            .enter(&target(&format!("http://h{index}.test/")), ANNA)
            .await
            .unwrap();
    }
    let hosts = schedulers.hosts();
    assert!(hosts.len() <= MAX_HOSTS && hosts.contains_key(&busy));
}

#[tokio::test(start_paused = true)]
async fn another_wait_applies_to_later_requests() {
    let limits = Limits {
        connections_per_host: 1,
        reserved_per_host: 1,
        ..Limits::default()
    };
    let schedulers = schedulers(limits);
    let site = target("http://site.test/");
    let _first = schedulers.enter(&site, ANNA).await.unwrap();
    schedulers.set_wait(Duration::from_secs(5));
    let begun = Instant::now();
    assert!(schedulers.enter(&site, ANNA).await.is_err());
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_few_idle_hosts_and_devices_are_remembered() {
    let schedulers = schedulers(Limits::default());
    let site = target("https://site.test/");
    let mut probe = schedulers.enter(&site, ANNA).await.unwrap();
    probe.connected(false);
    drop(probe);
    // That a probe failed is remembered for the device, not for all.
    let other = target("https://other.test/");
    drop(schedulers.enter(&other, ANNA).await.unwrap());
    drop(schedulers.enter(&other, BERT).await.unwrap());
    for host in [site, other] {
        let _first = schedulers.enter(&host, ANNA).await.unwrap();
        assert!(!waits(schedulers.enter(&host, ANNA)).await, "no probe: {host:?}");
    }
}

#[tokio::test]
async fn idle_devices_of_a_host_are_forgotten() {
    let schedulers = schedulers(Limits::default());
    let site = target("https://site.test/");
    let _probe = schedulers.enter(&site, ANNA).await.unwrap();
    for number in 0..2 * MAX_DEVICES {
        let mut key = [9; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        let owner = ConnectionOwner::Device(PublicKey::from_bytes(key));
        schedulers.enter(&site, owner).await.unwrap();
    }
    assert!(schedulers.scheduler(&site).devices().len() <= MAX_DEVICES);
    assert!(
        waits(schedulers.enter(&site, ANNA)).await,
        "its first request is under way"
    );
}

#[tokio::test]
async fn requests_share_a_connection_only_while_one_over_http2_is_open() {
    let limits = Limits {
        connections_per_host: 1,
        reserved_per_host: 1,
        ..Limits::default()
    };
    for (is_open, is_h2, is_shared) in [(true, true, true), (false, true, false), (true, false, false)] {
        let schedulers = schedulers(limits);
        let site = target("https://site.test/");
        let mut probe = schedulers.enter(&site, ANNA).await.unwrap();
        let _live = is_open.then(|| schedulers.h2_opened(&site, ANNA));
        probe.connected(is_h2);
        assert_eq!(
            !waits(schedulers.enter(&site, ANNA)).await,
            is_shared,
            "{is_open} {is_h2}"
        );
    }
}

#[tokio::test]
async fn a_first_request_that_gives_up_its_wait_holds_up_nobody() {
    let limits = Limits {
        connections_per_host: 1,
        reserved_per_host: 0,
        ..Limits::default()
    };
    let schedulers = schedulers(limits);
    let site = target("https://site.test/");
    let other = schedulers.enter(&site, BERT).await.unwrap();
    assert!(
        waits(schedulers.enter(&site, ANNA)).await,
        "it waits for a connection"
    );
    drop(other);
    assert!(!waits(schedulers.enter(&site, ANNA)).await);
}
