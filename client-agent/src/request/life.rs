//! The phases of a request.
use std::{future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Request, Response, header};
use http_body_util::Either;
use hyper::body::Incoming;
use longhaul_driver::CloseReason;
use longhaul_http::method::Repeatability;
use longhaul_origin::{FetchError, OriginBody};
use longhaul_protocol::session::FailureReason;
use longhaul_types::{BitRate, Pii};
use tracing::debug;

use super::{
    Context, Exit,
    draft::Draft,
    response,
    upload::{SharedUpload, Transmission, UploadError, UploadTraits},
};
use crate::{
    direct,
    fallback::FallbackClock,
    pages::{BadRequest, Failure, Lost},
    session::{Arrival, BasePolicy, Exchange, Hop, HopError, Need, Timing},
};

/// How often a request is repeated after it was in an open session. Sessions that end so often will not carry it.
const MAX_REPEATS: u8 = 3;

/// A request on its way.
pub(super) struct Life {
    context: Arc<Context>,
    draft: Draft,
    upload: Option<SharedUpload>,
    policy: BasePolicy,
    repeats: u8,
    fallback: FallbackClock,
}

/// Where a request stands.
enum Phase {
    /// For a session, or for the time to go around the gateway.
    Waiting,
    /// In a session, for the gateway's answer.
    Sent(Arc<Hop>, Timing),
    /// Around the gateway.
    Direct,
    /// At its end.
    Over(Exit),
}

type DirectFetch = Pin<Box<dyn Future<Output = Result<Response<OriginBody>, FetchError>> + Send>>;

/// What happened first while the gateway's answer is awaited.
enum Event {
    Arrival(Result<Arrival, CloseReason>),
    Sent(Result<(), UploadError>),
    Direct(Result<Response<OriginBody>, FetchError>),
    FallbackDue,
}

impl Life {
    /// A request from the browser.
    pub(super) fn new(context: &Arc<Context>, request: Request<Incoming>) -> Result<Self, BadRequest> {
        let (parts, incoming) = request.into_parts();
        let draft = Draft::of(parts, &incoming)?;
        let upload = draft.fetch.has_body.then(|| SharedUpload::new(incoming));
        Ok(Self {
            context: Arc::clone(context),
            draft,
            upload,
            policy: BasePolicy::Best,
            repeats: 0,
            fallback: FallbackClock::start(context.gateway.clone(), context.fallback),
        })
    }

    /// Leads it to its end.
    pub(super) async fn run(mut self) -> Exit {
        let gateway = self.context.gateway.clone();
        let _demand = gateway.demand();
        let mut phase = Phase::Waiting;
        loop {
            phase = match phase {
                Phase::Waiting => self.wait().await,
                Phase::Sent(hop, timing) => self.send(hop, timing).await,
                Phase::Direct => self.go_direct().await,
                Phase::Over(exit) => return exit,
            };
        }
    }

    async fn wait(&self) -> Phase {
        tokio::select! {
            biased;
            (hop, timing) = self.context.gateway.usable(self.draft.need) => Phase::Sent(hop, timing),
            () = self.fallback.due() => Phase::Direct,
            failure = self.fallback.hopeless() => Phase::Over(Exit::without_response(failure)),
        }
    }

    async fn send(&mut self, hop: Arc<Hop>, timing: Timing) -> Phase {
        let (mut exchange, fetch) = match hop.code(&self.draft.fetch, None, self.policy) {
            Ok(coded) => coded,
            Err(error) => return self.not_sent(&error),
        };
        let mut transmission = Some(self.transmission(&hop, timing, fetch));
        let mut direct: Option<DirectFetch> = None;
        loop {
            let event = tokio::select! {
                biased;
                arrival = exchange.arrival() => Event::Arrival(arrival),
                sent = run(&mut transmission) => Event::Sent(sent),
                answer = run(&mut direct) => Event::Direct(answer),
                () = self.fallback.due(), if direct.is_none() && self.is_repeatable_now() => Event::FallbackDue,
            };
            match event {
                Event::Arrival(Ok(arrival)) => {
                    if let (Some(rest), Arrival::Head { .. }) = (transmission, &arrival) {
                        // The origin answers before it has all of the body: the rest still goes.
                        tokio::spawn(rest);
                    }
                    return self.arrived(arrival, exchange, timing).await;
                }
                Event::Arrival(Err(reason)) => {
                    debug!(%reason, "session lost with a request under way");
                    return self.lost(&reason);
                }
                Event::Sent(sent) => {
                    transmission = None;
                    match sent {
                        Ok(()) | Err(UploadError::Stream(_)) => {}
                        Err(UploadError::NotSent(error)) => return self.not_sent(&error),
                        Err(UploadError::Browser | UploadError::Coding) => {
                            return Phase::Over(Exit::without_response(Failure::Request(BadRequest::Upload)));
                        }
                    }
                }
                Event::FallbackDue => direct = Some(self.direct_fetch()),
                Event::Direct(Ok(answer)) => {
                    return Phase::Over(Exit::Direct(response::of_origin(answer, &self.draft.method)));
                }
                Event::Direct(Err(error)) if direct::is_offline(&error) => {
                    self.fallback.failed(error);
                    direct = None;
                }
                Event::Direct(Err(error)) => {
                    return Phase::Over(Exit::without_response(Failure::Direct(error)));
                }
            }
        }
    }

    /// Whether a request that is in a session already may go another way as well.
    fn is_repeatable_now(&self) -> bool {
        self.draft.repeatability == Repeatability::Safe && self.upload.is_none()
    }

    fn transmission(
        &self,
        hop: &Arc<Hop>,
        timing: Timing,
        fetch: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<(), UploadError>> + Send>> {
        let way = Transmission {
            hop: Arc::clone(hop),
            class: self.draft.class,
            timing,
            fetch,
        };
        let Some(upload) = self.upload.clone() else {
            return Box::pin(way.bodyless());
        };
        let coded = self.draft.headers.contains_key(header::CONTENT_ENCODING);
        let content_type = self.draft.headers.get(header::CONTENT_TYPE).filter(|_| !coded);
        let traits = UploadTraits {
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
            length: self.draft.length,
            rate: uplink_rate(hop),
        };
        let context = Arc::clone(&self.context);
        Box::pin(async move {
            let sent = way.with_body(upload.clone(), traits).await;
            context.counters.upload_bytes.add(upload.taken());
            sent
        })
    }

    /// Nothing of the request was sent.
    fn not_sent(&self, error: &HopError) -> Phase {
        let bad = match error {
            HopError::Lost(_) if self.rewind() => return Phase::Waiting,
            HopError::Lost(_) => return Phase::Over(Exit::without_response(Failure::Lost(Lost::BodyGone))),
            HopError::HeaderTooLarge => BadRequest::HeaderTooLarge,
            HopError::Busy => BadRequest::Overloaded,
        };
        Phase::Over(Exit::without_response(Failure::Request(bad)))
    }

    fn rewind(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.rewind().is_ok())
    }

    /// The session ended before the answer came.
    fn lost(&mut self, reason: &CloseReason) -> Phase {
        let failure = if self.draft.repeatability != Repeatability::Safe {
            Lost::PerhapsSent
        } else if !self.rewind() {
            Lost::BodyGone
        } else if self.repeats >= MAX_REPEATS {
            Lost::TooOften
        } else {
            // Attempts to reach a gateway, which the agent itself ends, are not counted.
            if !matches!(reason, CloseReason::Local { .. }) {
                self.repeats += 1;
                self.context.counters.repeated.one();
            }
            return Phase::Waiting;
        };
        Phase::Over(Exit::without_response(Failure::Lost(failure)))
    }

    async fn arrived(&mut self, arrival: Arrival, exchange: Exchange, timing: Timing) -> Phase {
        const TOO_EARLY: u16 = 425;
        let failure = match arrival {
            Arrival::Head {
                status: TOO_EARLY, ..
            } if timing == Timing::Early => return self.outside_early_data(),
            Arrival::Head {
                status,
                fields,
                has_body,
                content_hash,
                stream,
            } => {
                let head = response::Head {
                    status,
                    fields,
                    has_body,
                    content_hash,
                };
                let hop = Arc::clone(exchange.hop());
                match response::of_gateway(&self.context, head, stream, hop, &self.draft).await {
                    Some(response) => return Phase::Over(Exit::Forwarded(response)),
                    None => malformed_answer(),
                }
            }
            Arrival::Failed {
                reason: FailureReason::TooEarly,
                ..
            } if self.repeats < MAX_REPEATS && self.rewind() => {
                return self.outside_early_data();
            }
            Arrival::Failed {
                reason: FailureReason::UnknownBase,
                ..
            } if self.policy == BasePolicy::Best => {
                if !self.rewind() {
                    return Phase::Over(Exit::without_response(Failure::Lost(Lost::BodyGone)));
                }
                self.policy = BasePolicy::None;
                self.context.counters.repeated.one();
                return Phase::Waiting;
            }
            Arrival::Failed { reason, detail } => Failure::Gateway { reason, detail },
            Arrival::Tunnel(_) | Arrival::Malformed => malformed_answer(),
        };
        Phase::Over(Exit::without_response(failure))
    }

    fn outside_early_data(&mut self) -> Phase {
        self.draft.need = Need::Open;
        self.repeats += 1;
        self.context.counters.repeated.one();
        Phase::Waiting
    }

    async fn go_direct(&mut self) -> Phase {
        debug!(url = ?Pii(&self.draft.uri), "no gateway answers; going around it");
        match self.direct_fetch().await {
            Ok(answer) => Phase::Over(Exit::Direct(response::of_origin(answer, &self.draft.method))),
            // It looks as if this machine were offline: the gateway may be back first.
            Err(error) if direct::is_offline(&error) && self.rewind() => {
                self.fallback.failed(error);
                Phase::Waiting
            }
            Err(error) => Phase::Over(Exit::without_response(Failure::Direct(error))),
        }
    }

    fn direct_fetch(&self) -> DirectFetch {
        let body = self
            .upload
            .clone()
            .map_or_else(|| Either::Left(http_body_util::Empty::new()), Either::Right);
        let mut request = Request::new(body);
        *request.method_mut() = self.draft.method.clone();
        *request.uri_mut() = self.draft.uri.clone();
        *request.headers_mut() = direct_headers(&self.draft);
        let client = self.context.direct.clone();
        Box::pin(async move { client.fetch(request).await })
    }
}

/// The length is the body's to tell.
fn direct_headers(draft: &Draft) -> HeaderMap {
    let mut headers = draft.headers.clone();
    if draft.length.is_none() || !draft.fetch.has_body {
        headers.remove(header::CONTENT_LENGTH);
    }
    headers
}

fn malformed_answer() -> Failure {
    Failure::Gateway {
        reason: FailureReason::Malformed,
        detail: "the gateway's answer makes no sense".to_owned(),
    }
}

/// What uploads can count on: what the gateway grants this end.
fn uplink_rate(hop: &Hop) -> Option<BitRate> {
    Some(hop.stats().send_rate).filter(|rate| *rate != BitRate::default())
}

/// Drives a future that may be absent; for ever without one.
async fn run<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
