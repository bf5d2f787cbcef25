//! SOCKS 5 (RFC 1928) on the proxy port, for programs that are no browsers: mail, ssh, git, chat.
//!
//! A connection whose first byte is 5 is SOCKS; anything else is HTTP. Its bytes pass through a tunnel of the session, as
//! those of CONNECT do, so that the program's connection survives outages and changes of the network. The same users,
//! passwords, ports and addresses are allowed as for CONNECT; `https` to accelerated hosts stays untouched, because a
//! program that speaks SOCKS has not been told to trust the agent's certificates.
//!
//! UDP ASSOCIATE opens a UDP port for the client, whose datagrams pass through the session's datagrams
//! ([decision 57](../../../docs/decisions/0057-udp-associate.md)).
//!
//! Not supported: incoming connections (BIND).
mod association;
mod datagrams;
mod handshake;
mod messages;
mod reply;
mod sender;

use std::sync::Arc;

use bytes::BytesMut;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tracing::debug;

pub use datagrams::{decode_datagram, encode_datagram};
pub use messages::{
    Command, Destination, Greeting, Method, NameAndPassword, Reply, Request, SocksError, VERSION,
    associated_message, method_message, password_message,
};

use self::handshake::{Authenticated, authenticate, read_request};
use crate::{
    access::Access,
    connection::{ConnectionScope, EvictableStream, close_after_answer},
    handles::Handles,
    pages::{BadRequest, Failure},
    tunnel,
    upstream::Asker,
};

/// Serves one connection to its end.
pub(crate) async fn serve(
    mut stream: EvictableStream<TcpStream>,
    handles: &Handles,
    access: &Access,
    scope: Arc<ConnectionScope>,
) {
    // Interactive programs send single keystrokes.
    let _best_effort = stream.get_ref().set_nodelay(true);
    let mut received = BytesMut::new();
    let request = async {
        match authenticate(&mut stream, &mut received, access, &scope).await? {
            Authenticated::Yes => read_request(&mut stream, &mut received).await.map(Some),
            Authenticated::No => Ok(None),
        }
    };
    match request.await {
        Ok(Some(request)) => answer(stream, received, handles, &scope, request).await,
        Ok(None) => close_after_answer(stream).await,
        Err(error) => debug!(%error, "a SOCKS connection ended before its request"),
    }
}

/// Tells a client that it is not served.
pub(crate) async fn deny(mut stream: EvictableStream<TcpStream>) {
    if stream.write_all(&method_message(None)).await.is_ok() {
        close_after_answer(stream).await;
    }
}

async fn answer(
    mut stream: EvictableStream<TcpStream>,
    received: BytesMut,
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    request: Request,
) {
    handles.counters.requests.increment();
    let in_use = scope.begin();
    if request.command == Command::Associate {
        return match association::prepare(stream.get_ref(), handles, scope, &request.destination).await {
            Ok(prepared) => {
                drop(in_use);
                prepared.run(stream, handles, scope).await;
            }
            Err(reply) => {
                handles.counters.failures.increment();
                if stream.write_all(&reply.message()).await.is_ok() {
                    close_after_answer(stream).await;
                }
            }
        };
    }
    let (reply, tunnel) = match open(handles, scope, request).await {
        Ok(tunnel) => (Reply::Succeeded, Some(tunnel)),
        Err(reply) => {
            handles.counters.failures.increment();
            (reply, None)
        }
    };
    let written = stream.write_all(&reply.message()).await;
    drop(in_use);
    match (written, tunnel) {
        (Ok(()), Some(tunnel)) => tunnel.run(stream, received).await,
        (Ok(()), None) => close_after_answer(stream).await,
        (Err(error), _) => debug!(%error, "a SOCKS client left before the answer"),
    }
}

async fn open(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    request: Request,
) -> Result<tunnel::PreparedTunnel, Reply> {
    let destination = match (request.command, request.destination) {
        (Command::Associate | Command::Other(_), _) => return Err(Reply::CommandNotSupported),
        (Command::Connect, Destination::UnknownKind) => return Err(Reply::AddressNotSupported),
        (Command::Connect, Destination::Invalid(error)) => {
            debug!(%error, "a SOCKS request was refused");
            return Err(reply::of(&Failure::Request(BadRequest::Target(error))));
        }
        (Command::Connect, Destination::Host(host, port)) => (host, port),
    };
    // Browsers, too, may use SOCKS, and say nothing of themselves.
    let asker = Asker::Foreign;
    tunnel::prepare(&handles.upstream, &handles.counters, scope, destination, asker)
        .await
        .map_err(|failure| {
            debug!(?failure, "a SOCKS request failed");
            reply::of(&failure)
        })
}
