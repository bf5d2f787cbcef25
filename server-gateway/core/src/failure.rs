//! Failures reported to the agent.
use longhaul_origin::{FetchError, TlsDefect};
use longhaul_session::FailureReason;
use longhaul_webcache::FetchFailure;

/// Maximum length of the detail in characters (docs/protocol/session.md section 2).
const MAX_DETAIL: usize = 500;

/// The failure of a fetch or tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason that the agent receives.
    pub reason: FailureReason,
    /// Words for the user.
    pub detail: String,
}

impl Failure {
    /// A failure for this reason.
    pub fn new(reason: FailureReason, detail: impl ToString) -> Self {
        Self {
            reason,
            detail: detail.to_string().chars().take(MAX_DETAIL).collect(),
        }
    }
}

impl From<FetchFailure> for Failure {
    fn from(failure: FetchFailure) -> Self {
        let reason = match &failure {
            FetchFailure::Origin(error) => reason(error),
            FetchFailure::Informational(_)
            | FetchFailure::UnsupportedCoding(_)
            | FetchFailure::Codings(_) => FailureReason::MalformedResponse,
            FetchFailure::Interrupted => FailureReason::Internal,
        };
        Self::new(reason, &failure)
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::new(reason(&error), &error)
    }
}

fn reason(error: &FetchError) -> FailureReason {
    match error {
        FetchError::BadUrl(_) => FailureReason::BadUrl,
        FetchError::ConnectTimeout => FailureReason::ConnectTimeout,
        FetchError::DnsFailed(_) => FailureReason::DnsFailed,
        FetchError::DnsNotFound => FailureReason::DnsNotFound,
        FetchError::GuardRefused(_) => FailureReason::AddressRefused,
        FetchError::HeaderTooLarge => FailureReason::HeaderTooLarge,
        FetchError::Overloaded(_) | FetchError::Resources => FailureReason::Overloaded,
        FetchError::Protocol => FailureReason::MalformedResponse,
        FetchError::Refused => FailureReason::ConnectionRefused,
        FetchError::Reset => FailureReason::ConnectionReset,
        FetchError::ResponseTimeout => FailureReason::ResponseTimeout,
        FetchError::Tls(TlsDefect::Expired | TlsDefect::NotValidYet) => FailureReason::TlsExpired,
        FetchError::Tls(TlsDefect::NameMismatch) => FailureReason::TlsNameMismatch,
        FetchError::Tls(TlsDefect::UnknownIssuer) => FailureReason::TlsUnknownIssuer,
        FetchError::Tls(TlsDefect::ClientCertificate) => FailureReason::TlsClientCertificate,
        FetchError::Tls(TlsDefect::DeniedKey) => FailureReason::TlsDeniedKey,
        FetchError::Tls(_) => FailureReason::TlsOther,
        // A gateway uses no proxy.
        FetchError::Proxy(_) | FetchError::Unreachable => FailureReason::Unreachable,
        FetchError::Upload => FailureReason::Malformed,
        FetchError::Cancelled | _ => FailureReason::Internal,
    }
}

#[cfg(test)]
mod tests {
    use longhaul_origin::{BadUrl, DnsFailure, Limit};

    use super::*;

    #[test]
    fn failure_reasons_distinguish_certificate_defects() {
        for (error, expected) in [
            (FetchError::BadUrl(BadUrl::Scheme), FailureReason::BadUrl),
            (FetchError::DnsNotFound, FailureReason::DnsNotFound),
            (
                FetchError::DnsFailed(DnsFailure::Timeout),
                FailureReason::DnsFailed,
            ),
            (FetchError::Refused, FailureReason::ConnectionRefused),
            (FetchError::Tls(TlsDefect::NotValidYet), FailureReason::TlsExpired),
            (
                FetchError::Tls(TlsDefect::UnknownIssuer),
                FailureReason::TlsUnknownIssuer,
            ),
            (
                FetchError::Tls(TlsDefect::ClientCertificate),
                FailureReason::TlsClientCertificate,
            ),
            (FetchError::Tls(TlsDefect::DeniedKey), FailureReason::TlsDeniedKey),
            (FetchError::Tls(TlsDefect::NotTls), FailureReason::TlsOther),
            (FetchError::HeaderTooLarge, FailureReason::HeaderTooLarge),
            (FetchError::Overloaded(Limit::Host), FailureReason::Overloaded),
        ] {
            let failure = Failure::from(error.clone());
            assert_eq!(failure.reason, expected, "{error}");
            assert_eq!(failure.detail, error.to_string());
        }
        assert_eq!(
            Failure::new(FailureReason::Internal, "ä".repeat(600))
                .detail
                .chars()
                .count(),
            500
        );
    }
}
