//! The body of a request, from the client's connection to the origin, never buffered whole.
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use longhaul_http::framing::BodyLength;
use tokio::sync::{mpsc, oneshot};

use super::chunked::{ChunkEvent, ChunkedDecoder};

/// Pieces of a body that wait for the origin.
const WAITING: usize = 2;

/// Removes the framing of a body.
#[derive(Debug)]
pub(super) enum BodyFraming {
    Known(u64),
    Chunked(ChunkedDecoder),
}

impl BodyFraming {
    /// The framing of a body; `None` without one.
    pub(super) fn of(length: BodyLength) -> Option<Self> {
        match length {
            BodyLength::None => None,
            BodyLength::Known(length) => Some(Self::Known(length)),
            BodyLength::Chunked => Some(Self::Chunked(ChunkedDecoder::default())),
        }
    }

    /// Takes the next piece from the beginning of the buffer.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> io::Result<ChunkEvent> {
        match self {
            Self::Known(0) => Ok(ChunkEvent::End),
            Self::Known(_) if buffer.is_empty() => Ok(ChunkEvent::NeedInput),
            Self::Known(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                *left -= count as u64;
                Ok(ChunkEvent::Data(buffer.split_to(count).freeze()))
            }
            Self::Chunked(decoder) => decoder.next(buffer).map_err(io::Error::other),
        }
    }
}

/// Sender of the pieces of a body. A sender that is dropped before [`END`], or before the known length, makes the body
/// incomplete: it must never look complete to the origin because its reader was stopped.
pub(super) type Pieces = mpsc::Sender<io::Result<Bytes>>;

/// Tells that the origin reads a body for which the client waits to be asked. Ends without that if it does not.
pub(super) type Asked = oneshot::Receiver<()>;

/// The last piece of a body.
pub(super) const END: Bytes = Bytes::new();

/// The body as the origin client reads it.
#[derive(Debug)]
pub(super) struct RequestBody {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    has_ended: bool,
    /// Bytes that are still to come, if known.
    left: Option<u64>,
    late: Late,
    /// Told when the origin reads the body.
    asked: Option<oneshot::Sender<()>>,
}

/// Whether the client did not send a body in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Late(Arc<AtomicBool>);

impl Late {
    pub(super) fn is_late(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl RequestBody {
    /// Creates a body, and the sender of its pieces.
    pub(super) fn new(length: BodyLength) -> (Pieces, Self) {
        let (sender, pieces) = mpsc::channel(WAITING);
        let left = match length {
            BodyLength::None => Some(0),
            BodyLength::Known(length) => Some(length),
            BodyLength::Chunked => None,
        };
        let body = Self {
            pieces,
            has_ended: false,
            left,
            late: Late::default(),
            asked: None,
        };
        (sender, body)
    }

    /// Returns what tells when the origin reads the body, so that the client can be asked for it.
    pub(super) fn asked(&mut self) -> Asked {
        let (sender, receiver) = oneshot::channel();
        self.asked = Some(sender);
        receiver
    }

    /// Whether the client does not send the body in time.
    pub(super) fn late(&self) -> Late {
        self.late.clone()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Some(asked) = self.asked.take() {
            // Without a writer, the connection ends.
            let _gone = asked.send(());
        }
        let piece = ready!(self.pieces.poll_recv(cx)).unwrap_or_else(|| match self.left {
            Some(0) => Ok(END),
            Some(_) | None => Err(io::ErrorKind::UnexpectedEof.into()),
        });
        if let (Ok(bytes), Some(left)) = (&piece, &mut self.left) {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        if piece
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        {
            self.late.0.store(true, Relaxed);
        }
        let is_end = piece.as_ref().is_ok_and(Bytes::is_empty);
        self.has_ended = is_end || piece.is_err();
        if is_end {
            let is_short = self.left.is_some_and(|left| left > 0);
            return Poll::Ready(is_short.then(|| Err(io::ErrorKind::UnexpectedEof.into())));
        }
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    /// What the origin reads of a body whose pieces these are.
    async fn read(
        length: BodyLength,
        pieces: Vec<io::Result<Bytes>>,
    ) -> (Vec<u8>, Result<(), io::ErrorKind>) {
        let (sender, mut body) = RequestBody::new(length);
        let sent = tokio::spawn(async move {
            for piece in pieces {
                let _stopped = sender.send(piece).await;
            }
        });
        let mut bytes = Vec::new();
        let mut end = Ok(());
        while let Some(frame) = body.frame().await {
            assert_eq!(end, Ok(()), "nothing follows an error");
            match frame {
                Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
                Err(error) => end = Err(error.kind()),
            }
        }
        drop(body);
        sent.await.unwrap();
        (bytes, end)
    }

    fn piece(text: &'static str) -> io::Result<Bytes> {
        Ok(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn only_a_body_of_its_whole_length_is_complete() {
        use BodyLength::{Chunked, Known};
        let cut = Err(io::ErrorKind::UnexpectedEof);
        for (length, pieces, end) in [
            (Known(5), vec![piece("hel"), piece("lo"), Ok(END)], Ok(())),
            (Known(5), vec![piece("hello")], Ok(())),
            (Known(6), vec![piece("hello"), Ok(END)], cut),
            (Known(6), vec![piece("hello")], cut),
            (Chunked, vec![piece("hello"), Ok(END)], Ok(())),
            (Chunked, vec![piece("hello")], cut),
        ] {
            let read = read(length, pieces).await;
            assert_eq!(read, (b"hello".to_vec(), end), "{length:?}");
        }
    }

    #[tokio::test]
    async fn nothing_follows_the_error_of_a_body() {
        let late = || Err(io::ErrorKind::TimedOut.into());
        for length in [BodyLength::Known(5), BodyLength::Chunked] {
            let read = read(length, vec![piece("he"), late(), piece("llo"), Ok(END)]).await;
            assert_eq!(read, (b"he".to_vec(), Err(io::ErrorKind::TimedOut)));
        }
    }

    #[tokio::test]
    async fn only_a_body_that_did_not_arrive_in_time_is_late() {
        for (kind, is_late) in [
            (io::ErrorKind::TimedOut, true),
            (io::ErrorKind::UnexpectedEof, false),
            (io::ErrorKind::InvalidData, false),
        ] {
            let (sender, mut body) = RequestBody::new(BodyLength::Known(5));
            let late = body.late();
            sender.send(Err(kind.into())).await.unwrap();
            assert!(!late.is_late());
            assert!(body.frame().await.unwrap().is_err());
            assert_eq!(late.is_late(), is_late, "{kind}");
        }
    }

    #[tokio::test]
    async fn the_client_is_asked_once_the_origin_reads() {
        let (sender, mut body) = RequestBody::new(BodyLength::Known(2));
        let mut asked = body.asked();
        assert!(asked.try_recv().is_err());
        sender.send(piece("he")).await.unwrap();
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(asked.await, Ok(()));
    }
}
