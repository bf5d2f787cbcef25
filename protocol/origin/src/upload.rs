//! Request bodies on their way to the origin. What was sent is recorded, so that the body can be sent once more.
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use thiserror::Error;
use tokio::time::{Instant, sleep_until};

/// Maximum of a body that is recorded. An origin that does not accept a request says so in a round trip, in which it
/// gets no more than its flow-control window, of 64 KiB at most of them. The record is kept until the head of the response.
pub(crate) const MAX_RECORD: usize = 256 * 1024;

/// Error of the source of a request body.
#[derive(Clone, Copy, Debug, Error)]
#[error("the request's body broke off before its end")]
pub(crate) struct UploadError;

/// Request body of one attempt to send the request. It reports its progress.
pub(crate) struct Upload {
    source: Arc<Mutex<Source>>,
    attempt: u32,
    /// Bytes of the record that this attempt has sent.
    sent: usize,
    has_sent_trailers: bool,
}

/// Observer of an [`Upload`]'s progress, and source of further attempts.
#[derive(Clone)]
pub(crate) struct UploadWatch(Arc<Mutex<Source>>);

struct Source {
    body: UnsyncBoxBody<Bytes, UploadError>,
    /// The newest attempt: earlier ones get nothing more.
    attempt: u32,
    /// `None` if more was sent than is recorded, or if the source broke off.
    record: Option<Record>,
    has_broken_off: bool,
    progress: Progress,
}

/// What the source has returned so far, in memory of its own: a piece of the source may be a part of a larger buffer.
#[derive(Default)]
struct Record {
    data: BytesMut,
    trailers: Option<HeaderMap>,
    has_ended: bool,
}

#[derive(Clone, Copy)]
struct Progress {
    /// True while the source has no data: this time does not count against the origin.
    is_starved: bool,
    /// Time of the connection's start, or of the last poll of the source.
    moved: Instant,
}

impl Upload {
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let source = Source {
            body: body.map_err(|_| UploadError).boxed_unsync(),
            attempt: 0,
            record: Some(Record::default()),
            has_broken_off: false,
            progress: Progress {
                is_starved: false,
                moved: Instant::now(),
            },
        };
        Self::of(Arc::new(Mutex::new(source)), 0)
    }

    fn of(source: Arc<Mutex<Source>>, attempt: u32) -> Self {
        Self {
            source,
            attempt,
            sent: 0,
            has_sent_trailers: false,
        }
    }

    /// True if the whole body will be recorded.
    pub(crate) fn is_recordable(&self) -> bool {
        let length = self.size_hint().upper();
        length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length <= MAX_RECORD))
    }

    pub(crate) fn watch(&self) -> UploadWatch {
        UploadWatch(Arc::clone(&self.source))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let this = &mut *self;
        let mut source = this.source.lock();
        if this.attempt != source.attempt {
            return Poll::Ready(Some(Err(UploadError)));
        }
        if let Some(record) = &source.record {
            let rest = record.data.get(this.sent..).unwrap_or_default();
            if !rest.is_empty() {
                this.sent = record.data.len();
                return Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(rest)))));
            }
            if let (Some(trailers), false) = (&record.trailers, this.has_sent_trailers) {
                this.has_sent_trailers = true;
                return Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))));
            }
            if record.has_ended {
                return Poll::Ready(None);
            }
        }
        let polled = ready!(source.poll(cx));
        if let Some(Ok(frame)) = &polled {
            this.sent += frame.data_ref().map_or(0, Bytes::len);
            this.has_sent_trailers |= frame.is_trailers();
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        let source = self.source.lock();
        let is_sent = source.record.as_ref().is_none_or(|record| {
            record.data.len() <= self.sent && (record.trailers.is_none() || self.has_sent_trailers)
        });
        is_sent && source.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let source = self.source.lock();
        let recorded = source.record.as_ref().map_or(0, |record| record.data.len());
        let again = u64::try_from(recorded.saturating_sub(self.sent)).unwrap_or(u64::MAX);
        let rest = source.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(again));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(again));
        }
        hint
    }
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.progress = Progress {
            is_starved: polled.is_pending(),
            moved: Instant::now(),
        };
        let polled = ready!(polled);
        self.has_broken_off |= matches!(polled, Some(Err(_)));
        if self.record.as_mut().is_some_and(|record| !record.add(&polled)) {
            self.record = None;
        }
        Poll::Ready(polled)
    }
}

impl Record {
    /// Returns false if the body cannot be sent once more.
    fn add(&mut self, polled: &Option<Result<Frame<Bytes>, UploadError>>) -> bool {
        match polled {
            None => self.has_ended = true,
            Some(Err(UploadError)) => return false,
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    if self.data.len() + data.len() > MAX_RECORD {
                        return false;
                    }
                    self.data.extend_from_slice(data);
                }
                if let Some(trailers) = frame.trailers_ref() {
                    self.trailers = Some(trailers.clone());
                }
            }
        }
        true
    }
}

impl UploadWatch {
    /// Starts the clock when the connection is available.
    ///
    /// Does not reset `is_starved`: the connection may already have polled the source.
    pub(crate) fn start(&self) {
        self.source().progress.moved = Instant::now();
    }

    /// Returns when the origin, for `limit`, has neither taken more of the body nor, after the end of the
    /// body, answered.
    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            let progress = self.source().progress;
            let now = Instant::now();
            let deadline = if progress.is_starved {
                now + limit
            } else {
                progress.moved + limit
            };
            if deadline <= now {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    /// Returns the body for another attempt, from its start; the attempts before get nothing more. `None` if more than
    /// [`MAX_RECORD`] was sent.
    pub(crate) fn again(&self) -> Option<Upload> {
        let mut source = self.source();
        source.record.as_ref()?;
        source.attempt += 1;
        Some(Upload::of(Arc::clone(&self.0), source.attempt))
    }

    /// True if the source of the body failed.
    pub(crate) fn has_broken_off(&self) -> bool {
        self.source().has_broken_off
    }

    /// Ends the record: the request is answered.
    pub(crate) fn answered(&self) {
        self.source().record = None;
    }

    fn source(&self) -> MutexGuard<'_, Source> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body_util::Full;
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;

    /// Body whose frames come from a channel.
    struct Pieces(UnboundedReceiver<Frame<Bytes>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = UploadError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
            self.0.poll_recv(cx).map(|piece| piece.map(Ok))
        }
    }

    fn channel() -> (UnboundedSender<Frame<Bytes>>, Upload) {
        let (sender, pieces) = unbounded_channel();
        (sender, Upload::new(Pieces(pieces)))
    }

    async fn next(upload: &mut Upload) -> Option<Result<Frame<Bytes>, UploadError>> {
        poll_fn(|cx| Pin::new(&mut *upload).poll_frame(cx)).await
    }

    async fn data(upload: &mut Upload) -> Bytes {
        next(upload).await.unwrap().unwrap().into_data().unwrap()
    }

    #[tokio::test]
    async fn another_attempt_sends_what_was_sent_and_then_the_rest() {
        let (source, mut first) = channel();
        for piece in ["one", "two"] {
            source.send(Frame::data(piece.into())).unwrap();
            assert_eq!(data(&mut first).await, piece);
        }
        let watch = first.watch();
        let mut second = watch.again().unwrap();
        assert!(
            next(&mut first).await.unwrap().is_err(),
            "an earlier attempt gets nothing"
        );
        source.send(Frame::data("three".into())).unwrap();
        let trailers = HeaderMap::from_iter([(http::header::ETAG, http::HeaderValue::from_static("x"))]);
        source.send(Frame::trailers(trailers.clone())).unwrap();
        drop(source);
        assert_eq!(data(&mut second).await, "onetwo");
        let mut third = watch.again().unwrap();
        assert_eq!(data(&mut third).await, "onetwo");
        assert_eq!(data(&mut third).await, "three");
        let last = next(&mut third).await.unwrap().unwrap();
        assert_eq!(last.into_trailers().unwrap(), trailers);
        assert!(next(&mut third).await.is_none());
        let mut fourth = watch.again().unwrap();
        assert_eq!(data(&mut fourth).await, "onetwothree");
        assert!(!fourth.is_end_stream(), "the trailers follow");
        assert!(next(&mut fourth).await.unwrap().unwrap().is_trailers());
        assert!(next(&mut fourth).await.is_none());
    }

    #[tokio::test]
    async fn the_length_of_another_attempt_is_that_of_the_first() {
        let mut first = Upload::new(Full::new(Bytes::from_static(b"state")));
        assert_eq!(first.size_hint().exact(), Some(5));
        assert_eq!(data(&mut first).await, "state");
        assert_eq!(first.size_hint().exact(), Some(0));
        assert!(first.is_end_stream());
        let second = first.watch().again().unwrap();
        assert_eq!(second.size_hint().exact(), Some(5));
        assert!(!second.is_end_stream());
    }

    #[tokio::test]
    async fn a_body_larger_than_the_record_or_already_answered_is_sent_once() {
        let (source, mut upload) = channel();
        let piece = Bytes::from(vec![0; MAX_RECORD / 2]);
        for _ in 0..2 {
            source.send(Frame::data(piece.clone())).unwrap();
            assert_eq!(data(&mut upload).await.len(), piece.len());
        }
        let mut upload = upload.watch().again().expect("just recorded");
        assert_eq!(data(&mut upload).await.len(), MAX_RECORD);
        source.send(Frame::data("x".into())).unwrap();
        assert_eq!(data(&mut upload).await, "x");
        assert!(upload.watch().again().is_none());
        let answered = Upload::new(Full::new(Bytes::from_static(b"x")));
        answered.watch().answered();
        assert!(answered.watch().again().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_origin_begins_with_its_connection() {
        let limit = Duration::from_secs(9);
        let upload = Upload::new(Full::new(Bytes::from_static(b"x")));
        let watch = upload.watch();
        tokio::time::advance(2 * limit).await;
        watch.start();
        let begun = Instant::now();
        watch.stalled(limit).await;
        assert_eq!(begun.elapsed(), limit);
    }
}
