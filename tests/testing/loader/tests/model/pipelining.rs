//! Pipelining, its factor, and connections that are closed with unanswered requests.
use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul_loader::{
    Outcome,
    model::{Counted, ModelOptions, Rules, load_counted},
};
use url::Url;

use crate::origin::{Origin, scripted, status};

fn page(images: usize) -> String {
    (0..images).map(|number| format!("<img src=/{number}>")).collect()
}

async fn options(rules: Rules) -> ModelOptions {
    let mut options = Origin::start(|_| status(404)).await.options();
    options.rules = rules;
    options
}

fn all_delivered(counted: &Counted) {
    for object in &counted.load.objects {
        assert_eq!(object.outcome, Outcome::Delivered, "{object:?}");
    }
}

#[tokio::test]
async fn the_factor_is_the_mean_of_the_pipeline_indices() {
    // The page; then five requests before the first response.
    let address = scripted(|_, mut peer| async move {
        peer.request().await;
        peer.answer(&page(5)).await;
        for _ in 0..5 {
            peer.request().await;
        }
        for _ in 0..5 {
            peer.answer("x").await;
        }
        peer.request().await;
    })
    .await;
    let url: Url = format!("http://{address}/").parse().unwrap();
    let options = options(Rules::Pipelined {
        per_host: 1,
        depth: 8,
    })
    .await;
    let counted = load_counted(&url, &options, None).await.unwrap();
    all_delivered(&counted);
    let expected = f64::from(1 + 1 + 2 + 3 + 4 + 5) / 6.0;
    assert_eq!(counted.load.pipelining_factor, Some(expected));
    assert_eq!((counted.load.connections, counted.resent), (1, 0));
}

#[tokio::test]
async fn the_depth_bounds_outstanding_requests() {
    // The page; two requests; and then a response for each received request, so that two stay outstanding.
    let address = scripted(|_, mut peer| async move {
        peer.request().await;
        peer.answer(&page(6)).await;
        peer.request().await;
        for _ in 0..5 {
            peer.request().await;
            peer.answer("x").await;
        }
        peer.answer("x").await;
        peer.request().await;
    })
    .await;
    let url: Url = format!("http://{address}/").parse().unwrap();
    let options = options(Rules::Pipelined {
        per_host: 1,
        depth: 2,
    })
    .await;
    let counted = load_counted(&url, &options, None).await.unwrap();
    all_delivered(&counted);
    let expected = f64::from(1 + 1 + 2 + 2 + 2 + 2 + 2) / 7.0;
    assert_eq!(counted.load.pipelining_factor, Some(expected));
}

#[tokio::test]
async fn requests_without_response_at_a_fin_are_sent_again() {
    // Every connection answers two requests and is closed, however many it received.
    let address = scripted(|_, mut peer| async move {
        for _ in 0..2 {
            match peer.request().await.as_deref() {
                None => return,
                Some("/") => peer.answer(&page(9)).await,
                Some(path) => peer.answer(path).await,
            }
        }
    })
    .await;
    let url: Url = format!("http://{address}/").parse().unwrap();
    for rules in [Rules::pipelined(), Rules::persistent(2), Rules::persistent(6)] {
        let counted = load_counted(&url, &options(rules).await, None).await.unwrap();
        all_delivered(&counted);
        assert_eq!(counted.load.objects.len(), 10);
        assert!(
            counted.load.connections >= 5,
            "{rules:?}: {}",
            counted.load.connections
        );
        if rules == Rules::pipelined() {
            assert!(counted.resent > 0);
        }
    }
}

#[tokio::test]
async fn no_request_follows_an_announced_close() {
    let address = scripted(|_, mut peer| async move {
        let path = peer.request().await.unwrap();
        let body = if path == "/" { page(3) } else { path };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        peer.send(&(head + &body)).await;
    })
    .await;
    let url: Url = format!("http://{address}/").parse().unwrap();
    let counted = load_counted(&url, &options(Rules::pipelined()).await, None)
        .await
        .unwrap();
    all_delivered(&counted);
    assert_eq!((counted.load.connections, counted.resent), (4, 0));
    assert_eq!(counted.load.pipelining_factor, Some(1.0));
}

#[tokio::test]
async fn a_truncated_body_is_requested_once_more() {
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&asked);
    let address = scripted(move |_, mut peer| {
        let counter = std::sync::Arc::clone(&counter);
        async move {
            while let Some(path) = peer.request().await {
                match path.as_str() {
                    "/" => {
                        peer.answer("<img src=/half><img src=/whole><img src=/healing>")
                            .await
                    }
                    "/half" => {
                        counter.fetch_add(1, Ordering::Relaxed);
                        return peer
                            .send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                            .await;
                    }
                    "/healing" if counter.fetch_add(100, Ordering::Relaxed) < 100 => {
                        return peer
                            .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
                            .await;
                    }
                    _ => peer.answer("x").await,
                }
            }
        }
    })
    .await;
    let url: Url = format!("http://{address}/").parse().unwrap();
    let counted = load_counted(&url, &options(Rules::persistent(2)).await, None)
        .await
        .unwrap();
    let outcomes: Vec<&Outcome> = counted
        .load
        .objects
        .iter()
        .map(|object| &object.outcome)
        .collect();
    let failed = Outcome::Failed("the connection was closed before the response's end".to_owned());
    assert_eq!(
        outcomes,
        [
            &Outcome::Delivered,
            &failed,
            &Outcome::Delivered,
            &Outcome::Delivered
        ]
    );
    assert_eq!(asked.load(Ordering::Relaxed), 202);
    assert_eq!(counted.resent, 2);
    assert_eq!(counted.load.objects[3].body_bytes, 1);
}
