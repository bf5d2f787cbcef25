//! Hosts of this computer and of its network: programs of the user reach them through the agent's port as without it, and
//! pages do not.
use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions, ChromiumError};
use longhaul_tests::{
    client::{RawClient, ask, get, request},
    origin::Origin,
    process::Running,
};
use tokio::process::Command;

use crate::{
    content::ok,
    doctor::is_root,
    pair::{LIMIT, Pair, Setup, agent_arguments, control, folder, status_until},
};

const CHROMIUM: (&str, &str) = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36");
const UPGRADE: (&str, &str) = ("Upgrade-Insecure-Requests", "1");

/// A device of the local network, which shows that it was reached.
async fn device() -> Result<Origin> {
    Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/html", "<title>a device</title>ok") },
    )
    .await
}

/// All settings of the fallback: that only the gateway may load what is public says nothing of local hosts.
async fn pairs() -> Result<Vec<Pair>> {
    let never = vec!["--fallback-after".to_owned(), "never".to_owned()];
    Ok(vec![
        Pair::start(Setup::default()).await?,
        Pair::start(Setup {
            agent_arguments: never,
            ..Setup::default()
        })
        .await?,
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_reach_local_hosts_and_not_the_agent() -> Result<()> {
    let device = device().await?;
    let port = device.address().port();
    for pair in pairs().await? {
        for host in [
            "127.0.0.1",
            "localhost",
            "127.1",
            "2130706433",
            "any.localhost",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
        ] {
            let target = format!("{host}:{port}");
            for method in ["GET", "POST"] {
                let url = format!("http://{target}/");
                let fields = [("User-Agent", "curl/7.88.1"), ("Content-Length", "0")];
                let answer = ask(pair.proxy(), request(method, &url, &fields)).await?;
                assert_eq!(answer.status, 200, "{target}: {}", answer.text());
                assert!(answer.text().contains("a device"));
            }
            let mut client = RawClient::connect(pair.proxy()).await?;
            client.send(request("CONNECT", &target, &[])).await?;
            assert_eq!(client.head().await?.status, 200, "{target}");
            client.send("GET / HTTP/1.1\r\nHost: device\r\n\r\n").await?;
            assert_eq!(client.response().await?.status, 200, "{target}");
        }
        // Nothing of it is refused by the gateway, or told to it.
        let before = device.seen().len();
        for own in [pair.proxy(), pair.control()?] {
            for host in [
                "127.0.0.1",
                "localhost",
                "127.9.9.9",
                "0.0.0.0",
                "[::1]",
                "[::ffff:127.0.0.1]",
            ] {
                let target = format!("{host}:{}", own.port());
                let url = format!("http://{target}/status.json");
                let answer = ask(pair.proxy(), get(&url, &[])).await?;
                assert!(
                    matches!(answer.status, 403 | 404),
                    "{url}: {} {}",
                    answer.status,
                    answer.text()
                );
                let answer = ask(pair.proxy(), request("CONNECT", &target, &[])).await?;
                assert_eq!(answer.status, 403, "{target}: {}", answer.text());
            }
        }
        assert_eq!(device.seen().len(), before);
        // A name of the local network that nobody has, and one that nobody has anywhere.
        for url in [
            "http://nobody-has-this.local/",
            "http://nobody-has-this/",
            "http://nobody.invalid/",
        ] {
            let answer = ask(pair.proxy(), get(url, &[])).await?;
            assert_eq!(answer.status, 502, "{url}: {}", answer.text());
        }
        // A port that nobody listens on: the reason is told.
        let answer = ask(pair.proxy(), get("http://127.0.0.1:9/", &[])).await?;
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(
            answer.text().contains("host of the local network"),
            "{}",
            answer.text()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn real_programs_reach_local_hosts() -> Result<()> {
    let device = device().await?;
    let pair = Pair::start(Setup::default()).await?;
    let proxy = format!("http://{}", pair.proxy());
    let url = format!("http://{}/", device.address());
    for (program, arguments) in [
        (
            "curl",
            vec!["--silent", "--fail", "--max-time", "20", "--noproxy", "", &url],
        ),
        (
            "curl",
            vec![
                "--silent",
                "--fail",
                "--max-time",
                "20",
                "--noproxy",
                "",
                "--proxytunnel",
                &url,
            ],
        ),
        ("wget", vec!["--quiet", "--tries=1", "--output-document=-", &url]),
    ] {
        let ran = Command::new(program)
            .args(&arguments)
            .env("http_proxy", &proxy)
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .output()
            .await;
        match ran {
            Ok(ran) => {
                assert!(ran.status.success(), "{program}: {ran:?}");
                assert!(
                    String::from_utf8_lossy(&ran.stdout).contains("a device"),
                    "{program}: {ran:?}"
                );
            }
            Err(error) => println!("SKIPPED: {program} cannot be run: {error:#}"),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_do_not_reach_local_hosts() -> Result<()> {
    let device = device().await?;
    let target = format!("127.0.0.1:{}", device.address().port());
    let url = format!("http://{target}/");
    for pair in pairs().await? {
        let before = device.seen().len();
        for fields in [
            vec![CHROMIUM],
            vec![("Accept-Language", "en")],
            vec![CHROMIUM, UPGRADE, ("Referer", "http://evil.test/")],
            vec![CHROMIUM, UPGRADE, ("Origin", "null")],
            vec![CHROMIUM, UPGRADE, ("Sec-Purpose", "prefetch;prerender")],
            vec![CHROMIUM, UPGRADE, ("Sec-Fetch-Site", "cross-site")],
            vec![("User-Agent", "curl/7.88.1"), ("Origin", "http://evil.test")],
            // A page of a name that leads to a local address from one moment to the next.
            vec![CHROMIUM, ("Referer", "http://rebound.test/")],
        ] {
            let answer = ask(pair.proxy(), get(&url, &fields)).await?;
            assert_eq!(answer.status, 403, "{fields:?}: {}", answer.text());
        }
        let connect = request("CONNECT", &target, &[CHROMIUM]);
        assert_eq!(ask(pair.proxy(), connect).await?.status, 403);
        // A navigation gets a page that no frame displays.
        let answer = ask(pair.proxy(), get(&url, &[CHROMIUM, UPGRADE])).await?;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("x-frame-options"), Some("DENY"));
        assert!(!answer.text().contains("a device"));
        assert_eq!(device.seen().len(), before);
        // Its own request is that of a local document.
        let answer = ask(pair.proxy(), get(&url, &[CHROMIUM, UPGRADE, ("Referer", &url)])).await?;
        assert!(answer.text().contains("a device"), "{}", answer.text());
    }
    Ok(())
}

/// Names that only this computer's own lookups know. Needs root, for a hosts file of the test.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_only_the_local_network_knows_are_reached() -> Result<()> {
    if !is_root("a hosts file for one program")? {
        return Ok(());
    }
    let device = device().await?;
    let port = device.address().port();
    let pair = Pair::start(Setup::default()).await?;
    let folder = folder()?;
    let hosts = folder.path().join("hosts");
    let names = ["printer.local", "nas", "intranet.corp.test", "fritz.box"];
    std::fs::write(&hosts, format!("127.0.0.1 localhost {}\n", names.join(" ")))?;
    for (fallback, reached) in [("20s", &names[..]), ("never", &names[..2])] {
        let state = folder.path().join(fallback);
        std::fs::create_dir(&state)?;
        let more = ["--fallback-after".to_owned(), fallback.to_owned()];
        let arguments = agent_arguments(&state, pair.second_invite(), &more);
        let agent = Running::start_with_hosts(&hosts, "longhaul-agent", &arguments).await?;
        status_until(control(&state)?, |status| status["state"] == "open").await?;
        for name in names {
            let target = format!("{name}:{port}");
            let url = format!("http://{target}/");
            let expected = if reached.contains(&name) { 200 } else { 502 };
            let answer = ask(agent.address(), get(&url, &[])).await?;
            assert_eq!(answer.status, expected, "{url}: {}", answer.text());
            let posted = request("POST", &url, &[("Content-Length", "3")]) + "abc";
            assert_eq!(ask(agent.address(), posted).await?.status, expected, "{url}");
            let mut client = RawClient::connect(agent.address()).await?;
            client.send(request("CONNECT", &target, &[])).await?;
            assert_eq!(client.head().await?.status, expected, "{target}");
            let seen = device.seen().len();
            // A page under this name, or one of another host.
            for fields in [vec![CHROMIUM], vec![CHROMIUM, ("Referer", "http://evil.test/")]] {
                let answer = ask(agent.address(), get(&url, &fields)).await?;
                assert!(matches!(answer.status, 403 | 502), "{url}: {}", answer.status);
            }
            // Somebody may own a name that is not of a local network, and show a page under it.
            if name.contains('.') && !name.ends_with(".local") {
                for fields in [vec![CHROMIUM, UPGRADE], vec![CHROMIUM, ("Referer", &url)]] {
                    let answer = ask(agent.address(), get(&url, &fields)).await?;
                    assert_eq!(answer.status, 502, "{url}: {}", answer.text());
                }
            }
            let connect = request("CONNECT", &target, &[CHROMIUM]);
            assert_ne!(ask(agent.address(), connect).await?.status, 200);
            assert_eq!(device.seen().len(), seen);
        }
    }
    Ok(())
}

/// Everything by which a page may send a request, without saying who it is.
const ATTACK: &str = "<!doctype html><meta name=referrer content=no-referrer><script>
const at = location.hash.slice(1);
for (const kind of ['img', 'iframe', 'script', 'embed', 'video']) {
  const element = document.createElement(kind); element.src = 'http://' + at + '/' + kind; document.documentElement.append(element);
}
const object = document.createElement('object'); object.data = 'http://' + at + '/object'; document.documentElement.append(object);
const link = document.createElement('link'); link.rel = 'stylesheet'; link.href = 'http://' + at + '/css'; document.documentElement.append(link);
window.attacked = Promise.allSettled([
  fetch('http://' + at + '/fetch', { mode: 'no-cors' }), fetch('http://' + at + '/post', { mode: 'no-cors', method: 'POST', body: 'x' }),
  fetch('http://' + at + '/cors'), fetch('https://' + at + '/https', { mode: 'no-cors' }),
  new Promise(done => { const socket = new WebSocket('ws://' + at + '/socket'); socket.onerror = done; socket.onopen = done }),
  new Promise(done => setTimeout(done, 2000)),
]).then(() => 'over');
</script>";

#[tokio::test(flavor = "multi_thread")]
async fn chromium_reaches_a_local_host_by_its_address_and_pages_do_not() -> Result<()> {
    let device = device().await?;
    let site = Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/html", ATTACK) },
    )
    .await?;
    let pair = Pair::start(Setup::resolving(&[("evil.test:80", site.address())])).await?;
    let mut options = BrowserOptions::behind(pair.proxy());
    options.extra.push("--proxy-bypass-list=<-loopback>".to_owned());
    let mut browser = match Browser::start(&options).await {
        Ok(browser) => browser,
        Err(ChromiumError::NotInstalled) => {
            println!("SKIPPED: no Chromium is installed");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let at = device.address();
    let attack = format!("http://evil.test/#{at}");
    assert_eq!(browser.evaluate(&attack, "window.attacked", LIMIT).await?, "over");
    assert!(!site.seen().is_empty());
    assert_eq!(device.seen().len(), 0, "{:?}", device.seen());
    // The user's own navigation.
    let title = "new Promise(done => { const look = () => document.title == 'a device' ? done(document.title) : setTimeout(look, 50); look() })";
    let shown = browser.evaluate(&format!("http://{at}/x?y"), title, LIMIT).await;
    // The first page is replaced while the expression runs.
    if let Ok(shown) = shown {
        assert_eq!(shown, "a device");
    }
    assert!(
        device.seen().iter().any(|seen| seen.path == "/x?y"),
        "{:?}",
        device.seen()
    );
    Ok(())
}
