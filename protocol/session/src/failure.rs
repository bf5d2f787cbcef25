//! Answers without response: the reason, and the responsible party.
use bincode::{Decode, Encode};

use crate::id::FetchId;

/// Error code with which a gateway cancels a stream because the quota of its device is reached
/// (docs/protocol/session.md section 2).
pub const ERROR_QUOTA: u64 = 4;

/// Party that is responsible for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Fault {
    /// The request, which cannot be carried out as it is.
    Request,
    /// The origin or its network.
    Origin,
    /// A rule of the gateway's operator.
    Policy,
    /// The gateway.
    Gateway,
    /// The agent, which violated the protocol.
    Agent,
}

/// Answer to a fetch without response.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Failed {
    /// Number of the fetch.
    pub fetch: FetchId,
    /// Reason.
    pub reason: FailureReason,
    /// Details for the error page, at most 500 characters, without private data of other users.
    pub detail: String,
}

/// Reason for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FailureReason {
    /// The name does not exist.
    DnsNotFound,
    /// The name could not be resolved.
    DnsFailed,
    /// The origin refused the connection.
    ConnectionRefused,
    /// There is no route to the origin.
    Unreachable,
    /// The origin did not accept the connection in time.
    ConnectTimeout,
    /// The origin's certificate has expired or is not yet valid.
    TlsExpired,
    /// The origin's certificate has an unknown issuer.
    TlsUnknownIssuer,
    /// The origin's certificate is for another name.
    TlsNameMismatch,
    /// Another TLS failure.
    TlsOther,
    /// The origin did not answer in time.
    ResponseTimeout,
    /// The origin closed the connection before its response.
    ConnectionReset,
    /// The origin's answer is not HTTP.
    MalformedResponse,
    /// The origin's header section is too large.
    HeaderTooLarge,
    /// The address is private or otherwise refused by the operator.
    AddressRefused,
    /// The operator refuses the port or scheme.
    TargetRefused,
    /// The URL cannot be fetched.
    BadUrl,
    /// Not permitted in early data: the agent repeats the request in the open session.
    TooEarly,
    /// The header set's base is unknown: the agent repeats the request with all fields.
    UnknownBase,
    /// The resource changed since the response that is to be resumed.
    Changed,
    /// The gateway lacks a resource.
    Overloaded,
    /// The request violated the session protocol.
    Malformed,
    /// The gateway failed.
    Internal,
    /// The origin requests a client certificate, which only the browser can provide. The gateway sent no
    /// request.
    TlsClientCertificate,
    /// A key of the origin's certificate chain is on the operator's list of denied keys.
    TlsDeniedKey,
    /// The device has transferred as many bytes this month as the operator permits.
    QuotaReached,
}

impl FailureReason {
    /// Returns the responsible party.
    pub const fn fault(self) -> Fault {
        match self {
            Self::DnsNotFound
            | Self::DnsFailed
            | Self::ConnectionRefused
            | Self::Unreachable
            | Self::ConnectTimeout
            | Self::TlsExpired
            | Self::TlsUnknownIssuer
            | Self::TlsNameMismatch
            | Self::TlsOther
            | Self::TlsClientCertificate
            | Self::ResponseTimeout
            | Self::ConnectionReset
            | Self::MalformedResponse
            | Self::HeaderTooLarge
            | Self::Changed => Fault::Origin,
            Self::AddressRefused | Self::TargetRefused | Self::TlsDeniedKey | Self::QuotaReached => {
                Fault::Policy
            }
            Self::BadUrl => Fault::Request,
            Self::TooEarly | Self::UnknownBase | Self::Malformed => Fault::Agent,
            Self::Overloaded | Self::Internal => Fault::Gateway,
        }
    }

    /// Returns true if the failure would repeat for each request to the same scheme, host and port. Timeouts and
    /// interrupted connections may concern one request only.
    pub const fn concerns_host(self) -> bool {
        match self {
            Self::DnsNotFound
            | Self::ConnectionRefused
            | Self::TlsExpired
            | Self::TlsUnknownIssuer
            | Self::TlsNameMismatch
            | Self::TlsDeniedKey
            | Self::AddressRefused
            | Self::TargetRefused => true,
            Self::DnsFailed
            | Self::Unreachable
            | Self::ConnectTimeout
            | Self::TlsOther
            | Self::TlsClientCertificate
            | Self::ResponseTimeout
            | Self::ConnectionReset
            | Self::MalformedResponse
            | Self::HeaderTooLarge
            | Self::BadUrl
            | Self::TooEarly
            | Self::UnknownBase
            | Self::Changed
            | Self::Overloaded
            | Self::QuotaReached
            | Self::Malformed
            | Self::Internal => false,
        }
    }

    /// Returns true if the gateway had no connection to the host, so that the fields of the request did not matter.
    pub const fn precedes_request(self) -> bool {
        self.concerns_host() || matches!(self, Self::DnsFailed | Self::Unreachable | Self::ConnectTimeout)
    }
}
