//! Registered error names for programs (RFC 9209 section 2.3).
use longhaul_session::FailureReason;

/// Returns the registered name for a reason.
pub(super) const fn name_of(reason: FailureReason) -> Option<&'static str> {
    use FailureReason as Why;
    Some(match reason {
        Why::DnsNotFound => "dns_error",
        // Readers interpret `dns_error` as a name that does not exist.
        Why::DnsFailed => "dns_timeout",
        Why::ConnectionRefused => "connection_refused",
        Why::Unreachable => "destination_ip_unroutable",
        Why::ConnectTimeout => "connection_timeout",
        Why::ResponseTimeout => "http_response_timeout",
        Why::TlsExpired | Why::TlsUnknownIssuer | Why::TlsNameMismatch | Why::TlsDeniedKey => {
            "tls_certificate_error"
        }
        Why::TlsOther | Why::TlsClientCertificate => "tls_protocol_error",
        Why::ConnectionReset => "connection_terminated",
        Why::MalformedResponse => "http_protocol_error",
        Why::HeaderTooLarge => "http_response_header_section_size",
        Why::AddressRefused => "destination_ip_prohibited",
        Why::TargetRefused | Why::QuotaReached => "http_request_denied",
        Why::BadUrl => "http_request_error",
        Why::Internal => "proxy_internal_error",
        // The registry has no names for errors between agent and gateway.
        Why::Changed | Why::Overloaded | Why::TooEarly | Why::UnknownBase | Why::Malformed => return None,
    })
}
