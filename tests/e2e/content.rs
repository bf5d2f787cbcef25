//! Response bodies for test origins.
use bytes::Bytes;
use http::{Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
pub(crate) use longhaul_tests::content::{noise, prose};
use longhaul_tests::origin::AnswerBody;
use tokio::sync::mpsc;

/// A complete body of known length.
pub(crate) fn whole(body: impl Into<Bytes>) -> AnswerBody {
    Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A 200 response of this type.
pub(crate) fn ok(kind: &str, body: impl Into<Bytes>) -> Response<AnswerBody> {
    Response::builder()
        .header(CONTENT_TYPE, kind)
        .body(whole(body))
        .expect("a valid response")
}

/// A body of unknown length in pieces; an error breaks the connection.
pub(crate) fn pieces() -> (mpsc::Sender<Result<Bytes, std::io::Error>>, AnswerBody) {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece.map(Frame::data), receiver))
    });
    (sender, StreamBody::new(stream).boxed_unsync())
}
