//! Response bodies for test origins.
use bytes::Bytes;
use http::{Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use longhaul_tests::origin::AnswerBody;
use tokio::sync::mpsc;

/// Incompressible bytes, the same for the same seed (xorshift64*).
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_685_821_657_736_338_717) | 1;
    let mut step = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(2_685_821_657_736_338_717).to_be_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(&mut step)
        .take(length / 8 + 1)
        .flatten()
        .collect();
    bytes.truncate(length);
    bytes
}

/// Text with about the compression ratio of a typical page, the same for the same seed.
pub(crate) fn prose(length: usize, seed: u64) -> Vec<u8> {
    const WORDS: &[&str] = &[
        "<p>",
        "</p>\n",
        "the ",
        "gateway ",
        "fetches ",
        "what ",
        "a ",
        "page ",
        "needs",
        ", ",
        "link ",
        "depot ",
        "<a href=\"/",
        "\">",
        "</a> ",
        "slow ",
        "over ",
        "and ",
        "harbour ",
        "caf\u{e9} ",
    ];
    let mut text = Vec::with_capacity(length + 16);
    for (at, byte) in noise(length, seed).into_iter().enumerate() {
        text.extend_from_slice(WORDS[usize::from(byte) % WORDS.len()].as_bytes());
        if at % 16 == 0 {
            text.extend_from_slice(at.to_string().as_bytes());
        }
        if text.len() >= length {
            break;
        }
    }
    text.truncate(length);
    text
}

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
