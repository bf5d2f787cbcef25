//! HTTP/2 connections on which the origin is silent for long.
use std::time::Duration;

use http::Method;
use tokio::{
    sync::{mpsc, watch},
    time::advance,
};

use crate::{
    http2_repeats::{send, trusting},
    rig::{
        clock::{freeze, settle},
        frames::{ACK, FrameOrigin, PING},
    },
};

#[tokio::test]
async fn a_slow_answer_is_waited_for_on_a_connection_that_was_not_idle() {
    let _clock = freeze();
    for answers_before in 0..3 {
        let (asked, mut is_asked) = mpsc::unbounded_channel();
        let (go, went) = watch::channel(false);
        let site = FrameOrigin::start(&["h2"], move |_, mut frames| {
            let (asked, mut went) = (asked.clone(), went.clone());
            async move {
                frames.settings().await;
                for _ in 0..answers_before {
                    let stream = frames.request().await.unwrap();
                    frames.respond(stream, "first").await;
                }
                let stream = frames.request().await.unwrap();
                asked.send(()).unwrap();
                went.wait_for(|went| *went).await.unwrap();
                frames.respond(stream, "late").await;
                frames.request().await;
            }
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        for _ in 0..answers_before {
            assert_eq!(send(&client, Method::GET, "").await.unwrap(), "first");
            advance(Duration::from_secs(3)).await;
        }
        let late = tokio::spawn(async move { send(&client, Method::GET, "").await });
        is_asked.recv().await.unwrap();
        for _ in 0..10 {
            advance(Duration::from_secs(25)).await;
            settle().await;
        }
        go.send(true).unwrap();
        assert_eq!(late.await.unwrap().unwrap(), "late");
        assert_eq!(site.origin.connections(), 1, "{answers_before}");
    }
}

#[tokio::test]
async fn a_connection_that_was_idle_and_answers_pings_keeps_its_request() {
    let _clock = freeze();
    let (asked, mut is_asked) = mpsc::unbounded_channel();
    let site = FrameOrigin::start(&["h2"], move |index, mut frames| {
        let asked = asked.clone();
        async move {
            if index > 0 {
                return frames.echo().await;
            }
            frames.settings().await;
            let stream = frames.request().await.unwrap();
            frames.respond(stream, "first").await;
            let stream = frames.request().await.unwrap();
            asked.send(()).unwrap();
            let mut pings = 0;
            while pings < 3 {
                let Some(frame) = frames.next().await else { return };
                if frame.kind == PING && frame.flags & ACK == 0 {
                    frames.send(PING, ACK, 0, &frame.payload).await;
                    pings += 1;
                }
            }
            frames.respond(stream, "late").await;
            frames.request().await;
        }
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    assert_eq!(send(&client, Method::GET, "").await.unwrap(), "first");
    advance(Duration::from_secs(12)).await;
    let late = tokio::spawn(async move { send(&client, Method::GET, "").await });
    is_asked.recv().await.unwrap();
    while !late.is_finished() {
        advance(Duration::from_secs(5)).await;
        settle().await;
    }
    assert_eq!(late.await.unwrap().unwrap(), "late");
    assert_eq!(site.origin.connections(), 1);
}
