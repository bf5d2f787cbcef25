//! Tests of the proxy port as browsers use it.
use crate::support::{TestAgent, gateway::answers::text, pair};
use longhaul_agent::config::Fallback;
use longhaul_raw_client::{Ending, RawClient};

#[tokio::test]
async fn requests_of_one_connection_are_answered_in_turn() {
    let (gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    for page in ["one", "two", "three"] {
        client
            .send(format!(
                "GET http://site.test/{page} HTTP/1.1\r\nhost: site.test\r\n\r\n"
            ))
            .await
            .unwrap();
        let reply = client.response().await.unwrap();
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (200, format!("this is {page}").as_str())
        );
        assert_eq!(
            reply.field("content-length"),
            Some(reply.body.len().to_string().as_str())
        );
        assert!(reply.field("via").unwrap().contains("longhaul"));
    }
    assert_eq!(gateway.seen("http://site.test/two").len(), 1);
    assert_eq!(agent.status().requests, 3);
    assert_eq!(agent.status().failures, 0);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (_gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    let requests: String = (0..20)
        .map(|n| format!("GET http://site.test/p{n} HTTP/1.1\r\nhost: site.test\r\n\r\n"))
        .collect();
    client.send(requests).await.unwrap();
    for n in 0..20 {
        assert_eq!(client.response().await.unwrap().text(), format!("this is p{n}"));
    }
}

#[tokio::test]
async fn targets_with_characters_that_no_url_contains_are_answered() {
    let (gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    let body = "GET http://site.test/<body> HTTP/1.1\r\n\r\n";
    let length = body.len();
    client
        .send(format!(
            "GET http://site.test/a<b>?q=\"x\" HTTP/1.1\r\nhost: a\r\nuser-agent: odd/1\r\n\r\n\
             POST http://site.test/echo HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}\
             GET http://site.test/c?<d> HTTP/1.1\r\nhost: a\r\n\r\n"
        ))
        .await
        .unwrap();
    for expected in ["this is a%3Cb%3E?q=%22x%22", body, "this is c?%3Cd%3E"] {
        assert_eq!(client.response().await.unwrap().text(), expected);
    }
    assert_eq!(gateway.seen("http://site.test/a%3Cb%3E?q=%22x%22").len(), 1);
}

#[tokio::test]
async fn hop_by_hop_fields_stay_and_repeated_fields_cost_little() {
    let (gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    let fields = "host: site.test\r\nconnection: keep-alive, x-private\r\nx-private: 1\r\nproxy-authorization: Basic eA==\r\n\
                  user-agent: Reader/7.1 (a browser with a name of its own; made for one library; English)\r\ncookie: a=1; b=2\r\n\r\n";
    for page in ["first", "second"] {
        client
            .send(format!("GET http://site.test/{page} HTTP/1.1\r\n{fields}"))
            .await
            .unwrap();
        assert_eq!(client.response().await.unwrap().status, 200);
    }
    let first = &gateway.seen("http://site.test/first")[0];
    let second = &gateway.seen("http://site.test/second")[0];
    let names: Vec<&str> = first.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["user-agent", "cookie", "via"]);
    assert_eq!(first.fields, second.fields);
    assert!(
        second.size < 60 && first.size > 100,
        "{} then {} bytes",
        first.size,
        second.size
    );
}

#[tokio::test]
async fn large_bodies_are_whole_and_head_and_204_have_none() {
    let (_gateway, agent) = pair().await;
    let reply = agent.get("http://site.test/large").await;
    assert_eq!(reply.ending, Ending::Whole);
    assert!(reply.body == text(2_000_000));
    assert_eq!(agent.status().body_bytes_decoded, 2_000_000);
    let mut client = agent.connect().await;
    client
        .send("HEAD http://site.test/x HTTP/1.1\r\nhost: site.test\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(client.head().await.unwrap().status, 200);
    client
        .send("GET http://site.test/empty HTTP/1.1\r\nhost: site.test\r\n\r\n")
        .await
        .unwrap();
    let reply = client.response().await.unwrap();
    assert_eq!((reply.status, reply.field("x-empty")), (204, Some("1")));
    client
        .send("GET http://site.test/after HTTP/1.1\r\nhost: site.test\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(client.response().await.unwrap().text(), "this is after");
}

#[tokio::test]
async fn uploads_arrive_whole_in_all_framings() {
    let (gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    let body = String::from_utf8(text(200_000)).unwrap();
    client
        .send(format!(
            "POST http://site.test/echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await
        .unwrap();
    assert_eq!(client.response().await.unwrap().text(), body);
    client.send("POST http://site.test/echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await.unwrap();
    client.send("6\r\n world\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(client.response().await.unwrap().text(), "hello world");
    client.send("PUT http://site.test/echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n").await.unwrap();
    assert_eq!(client.head().await.unwrap().status, 100);
    client.send("data").await.unwrap();
    assert_eq!(client.response().await.unwrap().text(), "data");
    client
        .send("POST http://site.test/none HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(client.response().await.unwrap().text(), "this is none");
    let seen = gateway.seen("http://site.test/echo");
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| !seen.early));
}

#[tokio::test]
async fn malformed_requests_get_an_explanation() {
    let (_gateway, agent) = pair().await;
    for (request, status, words) in [
        (
            format!(
                "GET http://a.test/ HTTP/1.1\r\nhost: a\r\ncookie: {}\r\n\r\n",
                "x".repeat(1_000_000)
            ),
            431,
            "64 KiB",
        ),
        (
            format!(
                "GET http://a.test/ HTTP/1.1\r\nhost: a\r\ncookie: {}\r\n\r\n",
                "x".repeat(70_000)
            ),
            431,
            "64 KiB",
        ),
        ("this is not http\r\n\r\n".to_owned(), 400, "not HTTP"),
        (
            "GET ftp://a.test/ HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            400,
            "neither http nor https",
        ),
        (
            "CONNECT user:pw@a.test:443 HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            400,
            "user name",
        ),
        (
            "GET http://a.test/ HTTP/1.1\r\nhost: a\r\nvia: 1.1 longhaul\r\n\r\n".to_owned(),
            508,
            "looped",
        ),
    ] {
        let mut client = agent.connect().await;
        client.send(request).await.unwrap();
        let reply = client.response().await.unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(reply.text().contains(words), "{}", reply.text());
        assert_eq!(reply.field("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn failures_of_the_gateway_become_error_pages() {
    let (_gateway, agent) = pair().await;
    let refused = agent.get("http://site.test/refused").await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.text().contains("&lt;b&gt;as told by the test"),
        "{}",
        refused.text()
    );
    assert_eq!(agent.get("http://site.test/no-name").await.status, 502);
    assert_eq!(agent.status().failures, 2);
}

#[tokio::test]
async fn the_proxy_port_serves_the_pac_script() {
    let agent = TestAgent::start("127.0.0.1:9", Fallback::Never).await;
    let proxy = agent.agent.proxy();
    for target in ["/proxy.pac".to_owned(), format!("http://{proxy}/proxy.pac")] {
        let mut client = RawClient::connect(proxy).await.unwrap();
        client
            .send(format!("GET {target} HTTP/1.1\r\nhost: {proxy}\r\n\r\n"))
            .await
            .unwrap();
        let reply = client.response().await.unwrap();
        assert_eq!(
            reply.field("content-type"),
            Some("application/x-ns-proxy-autoconfig")
        );
        assert!(
            reply.text().contains(&format!("PROXY {proxy}; DIRECT")),
            "{}",
            reply.text()
        );
        client
            .send(format!("GET / HTTP/1.1\r\nhost: {proxy}\r\n\r\n"))
            .await
            .unwrap();
        assert!(client.response().await.unwrap().text().contains("proxy.pac"));
    }
}
