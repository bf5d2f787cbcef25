//! Logins that belong to a connection (NTLM, Negotiate).
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    LOCAL,
    access::{credentials, with_clients},
    start_in,
};
use crate::origin::serve_tcp;

/// Asks on an open connection to the proxy; returns the number of the origin connection that answered, one digit.
async fn ask(proxy: &mut TcpStream, url: &str, fields: &str) -> u8 {
    let host = url.split('/').nth(2).unwrap();
    let request = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    proxy.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let byte = proxy.read_u8().await.unwrap();
        if answer.ends_with(b"\r\n\r\n") {
            return byte;
        }
        answer.push(byte);
    }
}

/// An origin that answers each request with the number of its connection.
async fn origin() -> u16 {
    let connections = AtomicUsize::new(0);
    serve_tcp(move |mut connection| {
        let number = connections.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut request = [0; 4096];
            while connection.read(&mut request).await.is_ok_and(|bytes| bytes > 0) {
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: no-store\r\n\r\n{number}"
                );
                if connection.write_all(answer.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn clients_of_one_connection_do_not_share_a_login() {
    let (home, _, [ann, bob]) = with_clients(["ann", "bob"]);
    let (_gateway, proxy): (_, SocketAddr) = start_in(home, LOCAL, |_| {}).await;
    let (ann, bob) = (credentials("ann", &ann), credentials("bob", &bob));
    let url = format!("http://a.test:{}/", origin().await);
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let login = format!("{ann}Authorization: NTLM TlRMTVNTUAABAAAA\r\n");
    let of_ann = ask(&mut connection, &url, &login).await;
    assert_eq!(
        ask(&mut connection, &url, &ann).await,
        of_ann,
        "the login continues"
    );
    let of_bob = ask(&mut connection, &url, &bob).await;
    assert_ne!(
        of_bob, of_ann,
        "bob is not answered over the connection to which ann logged in"
    );
}
