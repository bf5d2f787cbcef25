//! Pages and bodies that are made to take much memory or processor time of the gateway: other devices do not notice.
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::{
    client::{Ending, RawClient, RawResponse, ask, get},
    process::Running,
    raw_origin::RawOrigin,
};
use tokio::time::{interval, timeout};

use crate::{
    operations::ask_metrics,
    page_loads::peak_memory,
    pair::{LIMIT, Pair, Setup},
};

/// Hosts of the attack: the gateway has a limit of requests to one host.
const HOSTS: [&str; 4] = ["a.test", "b.test", "c.test", "d.test"];
/// Bodies with large windows.
const BODIES: usize = 64;
/// Half of the memory of all decoders, which one device may use.
const MOST: u64 = 96 << 20;

fn brotli(body: &[u8]) -> Vec<u8> {
    let config = mbrotli::EncoderConfig::default().with_quality(mbrotli::Quality::Q2);
    let mut coder = mbrotli::Compressor::new(config).expect("a quality");
    coder.compress(body).expect("writing to memory succeeds")
}

fn response(kind: &str, coding: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{coding}Cache-Control: no-store\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A request as of a browser that opens a page.
fn navigation(url: &str) -> String {
    get(
        url,
        &[
            ("Accept", "text/html,*/*;q=0.8"),
            ("Accept-Encoding", "gzip, deflate"),
        ],
    )
}

/// A gateway with two devices.
async fn two_devices(origin: &RawOrigin) -> Result<(Pair, Running)> {
    let names: Vec<_> = HOSTS.map(|host| (host, origin.address())).into();
    let mut setup = Setup::resolving(&names);
    setup.gateway_config = format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{}", setup.gateway_config);
    let pair = Pair::start(setup).await?;
    let second = pair.second_agent("second").await?;
    Ok((pair, second))
}

async fn ask_within_limit(device: &Running, url: &str) -> Result<RawResponse> {
    let asked = timeout(LIMIT, ask(device.address(), navigation(url)));
    asked.await.context("no answer within the limit")?
}

async fn decoder_bytes(pair: &Pair) -> Result<u64> {
    let text = ask_metrics(pair, "/metrics").await?.text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("longhaul_budget_bytes{of=\"decoders\"} "));
    Ok(line.context("no such metric")?.parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_windows_of_one_device_leave_room_for_others() -> Result<()> {
    // A window of 16 MiB, and the head of an uncompressed block of 16 MiB (RFC 7932 sections 9.1 and 9.2) with its first bytes.
    let large = [&[0xcf, 0xff, 0xff, 0xff][..], &[b' '; 100]].concat();
    let page = brotli(&b"<p>a page of words</p>".repeat(20_000));
    let origin = RawOrigin::start_kept(move |request| {
        let coding = "Content-Encoding: br\r\n";
        if request.path() == "/page" {
            response("text/html", coding, page.len(), &page)
        } else {
            // The end never comes.
            response("text/html", coding, 16 << 20, &large)
        }
    })
    .await?;
    let (pair, second) = two_devices(&origin).await?;
    ensure!(ask_within_limit(&second, "http://a.test/page").await?.status == 200);
    let before = peak_memory(pair.gateway().pid()).context("memory")?;
    let mut clients = Vec::new();
    for number in 0..BODIES {
        let mut client = RawClient::connect(pair.proxy()).await?;
        let host = HOSTS[number % HOSTS.len()];
        client
            .send(navigation(&format!("http://{host}/{number}")))
            .await?;
        clients.push(client);
    }
    let mut looks = interval(Duration::from_millis(20));
    let full = async {
        loop {
            looks.tick().await;
            let used = decoder_bytes(&pair).await?;
            ensure!(used <= MOST, "{used} bytes");
            // Less than a window is left.
            if used > MOST - (20 << 20) {
                return Ok(());
            }
        }
    };
    timeout(LIMIT, full)
        .await
        .context("the decoders take no memory")??;
    let answer = ask_within_limit(&second, "http://a.test/page").await?;
    assert_eq!(
        (answer.status, answer.ending, answer.body.len()),
        (200, Ending::Whole, 440_000)
    );
    let grown = peak_memory(pair.gateway().pid()).context("memory")? - before;
    assert!(grown < 2 * MOST, "the gateway took {} MB more", grown >> 20);
    drop(clients);
    Ok(())
}

/// Style sheets with many selectors in a page of many names, policies with many sources, and many frames.
fn slow_page() -> String {
    let repeat = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let unmatched = repeat(700, &|n| format!(".n{n},"));
    let rules = repeat(100, &|n| format!("{unmatched}.z{{background:url({n})}}"));
    let policy = repeat(1000, &|n| format!(" https://s{n}.test"));
    let classes = repeat(40_000, &|n| format!("<p class=c{n}>"));
    let frames = "<iframe srcdoc=x></iframe>".repeat(20_000);
    format!(
        "<!doctype html><meta http-equiv=content-security-policy content=\"img-src{policy}\"><style>{rules}</style>{classes}{frames}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_takes_long_to_search_delays_no_other_device() -> Result<()> {
    let slow = slow_page();
    let length = slow.len();
    let origin = RawOrigin::start(move |path| {
        if path.starts_with("/slow") {
            response("text/html", "", slow.len(), slow.as_bytes())
        } else {
            response("text/html", "", 4, b"page")
        }
    })
    .await?;
    let (pair, second) = two_devices(&origin).await?;
    let mut slow_loads = Vec::new();
    for number in 0..4 {
        let load = ask(pair.proxy(), navigation(&format!("http://a.test/slow{number}")));
        slow_loads.push(tokio::spawn(load));
    }
    for number in 0..20 {
        let answer = ask_within_limit(&second, &format!("http://b.test/{number}")).await?;
        assert_eq!(answer.text(), "page");
    }
    // Searched or not, the pages arrive.
    for load in slow_loads {
        let answer = load.await??;
        assert_eq!((answer.status, answer.body.len()), (200, length));
    }
    Ok(())
}
