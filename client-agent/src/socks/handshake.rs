//! The messages before the tunnel.
use std::{io, sync::Arc};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::messages::{
    Greeting, Method, NameAndPassword, Request, SocksError, method_message, password_message,
};
use crate::{access::Access, connection::ConnectionScope};

/// Bytes that are read ahead, at most: the largest message has 513. Programs may send their first bytes together with
/// the request.
const READ_AHEAD: usize = 4 * 1024;

/// Errors of the messages before the tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// The client sent something else.
    #[error(transparent)]
    Message(#[from] SocksError),
    /// The connection failed, or ended early.
    #[error("the connection ended: {0}")]
    Io(#[from] io::Error),
}

/// Outcome of the authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authenticated {
    Yes,
    /// The client has been told.
    No,
}

/// Agrees on a method with the client, and checks its name and password if the agent requires them.
pub(super) async fn authenticate<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    received: &mut BytesMut,
    access: &Access,
    scope: &Arc<ConnectionScope>,
) -> Result<Authenticated, HandshakeError> {
    let greeting = read(stream, received, Greeting::decode).await?;
    let is_served = access.check_user(scope.client().user()).is_ok();
    let method = match access.has_passwords() {
        true if is_served && greeting.password => Some(Method::Password),
        false if is_served && greeting.nothing => Some(Method::Nothing),
        _ => None,
    };
    stream.write_all(&method_message(method)).await?;
    match method {
        None => Ok(Authenticated::No),
        Some(Method::Nothing) => Ok(Authenticated::Yes),
        Some(Method::Password) => {
            let pair = read(stream, received, NameAndPassword::decode).await?;
            let holder = access.holder(&pair.name, &pair.password);
            let is_right = holder.is_some_and(|name| scope.accepts_credential(&name));
            stream.write_all(&password_message(is_right)).await?;
            Ok(if is_right {
                Authenticated::Yes
            } else {
                Authenticated::No
            })
        }
    }
}

/// Reads the request. What the client has sent behind it stays in `received`.
pub(super) async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    received: &mut BytesMut,
) -> Result<Request, HandshakeError> {
    read(stream, received, Request::decode).await
}

/// A message and its length, once it is complete.
type Decoded<M> = Result<Option<(M, usize)>, SocksError>;

/// Reads until a message is complete. The connection's permit limits the time.
async fn read<S: AsyncRead + Unpin, M>(
    stream: &mut S,
    received: &mut BytesMut,
    decode: fn(&[u8]) -> Decoded<M>,
) -> Result<M, HandshakeError> {
    loop {
        if let Some((message, length)) = decode(received)? {
            received.advance(length);
            return Ok(message);
        }
        received.reserve(READ_AHEAD);
        let left = READ_AHEAD.saturating_sub(received.len()) as u64;
        if stream.take(left).read_buf(received).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}
