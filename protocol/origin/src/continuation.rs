//! Request bodies that are sent only once the origin asks for them (RFC 9110 section 10.1.1): a client that sends
//! `Expect: 100-continue` can be refused before it has sent anything.
use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

/// Time after which the body is sent unasked, as the section requires: many origins never ask. curl waits as long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The turn of a request's body, shared by the body, the request and the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Continuation(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    turn: Turn,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// The origin has not said anything.
    #[default]
    Waiting,
    /// The body may be sent.
    Asked,
    /// The origin has answered without the body, which is not sent.
    Answered,
    /// That response has ended, and with it the exchange.
    Over,
}

/// A body that waits for its turn.
#[derive(Debug)]
pub(crate) struct HeldBody<B> {
    body: Pin<Box<B>>,
    /// `None` once the body may be sent.
    wait: Option<Wait>,
}

#[derive(Debug)]
struct Wait {
    continuation: Continuation,
    patience: Option<Pin<Box<Sleep>>>,
}

/// Ends the exchange with the response.
#[derive(Debug)]
pub(crate) struct EndOfExchange(Continuation);

/// The exchange has ended without the body.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the origin did not want the request's body")]
struct NotWanted;

impl Continuation {
    /// The body, which begins at its turn.
    pub(crate) fn hold<B>(&self, body: B) -> HeldBody<B> {
        HeldBody {
            body: Box::pin(body),
            wait: Some(Wait {
                continuation: self.clone(),
                patience: None,
            }),
        }
    }

    /// Listens to the origin's interim responses to a request.
    pub(crate) fn listen<B>(&self, request: &mut http::Request<B>) {
        let this = self.clone();
        hyper::ext::on_informational(request, move |response| {
            if response.status() == StatusCode::CONTINUE {
                this.change(Turn::Waiting, Turn::Asked);
            }
        });
    }

    /// Records that the final response has arrived; returns what ends the exchange if the body was not sent.
    pub(crate) fn answered(&self) -> Option<EndOfExchange> {
        self.change(Turn::Waiting, Turn::Answered)
            .then(|| EndOfExchange(self.clone()))
    }

    fn change(&self, from: Turn, to: Turn) -> bool {
        let mut state = self.0.lock();
        if state.turn != from {
            return false;
        }
        state.turn = to;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl<B> Body for HeldBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        if let Some(wait) = &mut self.wait {
            if let Err(error) = ready!(wait.poll_turn(cx)) {
                return Poll::Ready(Some(Err(error.into())));
            }
            self.wait = None;
        }
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Wait {
    /// Ready when the body may be sent.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), NotWanted>> {
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        let is_late = patience.as_mut().poll(cx).is_ready();
        let mut state = self.continuation.0.lock();
        match state.turn {
            Turn::Waiting if is_late => state.turn = Turn::Asked,
            Turn::Waiting | Turn::Answered => {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Turn::Asked => {}
            Turn::Over => return Poll::Ready(Err(NotWanted)),
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for EndOfExchange {
    fn drop(&mut self) {
        self.0.change(Turn::Answered, Turn::Over);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::time::Instant;

    use super::*;

    type Held = HeldBody<Full<Bytes>>;

    fn held(continuation: &Continuation) -> Held {
        continuation.hold(Full::from("body"))
    }

    fn poll(body: &mut Held, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(body)
            .poll_frame(cx)
            .map(|frame| frame.is_some_and(|frame| frame.is_ok()))
    }

    fn now(body: &mut Held) -> Poll<bool> {
        poll(body, &mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_until_it_is_asked_for_but_not_long() {
        let continuation = Continuation::default();
        let (mut asked, start) = (held(&continuation), Instant::now());
        assert_eq!(now(&mut asked), Poll::Pending);
        assert!(continuation.change(Turn::Waiting, Turn::Asked));
        assert_eq!(now(&mut asked), Poll::Ready(true));
        let mut unasked = held(&Continuation::default());
        assert!(poll_fn(|cx| poll(&mut unasked, cx)).await);
        assert_eq!(start.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_the_origin_does_not_want_is_never_sent() {
        let continuation = Continuation::default();
        let mut body = held(&continuation);
        assert_eq!(now(&mut body), Poll::Pending);
        let end = continuation.answered().unwrap();
        tokio::time::advance(10 * PATIENCE).await;
        assert_eq!(now(&mut body), Poll::Pending);
        drop(end);
        assert_eq!(now(&mut body), Poll::Ready(false));
        assert!(continuation.answered().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_on_its_way_goes_on_after_the_answer() {
        let continuation = Continuation::default();
        let mut body = held(&continuation);
        assert!(poll_fn(|cx| poll(&mut body, cx)).await);
        assert!(continuation.answered().is_none());
    }
}
