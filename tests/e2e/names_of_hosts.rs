//! Names that DNS can carry, by the gateway's own name lookups, on every way to the gateway.
use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawClient, ask, get, request},
    origin::Origin,
};

use crate::{
    clientless::quotas::{LISTENS, logged_address},
    content::ok,
    pair::{Pair, Setup},
    reloads::NameServer,
};

/// Names that Chromium and curl look up, although IDNA refuses some of them.
const NAMES: [&str; 12] = [
    "my_bucket.store.test",
    "_dmarc.x.test",
    "-a.test",
    "a-.test",
    "a_.test",
    "xn--a.test",
    "xn--.test",
    "xn--zn7c.test",
    "r3---sn-x.test",
    "1.2.3.test",
    "UPPER.My_Bucket.TEST",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.test",
];

#[tokio::test(flavor = "multi_thread")]
async fn names_that_browsers_look_up_are_reached_on_every_way() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            let host = request.headers().get("host").and_then(|host| host.to_str().ok());
            ok("text/plain", host.unwrap_or_default().to_owned())
        },
    )
    .await?;
    let server = NameServer::start(Some(Ipv4Addr::LOCALHOST)).await?;
    let setup = Setup {
        gateway_config: format!(
            "[guard]\nallow = ['127.0.0.0/8']\n[fetch]\ndns = ['{}']\n\
             [clientless]\nlisten = '127.0.0.1:0'\nallow = ['127.0.0.0/8']\nports = '1-24,26-65535'\n",
            server.address
        ),
        ..Setup::resolving(&[])
    };
    let pair = Pair::start(setup).await?;
    let clientless = logged_address(pair.gateway(), LISTENS).await?;
    let port = origin.address().port();
    for name in NAMES.into_iter().chain(["absolute_.test."]) {
        let at = format!("{name}:{port}");
        let plain = at.to_ascii_lowercase();
        let plain = plain.replace(".:", ":");
        for proxy in [pair.proxy(), clientless] {
            let answer = ask(proxy, get(&format!("http://{at}/"), &[])).await?;
            assert_eq!((answer.status, answer.text()), (200, plain.clone()), "{at}");
            let mut client = RawClient::connect(proxy).await?;
            client.send(request("CONNECT", &at, &[])).await?;
            assert_eq!(client.head().await?.status, 200, "{at}");
            client.send("GET / HTTP/1.1\r\nHost: tunnel\r\n\r\n").await?;
            assert_eq!(client.response().await?.text(), "tunnel", "{at}");
        }
        let mut client = RawClient::connect(pair.proxy()).await?;
        client.send([5, 1, 0]).await?;
        ensure!(client.read_exact(2).await? == [5, 0]);
        let head = [5, 1, 0, 3, u8::try_from(name.len())?];
        client
            .send([&head[..], name.as_bytes(), &port.to_be_bytes()].concat())
            .await?;
        assert_eq!(client.read_exact(10).await?[1], 0, "{at}");
    }
    // Ports are digits, for everybody who judges them.
    for port in ["+25", "+80", "25x"] {
        for proxy in [pair.proxy(), clientless] {
            let answer = ask(proxy, get(&format!("http://a.test:{port}/"), &[])).await?;
            assert_eq!(answer.status, 400, "{port}");
        }
    }
    for name in ["xn--a.test", "a.test"] {
        let answer = ask(pair.proxy(), get(&format!("http://{name}:25/"), &[])).await?;
        assert_eq!(answer.status, 403, "{name}: {}", answer.text());
    }
    Ok(())
}
