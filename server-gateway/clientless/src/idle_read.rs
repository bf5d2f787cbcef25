//! Reading from a connection that may be silent for a long time.
use std::{future::poll_fn, io, mem::MaybeUninit, pin::Pin, task::ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that are read at once.
const READ: usize = 16 * 1024;

/// Appends what has arrived to a buffer, and returns its length; 0 at the end of the stream. Only what has arrived takes up
/// memory: most connections wait most of the time. Cancelling loses nothing.
///
/// # Errors
/// The connection fails.
pub(super) async fn read_arrived(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut space = [const { MaybeUninit::uninit() }; READ];
        let mut arrived = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut arrived))?;
        buffer.extend_from_slice(arrived.filled());
        Ok(arrived.filled().len()).into()
    })
    .await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_silent_connection_takes_up_no_memory_and_bytes_are_appended_in_order() {
        let (mut one, mut other) = tokio::io::duplex(100_000);
        let mut buffer = BytesMut::new();
        assert!(read_arrived(&mut other, &mut buffer).now_or_never().is_none());
        assert_eq!(buffer.capacity(), 0);
        let sent: Vec<u8> = (0..40_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        one.write_all(&sent).await.unwrap();
        drop(one);
        let mut counts = 0;
        loop {
            match read_arrived(&mut other, &mut buffer).await.unwrap() {
                0 => break,
                count => counts += count,
            }
        }
        assert_eq!(counts, sent.len());
        assert_eq!(&buffer[..], &sent[..]);
    }
}
