//! Loads with a browser cache.
use http::{Response, header};
use hyper::body::Bytes;
use longhaul_loader::{
    Outcome,
    model::{BrowserCache, load},
};

use crate::origin::{Origin, status, typed};

fn with(mut response: Response<Bytes>, fields: &[(&'static str, &str)]) -> Response<Bytes> {
    for (name, value) in fields {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}

#[tokio::test]
async fn a_second_load_sends_only_conditional_requests() {
    let origin = Origin::start(|request| {
        if request.headers().contains_key(header::IF_NONE_MATCH)
            || request.headers().contains_key(header::IF_MODIFIED_SINCE)
        {
            return with(status(304), &[("cache-control", "max-age=60")]);
        }
        match request.uri().path() {
            "/" => with(
                typed("text/html", "<link rel=stylesheet href=s.css><img src=plain.png>"),
                &[("etag", "\"1\"")],
            ),
            "/s.css" => with(
                typed("text/css", "a { background: url(bg.png) }"),
                &[("cache-control", "max-age=60")],
            ),
            "/bg.png" => with(
                typed("image/png", "bg"),
                &[("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT")],
            ),
            _ => typed("image/png", "plain"),
        }
    })
    .await;
    let url = origin.url("http://a.test/");
    let options = origin.options();
    let mut cache = BrowserCache::new();
    let first = load(&url, &options, Some(&mut cache)).await.unwrap();
    assert_eq!(cache.len(), 3);
    let second = load(&url, &options, Some(&mut cache)).await.unwrap();
    let mut asked = origin.paths().split_off(4);
    asked.sort_unstable();
    assert_eq!(asked, ["/", "/bg.png", "/plain.png"]);
    for second in &second.objects {
        assert_eq!(second.outcome, Outcome::Delivered, "{second:?}");
    }
    let find = |load: &longhaul_loader::PageLoad, path: &str| {
        load.objects
            .iter()
            .find(|object| object.url.path() == path)
            .unwrap()
            .clone()
    };
    for path in ["/", "/s.css", "/bg.png", "/plain.png"] {
        let (first, second) = (find(&first, path), find(&second, path));
        assert_eq!(
            (first.body_hash, first.body_bytes),
            (second.body_hash, second.body_bytes)
        );
    }
    assert_eq!(find(&second, "/").status, Some(304));
    assert_eq!(find(&second, "/").coded_bytes, Some(0));
    assert_eq!(find(&second, "/s.css").sent, None);
    assert_eq!(find(&second, "/plain.png").status, Some(200));
    // By now everything except one image is fresh by the lifetime in the 304 responses.
    load(&url, &options, Some(&mut cache)).await.unwrap();
    assert_eq!(origin.paths()[7..], ["/plain.png"]);
}
