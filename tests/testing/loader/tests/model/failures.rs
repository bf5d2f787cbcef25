//! Pages and objects that cannot be loaded.
use std::time::Duration;

use longhaul_loader::{
    Outcome,
    model::{ModelError, Route, Rules, load},
};
use longhaul_types::ByteCount;
use tokio::net::TcpListener;
use url::Url;

use crate::origin::{Origin, redirect, scripted, status, typed};

#[tokio::test]
async fn a_page_without_a_response_is_an_error_with_the_reason() {
    let origin = Origin::start(|_| status(404)).await;
    let options = origin.options();
    let error = load(&origin.url("http://gone.a.test/"), &options, None)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ModelError::NameNotFound(text) if text.contains("gone.a.test")),
        "{error}"
    );

    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let refused: Url = format!("http://{closed}/").parse().unwrap();
    let error = load(&refused, &options, None).await.unwrap_err();
    assert!(matches!(error, ModelError::Connect(_)), "{error}");

    let mute = scripted(|_, mut peer| async move {
        peer.request().await;
    })
    .await;
    let error = load(&format!("http://{mute}/").parse().unwrap(), &options, None)
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::Http(_)), "{error}");

    let nonsense = scripted(|_, mut peer| async move {
        peer.request().await;
        peer.send("SSH-2.0-x\r\n\r\n").await;
    })
    .await;
    let error = load(&format!("http://{nonsense}/").parse().unwrap(), &options, None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not HTTP/1"), "{error}");

    let other: Url = "ftp://a.test/".parse().unwrap();
    assert_eq!(load(&other, &options, None).await.unwrap_err(), ModelError::Url);
}

#[tokio::test]
async fn a_page_that_answers_with_an_error_is_loaded() {
    let origin = Origin::start(|_| status(404)).await;
    let load = load(&origin.url("http://a.test/"), &origin.options(), None)
        .await
        .unwrap();
    assert_eq!(load.objects[0].outcome, Outcome::Missing);
}

#[tokio::test]
async fn redirects_are_limited() {
    let origin = Origin::start(|request| {
        let number: u32 = request.uri().path()[1..].parse().unwrap();
        if number == 1000 {
            return typed("text/html", "<img src=/0>");
        }
        redirect(&format!("/{}", number + 1))
    })
    .await;
    let error = load(&origin.url("http://a.test/0"), &origin.options(), None)
        .await
        .unwrap_err();
    assert_eq!(error, ModelError::Redirects(10));
    assert_eq!(origin.paths().len(), 11);
    let page = load(&origin.url("http://a.test/990"), &origin.options(), None)
        .await
        .unwrap();
    let failed = page
        .objects
        .iter()
        .filter(|object| matches!(object.outcome, Outcome::Failed(_)));
    assert_eq!(failed.count(), 1);
}

#[tokio::test]
async fn time_size_and_object_limits_are_enforced() {
    let silent = scripted(|_, mut peer| async move {
        while let Some(path) = peer.request().await {
            match path.as_str() {
                "/" => {
                    peer.answer("<img src=/large><img src=/never><img src=/beyond>")
                        .await
                }
                "/large" => peer.answer(&"x".repeat(2000)).await,
                _ => {}
            }
        }
    })
    .await;
    let url: Url = format!("http://{silent}/").parse().unwrap();
    let mut options = Origin::start(|_| status(404)).await.options();
    options.limits.body = ByteCount::new(1999);
    options.limits.objects = 3;
    options.limits.time = Duration::from_millis(1500);
    let page = load(&url, &options, None).await.unwrap();
    let outcomes: Vec<String> = page
        .objects
        .iter()
        .map(|object| format!("{:?}", object.outcome))
        .collect();
    assert_eq!(outcomes.len(), 3);
    assert_eq!(
        outcomes[1],
        "Failed(\"the body is over the limit of 1999 bytes\")"
    );
    assert!(
        outcomes[2].starts_with("Failed(\"not loaded within the limit"),
        "{outcomes:?}"
    );
    assert!(page.time >= options.limits.time);
    options.limits.time = Duration::from_secs(60);
    options.limits.idle = Duration::from_millis(500);
    let page = load(&url, &options, None).await.unwrap();
    let Outcome::Failed(reason) = &page.objects[2].outcome else {
        panic!("never answered")
    };
    assert!(reason.starts_with("no data for"), "{reason}");
}

#[tokio::test]
async fn invalid_codings_fail_and_unsolicited_responses_are_ignored() {
    let odd = scripted(|_, mut peer| async move {
        peer.request().await;
        peer.answer("<img src=/a><img src=/b>").await;
        peer.send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            .await;
        while let Some(path) = peer.request().await {
            let coding = if path == "/a" {
                "Content-Encoding: gzip\r\n"
            } else {
                ""
            };
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\n{coding}Content-Length: 4\r\n\r\nabcd"
            ))
            .await;
        }
    });
    let url: Url = format!("http://{}/", odd.await).parse().unwrap();
    let origin = Origin::start(|_| status(404)).await;
    let mut options = origin.options();
    options.rules = Rules::persistent(1);
    // The additional response may be taken for that of the next request: HTTP cannot distinguish them if it
    // is late. It must only cause no other error.
    let page = load(&url, &options, None).await.unwrap();
    assert_eq!(page.objects.len(), 3);
    options.route = Route::Direct {
        resolver: origin.names.address,
    };
    let damaged = scripted(|_, mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd")
            .await;
        peer.request().await;
    });
    let url: Url = format!("http://{}/", damaged.await).parse().unwrap();
    let page = load(&url, &options, None).await.unwrap();
    assert!(
        matches!(&page.objects[0].outcome, Outcome::Failed(reason) if reason.contains("not valid gzip")),
        "{page:?}"
    );
}
