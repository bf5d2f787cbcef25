//! Which connection a request takes, and which connections are closed: over HTTP/1.1 and HTTP/2.
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use longhaul_origin::Limits;
use tokio::time::{advance, pause, resume};

use crate::rig::{
    clock::settle,
    numbered::{ANNA, BERT, Numbered, ask, spawn},
};

const KINDS: [Option<&str>; 3] = [None, Some("http/1.1"), Some("h2")];

/// Moves the clock, which otherwise runs by itself, and lets the tasks see it.
async fn pass(seconds: u64) {
    pause();
    advance(Duration::from_secs(seconds)).await;
    resume();
    settle().await;
}

#[tokio::test]
async fn a_connection_serves_one_device_at_a_time_and_its_last_one_first() {
    let mut site = Numbered::start(Some("h2")).await;
    let client = site.client(Limits::default());
    let (number, held) = site.held(&client, ANNA, 1).await;
    assert_eq!(number, 0);
    assert_eq!(
        ask(&client, BERT, site.request(1, "/")).await,
        "1",
        "the other one is in use"
    );
    assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "0");
    site.release(1);
    assert_eq!(held.await.unwrap(), "0");
    for _ in 0..3 {
        assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "0");
        assert_eq!(ask(&client, BERT, site.request(1, "/")).await, "1");
    }
    assert_eq!(site.origin.connections(), 2);
}

#[tokio::test]
async fn a_device_that_takes_over_a_connection_sends_all_its_requests_there() {
    let mut site = Numbered::start(Some("h2")).await;
    let client = site.client(Limits {
        connections_per_host: 1,
        reserved_per_host: 1,
        ..Limits::default()
    });
    assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "0");
    let (_, first) = site.held(&client, BERT, 1).await;
    let (_, second) = site.held(&client, BERT, 1).await;
    assert_eq!(
        ask(&client, ANNA, site.request(1, "/")).await,
        "1",
        "it is in use"
    );
    site.release(2);
    for held in [first, second] {
        assert_eq!(held.await.unwrap(), "0");
    }
}

#[tokio::test]
async fn an_http2_connection_that_was_opened_by_other_rules_carries_no_further_request() {
    let (first, second) = (
        Numbered::start(Some("h2")).await,
        Numbered::start(Some("h2")).await,
    );
    let client = first.client(Limits::default());
    for _ in 0..2 {
        assert_eq!(ask(&client, ANNA, first.request(1, "/")).await, "0");
    }
    let mut config = second.config(Limits::default());
    config.extra_ca.extend(first.config(Limits::default()).extra_ca);
    client.reconfigure(config).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&client, ANNA, first.request(1, "/")).await, "0");
    }
    assert_eq!((first.origin.connections(), second.origin.connections()), (1, 1));
}

#[tokio::test]
async fn a_lost_connection_takes_no_other_one_with_it() {
    let mut site = Numbered::start(Some("h2")).await;
    let client = site.client(Limits::default());
    assert_eq!(ask(&client, ANNA, site.private(1)).await, "0");
    assert_eq!(ask(&client, BERT, site.private(1)).await, "1");
    site.close(0).await;
    assert_eq!(ask(&client, ANNA, site.private(1)).await, "2");
    assert_eq!(ask(&client, BERT, site.private(1)).await, "1");
    assert_eq!(ask(&client, ANNA, site.private(1)).await, "2");
}

#[tokio::test]
async fn a_burst_after_a_lost_connection_takes_one_connection() {
    let mut site = Numbered::start(Some("h2")).await;
    let client = site.client(Limits::default());
    assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "0");
    site.close(0).await;
    // Meanwhile the client notices the end.
    assert_eq!(ask(&client, ANNA, site.request(2, "/")).await, "1");
    let burst: Vec<_> = (0..5)
        .map(|_| spawn(&client, ANNA, site.request(1, "/hold")))
        .collect();
    for _ in 0..5 {
        assert_eq!(site.arrival().await, 2);
    }
    site.release(5);
    for held in burst {
        assert_eq!(held.await.unwrap(), "2");
    }
    assert_eq!(site.origin.connections(), 3);
}

#[tokio::test]
async fn a_request_whose_connection_is_slow_to_open_takes_one_that_becomes_free() {
    for (alpn, other) in [("http/1.1", ANNA), ("h2", BERT)] {
        let mut site = Numbered::silent_from(Some(alpn), 1).await;
        let client = site.client(Limits::default());
        assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "0");
        let (_, held) = site.held(&client, ANNA, 1).await;
        let waiting = spawn(&client, other, site.request(1, "/"));
        assert_eq!(site.arrival().await, 1, "its own connection is not answered");
        site.release(1);
        assert_eq!(held.await.unwrap(), "0");
        assert_eq!(waiting.await.unwrap(), "0", "{alpn}");
    }
}

#[tokio::test]
async fn each_device_keeps_its_number_of_idle_connections() {
    let mut site = Numbered::start(None).await;
    let client = site.client(Limits {
        idle_per_host: 1,
        ..Limits::default()
    });
    let (_, first) = site.held(&client, ANNA, 1).await;
    let (_, second) = site.held(&client, ANNA, 1).await;
    site.release(2);
    for held in [first, second] {
        held.await.unwrap();
    }
    let kept = 1 - site.end().await;
    assert_eq!(ask(&client, BERT, site.request(1, "/")).await, "2");
    assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, kept.to_string());
    assert_eq!(ask(&client, BERT, site.request(1, "/")).await, "2");
    assert_eq!(site.ends(), []);
}

#[tokio::test]
async fn a_device_at_its_limit_closes_its_own_longest_idle_connection() {
    for kind in KINDS {
        let mut site = Numbered::start(kind).await;
        let client = site.client(Limits {
            connections_per_device: 4,
            ..Limits::default()
        });
        assert_eq!(ask(&client, BERT, site.private(1)).await, "0");
        let (_, held) = site.held(&client, ANNA, 9).await;
        for (port, number) in [(1, "2"), (2, "3"), (3, "4")] {
            assert_eq!(ask(&client, ANNA, site.private(port)).await, number, "{kind:?}");
        }
        for (port, closed, opened) in [(4, 2, "5"), (5, 3, "6"), (6, 4, "7"), (7, 5, "8")] {
            assert_eq!(ask(&client, ANNA, site.private(port)).await, opened, "{kind:?}");
            assert_eq!(site.end().await, closed, "{kind:?}");
        }
        assert_eq!(ask(&client, BERT, site.private(1)).await, "0", "{kind:?}");
        assert_eq!(ask(&client, ANNA, site.private(5)).await, "6", "{kind:?}");
        site.release(1);
        assert_eq!(held.await.unwrap(), "1", "{kind:?}");
        assert_eq!(site.ends(), [], "{kind:?}");
    }
}

#[tokio::test]
async fn room_for_a_connection_is_made_by_closing_only_one() {
    let mut site = Numbered::start(None).await;
    let client = site.client(Limits {
        connections_per_device: 2,
        ..Limits::default()
    });
    let (_, first) = site.held(&client, ANNA, 1).await;
    let (_, second) = site.held(&client, ANNA, 1).await;
    for held in [first, second] {
        site.release(1);
        held.await.unwrap();
    }
    assert_eq!(ask(&client, ANNA, site.request(2, "/")).await, "2");
    let kept = 1 - site.end().await;
    assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, kept.to_string());
}

#[tokio::test]
async fn a_connection_that_ends_its_last_request_makes_room_for_one_that_is_waited_for() {
    for kind in KINDS {
        let mut site = Numbered::start(kind).await;
        let client = site.client(Limits {
            connections: 1,
            ..Limits::default()
        });
        let (_, held) = site.held(&client, ANNA, 1).await;
        let waiting = spawn(&client, BERT, site.request(2, "/"));
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        site.release(1);
        assert_eq!(held.await.unwrap(), "0");
        assert_eq!(waiting.await.unwrap(), "1", "{kind:?}");
    }
}

#[tokio::test]
async fn idle_connections_are_closed_when_their_time_is_over() {
    for kind in KINDS {
        let mut site = Numbered::start(kind).await;
        let client = site.client(Limits::default());
        for number in 0..2 {
            // A first look at the idle connections leaves the young ones open.
            for _ in 0..3 {
                let answer = ask(&client, ANNA, site.request(1, "/")).await;
                assert_eq!(answer, number.to_string(), "{kind:?}");
                pass(16).await;
            }
            pass(50).await;
            assert_eq!(site.end().await, number, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_in_use_stays_open_however_long_a_request_takes() {
    let mut site = Numbered::start(Some("h2")).await;
    let client = site.client(Limits::default());
    let (_, held) = site.held(&client, ANNA, 1).await;
    for _ in 0..8 {
        pass(16).await;
        assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "0");
    }
    site.release(1);
    assert_eq!(held.await.unwrap(), "0");
}

#[tokio::test]
async fn a_connection_that_may_carry_no_further_request_is_closed_at_once() {
    let mut site = Numbered::start(None).await;
    let client = site.client(Limits::default());
    // The document that sends the body has another origin.
    let request = Request::post("http://site.test:1/").header("origin", "http://other.test");
    let request = request.body(Full::<Bytes>::from("body")).unwrap();
    assert_eq!(ask(&client, ANNA, request).await, "0");
    assert_eq!(site.end().await, 0);
}

#[tokio::test]
async fn a_connection_that_is_not_for_its_host_is_not_used_again() {
    let mut site = Numbered::start(Some("h2")).await;
    let client = site.client(Limits::default());
    assert_eq!(ask(&client, ANNA, site.request(1, "/misdirected")).await, "1");
    assert_eq!(site.end().await, 0);
    assert_eq!(ask(&client, ANNA, site.request(1, "/")).await, "1");
}
