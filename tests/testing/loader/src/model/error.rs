//! Errors of pages that could not be loaded.
use std::time::Duration;

use http::StatusCode;

use super::{
    connection::Closed,
    dial::{DialError, ProxyError},
};

/// Errors of the page's own document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The URL has no host, or its scheme is neither http nor https.
    #[error("the page's URL has no host, or is neither http nor https")]
    Url,
    /// The page's host does not exist.
    #[error("the page cannot be loaded: {0}")]
    NameNotFound(String),
    /// The page's host could not be reached: by TCP, by TLS, or because the DNS server did not answer.
    #[error("the page cannot be loaded: {0}")]
    Connect(String),
    /// The proxy responded instead of the origin.
    #[error("the proxy answered {status} for the page: {reason}")]
    Proxy {
        /// Status of the proxy's response.
        status: StatusCode,
        /// Description by the proxy.
        reason: String,
    },
    /// The connection broke before the response, or violated HTTP.
    #[error("the page's host did not answer: {0}")]
    Http(String),
    /// There was no response within the time limit of the load.
    #[error("the page's host did not answer in {} s", .0.as_secs())]
    Time(Duration),
    /// The redirects exceed the limit.
    #[error("the page redirects more than {0} times in a row")]
    Redirects(usize),
    /// A redirect to a URL that is not http or https.
    #[error("the page redirects to a URL that is not http or https")]
    RedirectTarget,
}

/// Reasons of an object's failure.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Dial(#[from] DialError),
    #[error("{0}")]
    Closed(#[from] Closed),
    #[error("the proxy answered {status}: {description}")]
    Proxy {
        status: StatusCode,
        description: String,
        no_such_name: bool,
    },
    #[error("not loaded within the limit of {} s", .0.as_secs())]
    Time(Duration),
    #[error("the body is over the limit of {0} bytes")]
    TooLarge(u64),
    #[error("{0}")]
    Coding(String),
    #[error("more than {0} redirects in a row")]
    Redirects(usize),
    #[error("redirects to a URL that is not http or https")]
    RedirectTarget,
}

impl Failure {
    pub(super) fn of_proxy(status: StatusCode, error: ProxyError) -> Self {
        Self::Proxy {
            status,
            description: error.description,
            no_such_name: error.no_such_name,
        }
    }

    /// Returns true if the object is missing instead of failed: its name does not exist.
    pub(super) fn is_missing(&self) -> bool {
        match self {
            Self::Dial(error) => error.no_such_name(),
            Self::Proxy { no_such_name, .. } => *no_such_name,
            Self::Closed(_)
            | Self::Time(_)
            | Self::TooLarge(_)
            | Self::Coding(_)
            | Self::Redirects(_)
            | Self::RedirectTarget => false,
        }
    }

    /// Returns the error of a page whose own document failed for this reason.
    pub(super) fn of_page(self) -> ModelError {
        let text = self.to_string();
        match self {
            Self::Dial(DialError::Tunnel {
                status, description, ..
            }) => ModelError::Proxy {
                status,
                reason: description.unwrap_or_else(|| "it did not open a tunnel".to_owned()),
            },
            Self::Dial(error) if error.no_such_name() => ModelError::NameNotFound(text),
            Self::Dial(_) => ModelError::Connect(text),
            Self::Proxy {
                status, description, ..
            } => ModelError::Proxy {
                status,
                reason: description,
            },
            Self::Time(limit) => ModelError::Time(limit),
            Self::Redirects(limit) => ModelError::Redirects(limit),
            Self::RedirectTarget => ModelError::RedirectTarget,
            Self::Closed(_) | Self::TooLarge(_) | Self::Coding(_) => ModelError::Http(text),
        }
    }
}
