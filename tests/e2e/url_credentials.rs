//! User names and passwords in the URLs that programs send to their proxy.
use std::process::Stdio;

use anyhow::Result;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{ask, request},
    origin::{AnswerBody, Origin},
};
use tokio::process::Command;

use crate::{
    clientless::quotas::{LISTENS, logged_address},
    content::{ok, whole},
    pair::{Pair, Setup},
};

/// `u:p` and `a@b:c:d` in base64.
const LOGIN: &str = "Basic dTpw";
const ODD_LOGIN: &str = "Basic YUBiOmM6ZA==";

/// A site that answers with the `Authorization` of the request, and asks for one.
async fn site(request: Request<Incoming>) -> Response<AnswerBody> {
    let login = request
        .headers()
        .get("authorization")
        .and_then(|login| login.to_str().ok());
    match login {
        Some(login) => {
            let mut response = ok("text/plain", login.to_owned());
            // Everybody with these credentials may have it.
            response
                .headers_mut()
                .insert("cache-control", http::HeaderValue::from_static("max-age=600"));
            response
        }
        None => Response::builder()
            .status(401)
            .header("www-authenticate", "Basic realm=\"x\"")
            .body(whole("who are you?"))
            .expect("a valid response"),
    }
}

/// A GET with this Host field.
fn get(url: &str, host: &str, fields: &[(&str, &str)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
}

async fn served() -> Result<(Origin, Pair, std::net::SocketAddr)> {
    let origin = Origin::start(None, |_| {}, site).await?;
    let mut setup = Setup::resolving(&[("repo.test:80", origin.address())]);
    setup.gateway_config += "[clientless]\nlisten = '127.0.0.1:0'\nallow = ['127.0.0.0/8']\n";
    let pair = Pair::start(setup).await?;
    let clientless = logged_address(pair.gateway(), LISTENS).await?;
    Ok((origin, pair, clientless))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_in_the_url_is_the_origins_authorization() -> Result<()> {
    let (origin, pair, clientless) = served().await?;
    for proxy in [pair.proxy(), clientless] {
        for (userinfo, expected) in [
            ("u:p@", LOGIN),
            ("u@", "Basic dTo="),
            ("u:@", "Basic dTo="),
            ("a%40b:c%3Ad@", ODD_LOGIN),
            ("a@b:c:d@", ODD_LOGIN),
            ("%C3%BC:p@", "Basic w7w6cA=="),
        ] {
            let url = format!("http://{userinfo}repo.test/x");
            let fields = [("Referer", "http://u:p@repo.test/secret?q")];
            let answer = ask(proxy, get(&url, "repo.test", &fields)).await?;
            assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{url}");
            // The answer to one user is not that to another one, or to nobody.
            let other = ask(proxy, get("http://repo.test/x", "repo.test", &[])).await?;
            assert_eq!(other.status, 401, "{}", other.text());
        }
        // Some programs repeat the user in `Host`.
        let answer = ask(
            proxy,
            get("http://a%40b:c%3Ad@repo.test/x", "a@b:c:d@repo.test", &[]),
        )
        .await?;
        assert_eq!((answer.status, answer.text().as_str()), (200, ODD_LOGIN));
        let own = [("Authorization", "Bearer own")];
        let answer = ask(proxy, get("http://u:p@repo.test/own", "repo.test", &own)).await?;
        assert_eq!(answer.text(), "Bearer own");
        // Where only a host may be.
        let connect = request("CONNECT", "u:p@repo.test:443", &[]);
        assert_eq!(ask(proxy, connect).await?.status, 400);
        let evil = get("http://repo.test/", "repo.test@evil.test", &[]);
        if proxy == clientless {
            assert_eq!(ask(proxy, evil).await?.status, 400);
        }
        let long = format!("http://{}:p@repo.test/", "u".repeat(60_000));
        let answer = ask(proxy, get(&long, "repo.test", &[])).await?;
        assert!(matches!(answer.status, 414 | 431), "{}", answer.status);
    }
    for seen in origin.seen() {
        assert_eq!(seen.host, "repo.test");
        assert!(!seen.path.contains('@'), "{}", seen.path);
        let fields = format!("{:?}", seen.headers);
        assert!(!fields.contains("u:p"), "{fields}");
    }
    let journal = format!("{:?}", pair.status().await?);
    assert!(!journal.contains("u:p@"), "{journal}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn real_programs_log_in_by_their_urls() -> Result<()> {
    let (_origin, pair, clientless) = served().await?;
    let python =
        "import urllib.request, sys; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())";
    let url = "http://a%40b:c%3Ad@repo.test/x";
    for proxy in [pair.proxy(), clientless] {
        for (program, arguments) in [
            ("curl", vec!["--silent", "--fail", url]),
            ("wget", vec!["--quiet", "--tries=1", "--output-document=-", url]),
            ("python3", vec!["-c", python, url]),
        ] {
            let ran = Command::new(program)
                .args(&arguments)
                .env("http_proxy", format!("http://{proxy}"))
                .env_remove("no_proxy")
                .stdin(Stdio::null())
                .output()
                .await;
            match ran {
                Ok(ran) => assert_eq!(
                    String::from_utf8_lossy(&ran.stdout),
                    ODD_LOGIN,
                    "{program}: {ran:?}"
                ),
                Err(error) => println!("SKIPPED: {program} cannot be run: {error:#}"),
            }
        }
    }
    Ok(())
}
