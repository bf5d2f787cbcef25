//! The request whose response comes next: what decides about the end of the response.
use std::sync::atomic::{
    AtomicU8,
    Ordering::{AcqRel, Release},
};

use http::{Method, Request, header::UPGRADE};
use longhaul_http::client_software::is_browser;

/// The request whose response the reader expects next. Shared with the sender of requests.
#[derive(Debug, Default)]
pub struct ExpectedResponse(AtomicU8);

/// What decides about the end of a response, of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedRequest {
    pub(super) kind: RequestKind,
    /// The client is no browser.
    pub(super) is_of_program: bool,
}

/// Kinds of requests whose responses end differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// HEAD: the response has no body.
    Head,
    /// The connection may change to another protocol.
    Upgrade,
    Other,
}

impl ExpectedResponse {
    const NONE: u8 = 0;
    const OTHER: u8 = 1;
    const HEAD: u8 = 2;
    const UPGRADE: u8 = 3;
    /// Added to the kind if the client is no browser.
    const OF_PROGRAM: u8 = 4;

    /// A request is about to be written to the connection.
    pub fn set<B>(&self, request: &Request<B>) {
        let kind = match *request.method() {
            Method::HEAD => Self::HEAD,
            _ if request.headers().contains_key(UPGRADE) => Self::UPGRADE,
            _ => Self::OTHER,
        };
        let client = if is_browser(request.headers()) {
            0
        } else {
            Self::OF_PROGRAM
        };
        self.0.store(kind | client, Release);
    }

    /// Takes the request, if there is one.
    pub(super) fn take(&self) -> Option<ExpectedRequest> {
        let taken = self.0.swap(Self::NONE, AcqRel);
        let kind = match taken & !Self::OF_PROGRAM {
            Self::NONE => return None,
            Self::HEAD => RequestKind::Head,
            Self::UPGRADE => RequestKind::Upgrade,
            _ => RequestKind::Other,
        };
        Some(ExpectedRequest {
            kind,
            is_of_program: taken & Self::OF_PROGRAM != 0,
        })
    }
}
