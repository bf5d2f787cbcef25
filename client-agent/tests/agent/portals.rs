//! Captive portals: a web server that answers in the place of other hosts, until the user has clicked.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use longhaul_agent::{
    config::Fallback,
    gateway::{GatewayState, PortalCheck, PortalSettings},
};
use longhaul_http::captive_portal;
use longhaul_proxy::{Exceptions, HttpProxy};
use longhaul_udp_relay::{Passage, UdpRelay};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use url::Url;

use crate::support::{TestAgent, TestGateway, gateway_secret, origin::origin};

/// What the server does with a request before the click.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// A redirect to its own page by another name, with a cookie.
    Redirect,
    /// A redirect to a host that is somebody else's.
    Forged,
    /// A page.
    Page,
    /// 511 with a body without an end.
    EndlessBody,
    /// A head without an end.
    EndlessHead,
    /// No HTTP.
    Garbage,
    /// Nothing, ever.
    Silence,
}

/// A portal on this computer.
struct Portal {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    is_open: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

impl Drop for Portal {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Portal {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let is_open = Arc::new(AtomicBool::new(false));
        let (seen, open) = (Arc::clone(&requests), Arc::clone(&is_open));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let open = open.load(SeqCst);
                tokio::spawn(serve(stream, manner, Arc::clone(&seen), address.port(), open));
            }
        });
        Self {
            address,
            requests,
            is_open,
            serving,
        }
    }

    /// From now on the gateway itself is reached.
    fn click(&self) {
        self.is_open.store(true, SeqCst);
    }

    /// The address to which it redirects.
    fn login(&self) -> String {
        login(self.address.port())
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    fn settings(&self) -> PortalSettings {
        PortalSettings {
            port: self.address.port(),
            check: PortalCheck::Off,
        }
    }
}

fn login(port: u16) -> String {
    format!("http://localhost:{port}/login?from=x")
}

async fn serve(
    mut stream: TcpStream,
    manner: Manner,
    seen: Arc<Mutex<Vec<String>>>,
    port: u16,
    is_open: bool,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    seen.lock().push(request);
    let with_length = |status: &str, fields: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    if is_open {
        let answer = match captive_portal::answer_to(&gateway_secret().public(), &path) {
            Some(proof) => with_length("200 OK", "", &proof),
            None => with_length("404 Not Found", "", ""),
        };
        // The agent may have stopped to wait.
        drop(stream.write_all(answer.as_bytes()).await);
        return;
    }
    let answer = match manner {
        Manner::Redirect => with_length(
            "302 Found",
            &format!("Location: {}\r\nSet-Cookie: portal=1\r\n", login(port)),
            "<html>Log in",
        ),
        Manner::Forged => with_length("302 Found", "Location: http://victim.test/\r\n", ""),
        Manner::Page => with_length("200 OK", "Content-Type: text/html\r\n", "<html>Log in"),
        Manner::EndlessBody => "HTTP/1.1 511 Network Authentication Required\r\n\r\n".to_owned(),
        Manner::EndlessHead => "HTTP/1.1 302 Found\r\n".to_owned(),
        Manner::Garbage => "SSH-2.0-portal\r\n\r\n".to_owned(),
        Manner::Silence => String::new(),
    };
    let mut is_gone = stream.write_all(answer.as_bytes()).await.is_err();
    let endless: &[u8] = match manner {
        Manner::EndlessBody => b"<p>login ",
        Manner::EndlessHead => b"X-Login: first\r\n",
        Manner::Silence => b"",
        Manner::Redirect | Manner::Forged | Manner::Page | Manner::Garbage => return,
    };
    while !endless.is_empty() && !is_gone {
        is_gone = stream.write_all(&endless.repeat(1024)).await.is_err();
    }
    // The client ends the connection.
    drop(stream.read_buf(&mut Vec::new()).await);
}

/// A gateway behind a hop that is cut, and an agent that looks for a portal.
async fn cut(settings: PortalSettings, fallback: Fallback) -> (TestGateway, UdpRelay, TestAgent) {
    let gateway = TestGateway::start();
    let hop = UdpRelay::start(gateway.address()).await.unwrap();
    hop.set(Passage::Blocked);
    let dir = tempfile::tempdir().unwrap();
    let agent = TestAgent::in_dir(dir, &hop.address().to_string(), |config| {
        config.portal = settings;
        config.fallback = fallback;
    })
    .await;
    (gateway, hop, agent)
}

/// The fallback after more time than a test takes.
const LATE: Fallback = Fallback::After(std::time::Duration::from_secs(3600));

#[tokio::test]
async fn plain_http_goes_direct_until_the_click_and_then_the_session_opens() {
    let portal = Portal::start(Manner::Redirect).await;
    let (_gateway, hop, agent) = cut(portal.settings(), LATE).await;
    let site = origin().await;
    // Asked before the agent knows why the gateway is silent.
    let waiting = agent.begin(&format!("http://{site}/page"), &[]);
    let status = agent.until("a portal", |status| status.state == "portal").await;
    let trouble = status.trouble.unwrap();
    assert_eq!(
        (trouble.kind.as_str(), trouble.login_page.as_deref()),
        ("captive_portal", Some(portal.login().as_str()))
    );
    assert!(status.reason.unwrap().contains(&portal.login()));
    assert_eq!(waiting.await.unwrap().text(), "GET /page HTTP/1.1");
    let mut client = agent.connect().await;
    let form = format!(
        "POST http://{site}/login HTTP/1.1\r\nhost: a\r\naccept-language: en\r\ncontent-length: 3\r\n\r\nabc"
    );
    client.send(form).await.unwrap();
    assert_eq!(client.response().await.unwrap().text(), "POST /login HTTP/1.1");
    assert_eq!(agent.status().direct_requests, 2);

    hop.set(Passage::Open);
    portal.click();
    agent.reach(GatewayState::Open).await;
    let status = agent.until("no portal", |status| status.state == "open").await;
    assert_eq!(status.trouble, None);
    assert_eq!(agent.get("http://site.test/page").await.text(), "this is page");
    assert_eq!(agent.status().direct_requests, 2);
    // Each question has its own number, and nothing but the question is in it.
    let requests = portal.requests();
    let gateway = captive_portal::path(&gateway_secret().public());
    for request in &requests {
        assert!(request.starts_with(&format!("GET {gateway}/")), "{request}");
        for field in ["cookie", "user-agent", "referer", "authorization"] {
            assert!(
                !request.to_lowercase().contains(&format!("\r\n{field}:")),
                "{request}"
            );
        }
    }
    let mut paths: Vec<&str> = requests
        .iter()
        .filter_map(|request| request.lines().next())
        .collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), requests.len());
}

#[tokio::test]
async fn without_the_fallback_only_the_login_page_is_reached_directly() {
    let portal = Portal::start(Manner::Redirect).await;
    let (_gateway, _hop, agent) = cut(portal.settings(), Fallback::Never).await;
    let site = origin().await;
    agent.until("a portal", |status| status.state == "portal").await;
    let waiting = agent.begin(&format!("http://{site}/page"), &[]);
    let login = agent.get(&portal.login()).await;
    assert_eq!((login.status, login.text().as_str()), (302, "<html>Log in"));
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn without_the_fallback_a_network_does_not_choose_what_goes_direct() {
    let portal = Portal::start(Manner::Forged).await;
    let (_gateway, _hop, agent) = cut(portal.settings(), Fallback::Never).await;
    let status = agent.until("a portal", |status| status.state == "portal").await;
    assert!(status.login_page_waits);
    let secret = agent.begin("http://victim.test/account", &[("cookie", "session=1")]);
    let elsewhere = agent.begin("http://other.test/", &[]);
    agent.until("requests", |status| status.requests == 2).await;
    assert_eq!(agent.status().direct_requests, 0);
    let gateway = &agent.agent.control().handles.upstream.gateway;
    assert_eq!(gateway.permit_login_page().as_deref(), Some("victim.test"));
    let status = agent.status();
    assert!(
        !status.login_page_waits && status.direct_requests == 0,
        "{status:?}"
    );
    assert!(!secret.is_finished() && !elsewhere.is_finished());
    secret.abort();
    elsewhere.abort();
}

#[tokio::test]
async fn a_second_opinion_decides_where_the_gateway_says_nothing() {
    for (manner, expected) in [(Manner::Page, "portal"), (Manner::Silence, "down")] {
        let portal = Portal::start(manner).await;
        let check = Url::parse(&format!("http://{}/generate_204", portal.address)).unwrap();
        let settings = PortalSettings {
            port: 9,
            check: PortalCheck::Url(check),
        };
        let (_gateway, _hop, agent) = cut(settings, LATE).await;
        if expected == "portal" {
            agent.until("a portal", |status| status.state == "portal").await;
        } else {
            agent.until("a question", |_| !portal.requests().is_empty()).await;
            assert_ne!(agent.status().state, "portal");
        }
        for request in portal.requests() {
            assert!(request.starts_with("GET /generate_204 HTTP/1.1\r\n"), "{request}");
        }
    }
}

#[tokio::test]
async fn what_is_no_http_or_has_no_end_does_no_harm() {
    // Only the status 511 says something.
    let endless = Portal::start(Manner::EndlessBody).await;
    let (_gateway, _hop, agent) = cut(endless.settings(), LATE).await;
    agent.until("a portal", |status| status.state == "portal").await;
    for manner in [Manner::EndlessHead, Manner::Garbage] {
        let portal = Portal::start(manner).await;
        let (_gateway, hop, agent) = cut(portal.settings(), LATE).await;
        agent.until("a question", |_| !portal.requests().is_empty()).await;
        assert_ne!(agent.status().state, "portal", "{manner:?}");
        hop.set(Passage::Open);
        agent.reach(GatewayState::Open).await;
    }
}

#[tokio::test]
async fn a_silent_gateway_whose_network_passes_http_has_no_portal() {
    let portal = Portal::start(Manner::Page).await;
    portal.click();
    let (_gateway, _hop, agent) = cut(portal.settings(), LATE).await;
    agent.until("a question", |_| !portal.requests().is_empty()).await;
    let status = agent.status();
    assert!(
        status.state != "portal" && !status.direct_in_use,
        "{}",
        status.state
    );
    assert_eq!(status.trouble.unwrap().kind, "silent");
}

/// Through an HTTP proxy, so that the test needs no name servers and no foreign host.
#[tokio::test]
async fn what_detects_a_portal_goes_direct_although_the_session_is_open() {
    let gateway = TestGateway::start();
    let outside = origin().await;
    let dir = tempfile::tempdir().unwrap();
    let agent = TestAgent::in_dir(dir, &gateway.address(), |config| {
        let url = format!("http://{outside}").parse().unwrap();
        config.carrier.proxy = Some(HttpProxy::new(url, Exceptions::default()));
    })
    .await;
    agent.reach(GatewayState::Open).await;
    for (url, is_direct) in [
        ("http://detectportal.firefox.com/success.txt?ipv4", true),
        ("http://www.gstatic.com/generate_204", true),
        ("http://site.test/page", false),
    ] {
        let before = agent.status().direct_requests;
        let answer = agent.get(url).await;
        assert_eq!(agent.status().direct_requests > before, is_direct, "{url}");
        assert_eq!(
            answer.text() == format!("GET {url} HTTP/1.1"),
            is_direct,
            "{}",
            answer.text()
        );
        assert_eq!(gateway.seen(url).is_empty(), is_direct, "{url}");
    }
}

/// A web server with persistent connections that answers with the number of the connection.
async fn numbered() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        for number in 1.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while stream.read_buf(&mut request).await.unwrap_or(0) > 0 {
                    if request.ends_with(b"\r\n\r\n") {
                        request.clear();
                        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                        drop(stream.write_all(answer.as_bytes()).await);
                    }
                }
            });
        }
    });
    (address, serving)
}

#[tokio::test]
async fn at_a_portal_no_other_client_uses_a_connection_with_a_login() {
    let portal = Portal::start(Manner::Redirect).await;
    let (_gateway, _hop, agent) = cut(portal.settings(), LATE).await;
    let (site, serving) = numbered().await;
    agent.until("a portal", |status| status.state == "portal").await;
    let mut clients = [agent.connect().await, agent.connect().await];
    let logins = ["authorization: NTLM x\r\n", ""];
    let mut connections = Vec::new();
    for (client, login) in clients.iter_mut().zip(logins) {
        let request = format!("GET http://{site}/ HTTP/1.1\r\nhost: a\r\naccept-language: en\r\n{login}\r\n");
        client.send(request).await.unwrap();
        connections.push(client.response().await.unwrap().text());
    }
    assert_eq!(connections, ["1", "2"]);
    serving.abort();
}
