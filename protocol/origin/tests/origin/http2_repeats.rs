//! Requests over HTTP/2 that the origin did not process, and that are sent once more.
use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use longhaul_origin::{BodyError, FetchError, OriginClient, OriginConfig};
use tokio::sync::mpsc;

use crate::{
    rig::{
        LOCAL, config_of,
        frames::{
            CANCEL, DATA, END_STREAM, ENHANCE_YOUR_CALM, FrameOrigin, Frames, HTTP_1_1_REQUIRED,
            INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, SETTINGS, WINDOW_UPDATE,
        },
        text,
        tls::Authority,
    },
    timeouts::ChannelBody,
};

const BOTH: [&str; 2] = ["h2", "http/1.1"];

pub(crate) fn trusting(authority: &Authority, address: SocketAddr) -> OriginClient {
    OriginClient::new(OriginConfig {
        extra_ca: vec![authority.pem()],
        ..config_of(address)
    })
    .unwrap()
}

pub(crate) async fn send(
    client: &OriginClient,
    method: Method,
    body: impl Into<Bytes>,
) -> Result<String, FetchError> {
    let request = Request::builder().method(method).uri("https://site.test/");
    let response = client
        .fetch(request.body(Full::new(body.into())).unwrap(), LOCAL)
        .await?;
    Ok(text(response).await.unwrap())
}

/// What an origin does with a request that it does not process.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Reset(u32),
    GoAway { code: u32, includes_stream: bool },
}

impl Refusal {
    async fn act(self, frames: &mut Frames, stream: u32) {
        match self {
            Self::Reset(code) => frames.reset(stream, code).await,
            Self::GoAway {
                code,
                includes_stream,
            } => {
                let last = if includes_stream { stream } else { 0 };
                frames.go_away(last, code).await;
            }
        }
    }
}

const fn go_away(code: u32) -> Refusal {
    Refusal::GoAway {
        code,
        includes_stream: false,
    }
}

#[tokio::test]
async fn a_host_that_requires_http11_gets_it_at_once_and_from_then_on() {
    for refusal in [Refusal::Reset(HTTP_1_1_REQUIRED), go_away(HTTP_1_1_REQUIRED)] {
        for method in [Method::GET, Method::POST, Method::PATCH] {
            let body = if method == Method::GET { "" } else { "pay" };
            let site = FrameOrigin::start(&BOTH, move |_, mut frames| async move {
                frames.settings().await;
                while let Some(stream) = frames.request().await {
                    refusal.act(&mut frames, stream).await;
                }
            })
            .await;
            let client = trusting(&site.authority, site.origin.address);
            let answer = send(&client, method.clone(), body).await;
            assert_eq!(answer.as_deref(), Ok("over HTTP/1.1"), "{refusal:?} {method}");
            assert_eq!(site.seen(), ["HTTP/2", body, "HTTP/1.1", body]);
            assert_eq!(
                send(&client, Method::POST, "more").await.unwrap(),
                "over HTTP/1.1"
            );
            assert!(
                !site.seen().contains(&"HTTP/2".to_owned()),
                "the host stays on HTTP/1.1"
            );
            // Clients with connections of their own know it as well.
            let isolated = client.isolated();
            assert_eq!(
                send(&isolated, Method::POST, "login").await.unwrap(),
                "over HTTP/1.1"
            );
            assert_eq!(site.seen(), ["HTTP/1.1", "login"]);
        }
    }
}

#[tokio::test]
async fn an_accepted_request_without_response_is_sent_over_http11_only_if_it_is_idempotent() {
    let refusal = Refusal::GoAway {
        code: HTTP_1_1_REQUIRED,
        includes_stream: true,
    };
    for (method, is_repeated) in [(Method::GET, true), (Method::POST, false)] {
        let site = FrameOrigin::start(&BOTH, move |_, mut frames| async move {
            frames.settings().await;
            let stream = frames.request().await.unwrap();
            refusal.act(&mut frames, stream).await;
            frames.close().await;
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        let answer = send(&client, method, "").await;
        let expected = if is_repeated {
            Ok("over HTTP/1.1")
        } else {
            Err(&FetchError::Reset)
        };
        assert_eq!(answer.as_deref(), expected);
        let then = send(&client, Method::POST, "x").await;
        assert_eq!(
            then.as_deref(),
            expected,
            "remembered after an answer over HTTP/1.1"
        );
    }
}

#[tokio::test]
async fn requests_that_were_not_processed_are_sent_on_another_connection() {
    for refusal in [
        Refusal::Reset(REFUSED_STREAM),
        go_away(NO_ERROR),
        go_away(ENHANCE_YOUR_CALM),
        go_away(INTERNAL_ERROR),
    ] {
        for method in [Method::GET, Method::POST, Method::PUT] {
            let body = if method == Method::GET { "" } else { "pay" };
            let site = FrameOrigin::start(&BOTH, move |index, mut frames| async move {
                if index > 0 {
                    return frames.echo().await;
                }
                frames.settings().await;
                while let Some(stream) = frames.request().await {
                    refusal.act(&mut frames, stream).await;
                }
            })
            .await;
            let client = trusting(&site.authority, site.origin.address);
            let answer = send(&client, method.clone(), body).await;
            assert_eq!(answer.as_deref(), Ok("over HTTP/2"), "{refusal:?} {method}");
            assert_eq!(site.seen().last().unwrap(), body, "{refusal:?} {method}");
        }
    }
}

#[tokio::test]
async fn a_refused_stream_may_fit_on_the_same_connection() {
    let site = FrameOrigin::start(&BOTH, |_, mut frames| async move {
        frames.settings().await;
        let refused = frames.request().await.unwrap();
        frames.reset(refused, REFUSED_STREAM).await;
        let accepted = frames.request().await.unwrap();
        frames.respond(accepted, "later").await;
        frames.request().await;
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    assert_eq!(send(&client, Method::POST, "pay").await.unwrap(), "later");
    assert_eq!(
        (site.origin.connections(), client.stats().snapshot().retries),
        (1, 1)
    );
}

#[tokio::test]
async fn a_burst_above_the_origins_limit_of_streams_is_answered_on_one_connection() {
    const LIMIT: usize = 5;
    let site = FrameOrigin::start(&BOTH, |_, mut frames| async move {
        // The limit arrives after all requests were sent, of which the origin accepts as many as it says.
        let mut streams = Vec::new();
        while streams.len() < 20 {
            streams.push(frames.request().await.unwrap());
        }
        let limit = u32::try_from(LIMIT).unwrap().to_be_bytes();
        frames.send(SETTINGS, 0, 0, &[&[0, 3][..], &limit].concat()).await;
        for refused in streams.split_off(LIMIT) {
            frames.reset(refused, REFUSED_STREAM).await;
        }
        for accepted in streams {
            frames.respond(accepted, "first").await;
        }
        while let Some(stream) = frames.request().await {
            frames.respond(stream, "then").await;
        }
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { send(&client, Method::POST, "").await })
        })
        .collect();
    let mut answers = Vec::new();
    for request in requests {
        answers.push(request.await.unwrap().unwrap());
    }
    assert_eq!(answers.iter().filter(|answer| *answer == "first").count(), LIMIT);
    assert_eq!(site.origin.connections(), 1);
}

#[tokio::test]
async fn an_origin_that_refuses_for_ever_is_asked_four_times() {
    for refusal in [Refusal::Reset(REFUSED_STREAM), go_away(NO_ERROR)] {
        let site = FrameOrigin::start(&BOTH, move |_, mut frames| async move {
            frames.settings().await;
            while let Some(stream) = frames.request().await {
                refusal.act(&mut frames, stream).await;
            }
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        assert_eq!(send(&client, Method::POST, "pay").await, Err(FetchError::Reset));
        let asked = site.seen().into_iter().filter(|seen| seen == "pay").count();
        assert_eq!(asked, 4, "{refusal:?}");
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_processed_is_not_sent_again() {
    for refusal in [
        Refusal::Reset(CANCEL),
        Refusal::Reset(INTERNAL_ERROR),
        Refusal::Reset(NO_ERROR),
        Refusal::Reset(ENHANCE_YOUR_CALM),
        Refusal::GoAway {
            code: NO_ERROR,
            includes_stream: true,
        },
    ] {
        let site = FrameOrigin::start(&BOTH, move |_, mut frames| async move {
            frames.settings().await;
            // A request before: the connection is a used one.
            let first = frames.request().await.unwrap();
            frames.respond(first, "first").await;
            let Some(stream) = frames.request().await else {
                return;
            };
            refusal.act(&mut frames, stream).await;
            if matches!(refusal, Refusal::Reset(_)) {
                frames.request().await;
            }
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        assert_eq!(send(&client, Method::GET, "").await.unwrap(), "first");
        assert_eq!(send(&client, Method::POST, "pay").await, Err(FetchError::Reset));
        assert_eq!(site.seen(), ["HTTP/2", "", "pay"], "{refusal:?}");
    }
}

#[tokio::test]
async fn a_body_is_sent_again_up_to_the_size_of_the_record() {
    for (size, is_repeated) in [(200 * 1024, true), (300 * 1024, false)] {
        let site = FrameOrigin::start(&BOTH, move |index, mut frames| async move {
            let window = 0x10_0000_u32.to_be_bytes();
            frames
                .send(SETTINGS, 0, 0, &[&[0, 4][..], &window].concat())
                .await;
            frames.send(WINDOW_UPDATE, 0, 0, &window).await;
            let stream = frames.request().await.unwrap();
            if index == 0 {
                frames.go_away(0, NO_ERROR).await;
            } else {
                frames.respond(stream, "got it").await;
            }
            frames.request().await;
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        let answer = send(&client, Method::POST, vec![b'x'; size]).await;
        let expected = if is_repeated {
            Ok("got it")
        } else {
            Err(&FetchError::Reset)
        };
        assert_eq!(answer.as_deref(), expected, "{size}");
        let bodies: Vec<usize> = site
            .seen()
            .iter()
            .map(String::len)
            .filter(|length| *length > 10)
            .collect();
        assert_eq!(bodies, vec![size; 1 + usize::from(is_repeated)]);
    }
}

#[tokio::test]
async fn after_a_graceful_goaway_the_next_request_takes_a_new_connection() {
    for last in [1, 0x7fff_ffff] {
        let site = FrameOrigin::start(&BOTH, move |index, mut frames| async move {
            if index > 0 {
                return frames.echo().await;
            }
            frames.settings().await;
            let stream = frames.request().await.unwrap();
            frames.respond(stream, "first").await;
            frames.go_away(last, NO_ERROR).await;
            while frames.next().await.is_some() {}
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        assert_eq!(send(&client, Method::GET, "").await.unwrap(), "first");
        for _ in 0..2 {
            assert_eq!(
                send(&client, Method::POST, "pay").await.unwrap(),
                "over HTTP/2",
                "{last}"
            );
        }
    }
}

#[tokio::test]
async fn misdirected_requests_are_sent_once_more_on_a_new_connection() {
    for (answers, expected) in [
        (["421", "200"], StatusCode::OK),
        (["421", "421"], StatusCode::MISDIRECTED_REQUEST),
    ] {
        let site = FrameOrigin::start(&BOTH, move |index, mut frames| async move {
            frames.settings().await;
            while let Some(stream) = frames.request().await {
                frames
                    .headers(stream, 0, &[(":status", answers[index.min(1)])])
                    .await;
                frames.send(DATA, END_STREAM, stream, b"page").await;
            }
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        let request = Request::post("https://site.test/")
            .body(Full::from("pay"))
            .unwrap();
        let response = client.fetch(request, LOCAL).await.unwrap();
        assert_eq!(response.status(), expected);
        assert_eq!(text(response).await.unwrap(), "page");
        assert_eq!(site.seen(), ["HTTP/2", "pay", "HTTP/2", "pay"]);
    }
}

#[tokio::test]
async fn a_body_that_ends_by_a_reset_is_complete_only_if_nothing_is_missing() {
    let head = |length: Option<&'static str>| {
        let fields = [(":status", "200"), ("content-length", length.unwrap_or_default())];
        fields[..1 + usize::from(length.is_some())].to_vec()
    };
    for (length, code, expected) in [
        (None, NO_ERROR, Ok("part".to_owned())),
        (Some("4"), NO_ERROR, Ok("part".to_owned())),
        (Some("9"), NO_ERROR, Err(BodyError::Truncated)),
        (None, CANCEL, Err(BodyError::Reset)),
        (None, INTERNAL_ERROR, Err(BodyError::Reset)),
    ] {
        let fields = head(length);
        let site = FrameOrigin::start(&BOTH, move |_, mut frames| {
            let fields = fields.clone();
            async move {
                frames.settings().await;
                let stream = frames.request().await.unwrap();
                frames.headers(stream, 0, &fields).await;
                frames.send(DATA, 0, stream, b"part").await;
                frames.reset(stream, code).await;
                frames.request().await;
            }
        })
        .await;
        let client = trusting(&site.authority, site.origin.address);
        let request = Request::get("https://site.test/")
            .body(Full::<Bytes>::default())
            .unwrap();
        let response = client.fetch(request, LOCAL).await.unwrap();
        assert_eq!(text(response).await, expected, "{length:?} {code}");
    }
}

/// Moves the clock, which otherwise runs by itself.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_connection_that_died_while_it_was_idle_is_replaced() {
    let (asked, mut is_asked) = mpsc::unbounded_channel();
    let site = FrameOrigin::start(&BOTH, move |index, mut frames| {
        let asked = asked.clone();
        async move {
            if index > 0 {
                return frames.echo().await;
            }
            frames.settings().await;
            let stream = frames.request().await.unwrap();
            frames.respond(stream, "first").await;
            frames.request().await;
            asked.send(()).unwrap();
            // Not even PINGs are answered.
            while frames.next().await.is_some() {}
        }
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    assert_eq!(send(&client, Method::GET, "").await.unwrap(), "first");
    pass(12).await;
    let second = tokio::spawn(async move { send(&client, Method::GET, "").await });
    is_asked.recv().await.unwrap();
    pass(21).await;
    assert_eq!(second.await.unwrap().unwrap(), "over HTTP/2");
}

#[tokio::test]
async fn an_origin_that_answers_no_pings_gets_its_time() {
    let (asked, mut is_asked) = mpsc::unbounded_channel();
    let (go, went) = tokio::sync::watch::channel(false);
    let site = FrameOrigin::start(&BOTH, move |_, mut frames| {
        let (asked, mut went) = (asked.clone(), went.clone());
        async move {
            frames.settings().await;
            let stream = frames.request().await.unwrap();
            asked.send(()).unwrap();
            went.wait_for(|went| *went).await.unwrap();
            frames.respond(stream, "late").await;
            frames.request().await;
        }
    })
    .await;
    let client = trusting(&site.authority, site.origin.address);
    let request = tokio::spawn(async move { send(&client, Method::POST, "pay").await });
    is_asked.recv().await.unwrap();
    for _ in 0..10 {
        pass(25).await;
        tokio::task::yield_now().await;
    }
    go.send(true).unwrap();
    assert_eq!(request.await.unwrap().unwrap(), "late");
}

#[tokio::test]
async fn a_broken_upload_is_the_requests_fault() {
    let site = FrameOrigin::start(&BOTH, |_, frames| frames.echo()).await;
    let client = trusting(&site.authority, site.origin.address);
    let (sender, body) = mpsc::channel(2);
    let request = Request::put("https://site.test/")
        .body(ChannelBody(body))
        .unwrap();
    let fetch = tokio::spawn(async move { client.fetch(request, LOCAL).await });
    sender.send(Ok("part".into())).await.unwrap();
    let error = std::io::Error::other("the browser went away");
    sender.send(Err(error)).await.unwrap();
    assert_eq!(fetch.await.unwrap().unwrap_err(), FetchError::Upload);
}
