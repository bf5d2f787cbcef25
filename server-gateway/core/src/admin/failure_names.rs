//! Names of failure reasons in metrics.
use longhaul_session::FailureReason;

/// All reasons.
pub const FAILURE_REASONS: [FailureReason; 25] = [
    FailureReason::DnsNotFound,
    FailureReason::DnsFailed,
    FailureReason::ConnectionRefused,
    FailureReason::Unreachable,
    FailureReason::ConnectTimeout,
    FailureReason::TlsExpired,
    FailureReason::TlsUnknownIssuer,
    FailureReason::TlsNameMismatch,
    FailureReason::TlsOther,
    FailureReason::ResponseTimeout,
    FailureReason::ConnectionReset,
    FailureReason::MalformedResponse,
    FailureReason::HeaderTooLarge,
    FailureReason::AddressRefused,
    FailureReason::TargetRefused,
    FailureReason::BadUrl,
    FailureReason::TooEarly,
    FailureReason::UnknownBase,
    FailureReason::Changed,
    FailureReason::Overloaded,
    FailureReason::Malformed,
    FailureReason::Internal,
    FailureReason::TlsClientCertificate,
    FailureReason::TlsDeniedKey,
    FailureReason::QuotaReached,
];

/// The name of a reason.
pub const fn name_of(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::DnsNotFound => "dns_not_found",
        FailureReason::DnsFailed => "dns_failed",
        FailureReason::ConnectionRefused => "connection_refused",
        FailureReason::Unreachable => "unreachable",
        FailureReason::ConnectTimeout => "connect_timeout",
        FailureReason::TlsExpired => "tls_expired",
        FailureReason::TlsUnknownIssuer => "tls_unknown_issuer",
        FailureReason::TlsNameMismatch => "tls_name_mismatch",
        FailureReason::TlsOther => "tls_other",
        FailureReason::ResponseTimeout => "response_timeout",
        FailureReason::ConnectionReset => "connection_reset",
        FailureReason::MalformedResponse => "malformed_response",
        FailureReason::HeaderTooLarge => "header_too_large",
        FailureReason::AddressRefused => "address_refused",
        FailureReason::TargetRefused => "target_refused",
        FailureReason::BadUrl => "bad_url",
        FailureReason::TooEarly => "too_early",
        FailureReason::UnknownBase => "unknown_base",
        FailureReason::Changed => "changed",
        FailureReason::Overloaded => "overloaded",
        FailureReason::Malformed => "malformed",
        FailureReason::Internal => "internal",
        FailureReason::TlsClientCertificate => "tls_client_certificate",
        FailureReason::TlsDeniedKey => "tls_denied_key",
        FailureReason::QuotaReached => "quota_reached",
    }
}
