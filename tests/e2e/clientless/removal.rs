//! A client without an agent whom the operator removes. It needs no namespaces.
use anyhow::{Context, Result};
use longhaul_tests::{client::get, raw_origin::RawOrigin};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::quotas::{PAGE, Proxy, head};
use crate::pair::LIMIT;

/// Length of the file, of which only the beginning arrives.
const LENGTH: usize = 1_000_000;
const BEGINNING: usize = 1000;

/// Begins to download the file; returns the connection after the beginning has arrived.
async fn download(proxy: &Proxy, who: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy.address).await?;
    let request = get("http://files.test/file", &[("Proxy-Authorization", who)]);
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    let begins = async {
        while !read.ends_with(&[b'x'; BEGINNING]) {
            read.push(stream.read_u8().await?);
        }
        anyhow::Ok(())
    };
    timeout(LIMIT, begins).await.context("no beginning arrives")??;
    Ok(stream)
}

/// Waits for the end of a connection: an end or a reset. Returns how many bytes came before it.
async fn ended(stream: &mut TcpStream) -> Result<usize> {
    let mut rest = Vec::new();
    let _reset = timeout(LIMIT, stream.read_to_end(&mut rest))
        .await
        .context("the connection stays open")?;
    Ok(rest.len())
}

#[tokio::test]
async fn a_removed_client_loses_its_download_and_its_tunnel() -> Result<()> {
    let origin = RawOrigin::start_kept(|request| match request.path() {
        "/file" => [head(LENGTH).as_bytes(), &[b'x'; BEGINNING]].concat(),
        _ => [head(4).as_bytes(), b"page"].concat(),
    })
    .await?;
    let proxy = Proxy::of(origin).await?;
    let (ann, bob) = (proxy.add("ann").await?, proxy.add("bob").await?);
    for who in [&ann, &bob] {
        proxy.page_until(who, 200).await?;
    }
    let mut of_ann = download(&proxy, &ann).await?;
    let of_bob = download(&proxy, &bob).await?;
    let (mut tunnel, opened) = proxy.tunnel(&ann).await?;
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    proxy.operate(&["client", "remove", "ann"]).await?;
    assert_eq!(ended(&mut of_ann).await?, 0);
    assert_eq!(ended(&mut tunnel).await?, 0);
    proxy.page_until(&ann, 407).await?;
    // The other client goes on.
    let mut byte = [0];
    let read = of_bob.try_read(&mut byte);
    assert!(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    assert_eq!(proxy.load(PAGE, &bob).await?.status, 200);
    Ok(())
}
