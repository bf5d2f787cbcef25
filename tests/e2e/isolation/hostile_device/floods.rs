//! Floods of valid messages.
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_driver::End;
use longhaul_session::{Cancel, FetchId, HeaderSets, Message, TunnelOpen, TunnelSecurity};
use longhaul_tests::{
    client::{RawClient, get},
    origin::Origin,
};
use tokio::{net::TcpListener, sync::watch, time::timeout};

use super::{
    HONEST_PAGE_LIMIT, assert_others_served, gateway_peak_memory,
    harness::{HostileDevice, fetch, fetch_with, page_fetch, wire},
    setup, wait_for_request,
};
use crate::{
    content::{noise, pieces},
    pair::{LIMIT, Pair, Setup},
};

/// Maximum growth of the gateway's memory by one device in MB: 256 streams, each with an incomplete message
/// of 256 KiB, and their windows.
const MAX_GROWTH: u64 = 200;

/// Ten thousand fetches, each cancelled at once, half of them before they arrive.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_fetches_do_not_accumulate() -> Result<()> {
    let (origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    let before = gateway_peak_memory(&pair);
    let mut opened = 0;
    for id in 1..=10_000 {
        let cancel = Message::Cancel(Cancel {
            fetch: FetchId::new(id),
        });
        if id % 2 == 0 {
            device.send_control(&cancel).await;
        }
        let wanted = if id % 3 == 0 {
            page_fetch(id, "http://site.test/")
        } else {
            fetch(id, "http://site.test/never")
        };
        opened += u32::from(
            device
                .open_stream(wire(&Message::Fetch(wanted)), End::Finish)
                .await
                .is_some(),
        );
        if id % 2 == 1 {
            device.send_control(&cancel).await;
        }
        if id % 2500 == 0 {
            assert_others_served(&pair, &format!("{id} cancelled fetches")).await?;
        }
    }
    let held = gateway_peak_memory(&pair);
    println!(
        "{opened} fetches opened, {} at the origin; {before} MB before, {held} MB after",
        origin.seen().len()
    );
    ensure!(opened > 9_000, "only {opened} were accepted");
    ensure!(held < before + MAX_GROWTH, "{held} MB");
    // The device's later requests are answered.
    let head = device.head(fetch(20_000, "http://site.test/honest.js")).await?;
    ensure!(head.status == 200, "{head:?}");
    Ok(())
}

/// Streams with an incomplete message, and streams that are cancelled after their first bytes.
#[tokio::test(flavor = "multi_thread")]
async fn half_open_streams_are_bounded() -> Result<()> {
    let (_origin, pair) = setup().await?;
    let mut device = HostileDevice::connect(&pair).await?;
    let before = gateway_peak_memory(&pair);
    // The envelope of a fetch of 256 KiB without its last byte.
    let mut unfinished = vec![0x03, 0x80, 0x03, 0xff, 0xff];
    unfinished.resize(250_000, 0);
    let mut streams = Vec::new();
    while streams.len() < 2_000 {
        match device.open_stream(vec![0x03], End::Open).await {
            Some(stream) => streams.push(stream),
            None => break,
        }
    }
    println!("{} simultaneous streams were allowed", streams.len());
    ensure!(streams.len() < 400, "{} streams", streams.len());
    for stream in &mut streams {
        let written = stream.write(unfinished[1..].to_vec().into());
        let _blocked = timeout(Duration::from_millis(100), written).await;
    }
    assert_others_served(&pair, "half-open streams").await?;
    let held = gateway_peak_memory(&pair);
    println!("{before} MB before, {held} MB after");
    ensure!(held < before + MAX_GROWTH, "{held} MB");
    drop(streams);
    // The streams are available again.
    let head = device.head(fetch(1, "http://site.test/honest.js")).await?;
    ensure!(head.status == 200, "{head:?}");
    Ok(())
}

/// Two thousand tunnels, each abandoned right after its opening.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_tunnels_are_closed() -> Result<()> {
    let (_origin, mut pair) = setup().await?;
    let host = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = host.local_addr()?;
    // The gateway must resolve the name and allow the port.
    let config = format!(
        "{}\n[tunnel]\nports = '{}'\n",
        std::fs::read_to_string(pair.folder().join("gateway.toml"))?.replace(
            "[fetch.resolve]\n",
            &format!("[fetch.resolve]\n\"tunnel.test\" = \"{address}\"\n")
        ),
        address.port()
    );
    std::fs::write(pair.folder().join("gateway.toml"), config)?;
    pair.kill_gateway().await?;
    pair.start_gateway().await?;
    pair.status_until(|status| status["state"] == "open" && status["sessions"] == 2)
        .await?;
    let connections = tokio::spawn(async move {
        let mut ended = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = host.accept().await {
            ended.spawn(async move {
                let _ended = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            });
        }
        ended
    });
    let device = HostileDevice::connect(&pair).await?;
    let before = gateway_peak_memory(&pair);
    let mut opened = 0;
    for id in 1..=2_000_u64 {
        let open = TunnelOpen {
            id: FetchId::new(id),
            host: "tunnel.test".to_owned(),
            port: address.port(),
            security: TunnelSecurity::Untouched,
        };
        let stream = device
            .open_stream(wire(&Message::TunnelOpen(open)), End::Open)
            .await;
        opened += u32::from(stream.is_some());
        drop(stream);
    }
    let held = gateway_peak_memory(&pair);
    println!("{opened} tunnels; {before} MB before, {held} MB after");
    ensure!(opened > 1_500, "only {opened} were accepted");
    ensure!(held < before + MAX_GROWTH, "{held} MB");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", pair.gateway().pid()))?.count();
    println!("{descriptors} descriptors");
    ensure!(descriptors < 700, "{descriptors} descriptors");
    connections.abort();
    Ok(())
}

/// A device that requests a large file and does not read it does not delay another device with the same
/// request.
/// Time that the honest device's response of this size takes while no other device asks.
async fn time_alone(pair: &Pair, release: &watch::Sender<bool>, size: usize) -> Result<Duration> {
    release.send_replace(true);
    let begun = Instant::now();
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(get("http://site.test/alone", &[("Accept", "*/*")]))
        .await?;
    client.head().await?;
    timeout(LIMIT, client.read_exact(size)).await??;
    Ok(begun.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_reads_nothing_does_not_delay_others() -> Result<()> {
    // More than the gateway buffers for sending to one device (8 MiB) and for reading one response (1 MiB).
    const SIZE: usize = 24_000_000;
    let (release, released) = watch::channel(false);
    let origin = Origin::start(
        None,
        |_| {},
        move |_request: Request<Incoming>| {
            let mut released = released.clone();
            let (sender, body) = pieces();
            tokio::spawn(async move {
                let content = noise(SIZE, 8);
                let (first, rest) = content.split_at(50_000);
                let _gone = sender.send(Ok(first.to_vec().into())).await;
                let _is_released = released.wait_for(|released| *released).await.is_ok();
                for piece in rest.chunks(500_000) {
                    if sender.send(Ok(piece.to_vec().into())).await.is_err() {
                        return;
                    }
                }
            });
            let response = Response::builder()
                .header("Cache-Control", "public, max-age=600")
                .header("Content-Length", SIZE)
                .body(body);
            std::future::ready(response.expect("a response"))
        },
    )
    .await?;
    for order in ["before", "after"] {
        let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
        let url = format!("http://site.test/{order}");
        let limit = HONEST_PAGE_LIMIT.max(time_alone(&pair, &release, SIZE).await? * 4);
        release.send_replace(false);
        let mut honest = RawClient::connect(pair.proxy()).await?;
        let device = HostileDevice::connect_without_reading(&pair).await?;
        let ask = async {
            honest.send(get(&url, &[("Accept", "*/*")])).await?;
            honest.head().await
        };
        // An equal request of another device, which may be collapsed with the first.
        let fields =
            [("accept", "*/*"), ("via", "1.1 longhaul")].map(|(name, value)| (name.to_owned(), value.into()));
        let wanted = wire(&Message::Fetch(fetch_with(
            1,
            &url,
            &fields,
            None,
            &HeaderSets::new(),
        )));
        if order == "before" {
            ensure!(device.open_stream(wanted, End::Finish).await.is_some());
            wait_for_request(&origin, &format!("/{order}")).await?;
            ask.await?;
        } else {
            ask.await?;
            ensure!(device.open_stream(wanted, End::Finish).await.is_some());
            // No event shows that the request was collapsed; it happens within the time of a few messages.
            let _a_moment = timeout(Duration::from_millis(500), std::future::pending::<()>()).await;
        }
        release.send_replace(true);
        let body = timeout(limit, honest.read_exact(SIZE))
            .await
            .context("the honest device did not get its response")??;
        assert!(body == noise(SIZE, 8), "{order}");
    }
    Ok(())
}
