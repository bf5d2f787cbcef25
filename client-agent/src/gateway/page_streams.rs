//! The receiver of the gateway's streams and events that belong to page loads.
use std::{fmt, pin::Pin};

use longhaul_session::{Manifest, OriginReport, Push};

use super::answer::ResponseStream;
use crate::session_serial::SessionSerial;

/// First message of a stream that belongs to a page load.
#[derive(Clone, Debug)]
pub enum PageStream {
    /// The stream contains a manifest.
    Manifest(Manifest),
    /// The stream contains a pushed body.
    Push(Push),
}

/// Reads one stream to its end.
pub type PageStreamTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Receiver of the streams and events of page loads. The session itself knows nothing else of page loads.
pub trait PageStreams: fmt::Debug + Send + Sync {
    /// Returns the task that reads a stream of session `session`.
    fn read(&self, session: SessionSerial, first: PageStream, stream: ResponseStream) -> PageStreamTask;

    /// Called when the gateway does not have the agent's mirror.
    fn mirror_is_unknown(&self, session: SessionSerial);

    /// Called when the gateway reports what origins sent.
    fn origin_report(&self, session: SessionSerial, report: &OriginReport);

    /// Called when a session has ended.
    fn session_lost(&self, session: SessionSerial);
}
