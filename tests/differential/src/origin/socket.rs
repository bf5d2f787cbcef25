//! WebSockets of the odd origin: the answer to a key, and what follows the handshake.
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{http1::Wire, sha1::sha1};
use crate::case::Step;

/// What a server adds to a key (RFC 6455 section 1.3).
const ADDED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Stands for the answer to the key in what an origin sends.
const PLACE: &[u8] = b"{accept}";

/// Replaces the place of the answer to the key of a request.
pub(super) fn with_answer(bytes: &[u8], head: &str) -> Vec<u8> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let key = fields.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let key = key.map(|(_, value)| value.trim()).unwrap_or_default();
    let answer = base64(&sha1(format!("{key}{ADDED}").as_bytes()));
    let mut filled = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(answer.as_bytes());
        rest = &rest[at + PLACE.len()..];
    }
    filled.extend_from_slice(rest);
    filled
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let byte = |index| u32::from(part.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * letter) & 63).unwrap_or_default();
            text.push(if letter <= part.len() {
                char::from(LETTERS[index])
            } else {
                '='
            });
        }
    }
    text
}

/// Does what follows the handshake.
pub(super) async fn converse(wire: &mut impl Wire, held: &mut Vec<u8>, steps: &[Step]) -> io::Result<()> {
    for step in steps {
        match step {
            Step::Send(bytes) => {
                wire.write_all(bytes).await?;
                wire.flush().await?;
            }
            Step::Await => {
                read_frame(wire, held).await?;
            }
            Step::Echo => {
                let (first, payload) = read_frame(wire, held).await?;
                wire.write_all(&crate::case::frame(first, &payload)).await?;
                wire.flush().await?;
            }
        }
    }
    Ok(())
}

/// Reads a frame of a client: its first byte and its payload without the mask.
async fn read_frame(wire: &mut impl Wire, held: &mut Vec<u8>) -> io::Result<(u8, Vec<u8>)> {
    const MASK: usize = 4;
    loop {
        if let [first, second, rest @ ..] = held.as_slice() {
            let (size, length) = match second & 0x7f {
                126 => (2, rest.get(..2).map(number)),
                127 => (8, rest.get(..8).map(number)),
                short => (0, Some(usize::from(short))),
            };
            let end = length.map(|length| size + MASK + length);
            if let Some(frame) = end.and_then(|end| rest.get(size..end)) {
                let (mask, payload) = frame.split_at(MASK);
                let mask = mask.iter().cycle();
                let payload: Vec<u8> = payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
                let first = *first;
                held.drain(..2 + size + MASK + payload.len());
                return Ok((first, payload));
            }
        }
        if wire.read_buf(held).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_answered_as_in_the_standard() {
        let filled = with_answer(
            b"a {accept} b",
            "GET / HTTP/1.1\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        );
        assert_eq!(filled, b"a s3pPLMBiTxaQ9kYGzzhZRbK+xOo= b");
    }
}
