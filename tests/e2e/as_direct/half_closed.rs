//! Clients that close their sending side after the request, and clients that close their connection.
use tokio::sync::{mpsc, watch};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::*;

/// An origin that answers each request when it is told to, and tells of requests and of connections that end before.
struct PatientOrigin {
    address: SocketAddr,
    events: mpsc::UnboundedReceiver<Event>,
    go: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Asked,
    Left,
}

impl PatientOrigin {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (sender, events) = mpsc::unbounded_channel();
        let (go, turn) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, sender.clone(), turn.clone()));
            }
        });
        Ok(Self { address, events, go })
    }
}

async fn serve(mut stream: TcpStream, events: mpsc::UnboundedSender<Event>, mut turn: watch::Receiver<bool>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let _test_is_over = events.send(Event::Asked);
    let mut rest = Vec::new();
    let (mut reader, mut writer) = stream.split();
    let go = async { turn.wait_for(|go| *go).await.is_ok() };
    tokio::select! {
        _ = go => {
            let body = vec![b'x'; 100_000];
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
            let _gone = writer.write_all(&[&head[..], &body].concat()).await;
        }
        _ = reader.read_to_end(&mut rest) => {
            let _test_is_over = events.send(Event::Left);
        }
    }
}

const REQUESTS: [&str; 4] = [
    "GET http://site.test/ HTTP/1.0\r\n\r\n",
    "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n",
    "GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
    "POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\nUser-Agent: Mozilla/5.0\r\nContent-Length: 4\r\n\r\nbody",
];

#[tokio::test]
async fn a_client_that_closes_its_sending_side_gets_the_whole_response() -> Result<()> {
    let mut origin = PatientOrigin::start().await?;
    let (pair, clientless) = pair_with_clientless(origin.address).await?;
    for (proxy, text) in [pair.proxy(), clientless]
        .into_iter()
        .flat_map(|proxy| REQUESTS.map(|text| (proxy, text)))
    {
        origin.go.send_replace(false);
        let mut client = RawClient::connect(proxy).await?;
        client.send(text).await?;
        client.finish().await?;
        assert_eq!(origin.events.recv().await, Some(Event::Asked));
        origin.go.send_replace(true);
        let response = client.response().await.with_context(|| text.to_owned())?;
        assert_eq!((response.status, response.ending), (200, Ending::Whole), "{text}");
        assert_eq!(response.body.len(), 100_000, "{text}");
        assert!(client.is_closed().await?, "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn the_request_of_a_client_that_has_left_is_cancelled() -> Result<()> {
    let mut origin = PatientOrigin::start().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address)])).await?;
    for text in REQUESTS {
        let mut client = RawClient::connect(pair.proxy()).await?;
        client.send(text).await?;
        assert_eq!(origin.events.recv().await, Some(Event::Asked), "{text}");
        drop(client);
        assert_eq!(origin.events.recv().await, Some(Event::Left), "{text}");
        // First the sending side only, as a script does that is then killed.
        let mut client = RawClient::connect(pair.proxy()).await?;
        client.send(text).await?;
        client.finish().await?;
        assert_eq!(origin.events.recv().await, Some(Event::Asked), "{text}");
        drop(client);
        assert_eq!(origin.events.recv().await, Some(Event::Left), "{text}");
    }
    Ok(())
}
