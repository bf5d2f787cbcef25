//! The reply to a request that failed.
use longhaul_origin::FetchError;
use longhaul_session::FailureReason;

use super::messages::Reply;
use crate::pages::{BadRequest, Failure};

/// The code that says most of what is known about a failure.
pub(super) fn of(failure: &Failure) -> Reply {
    match failure {
        Failure::Request(BadRequest::Target(_)) => Reply::HostUnreachable,
        Failure::Gateway { reason, .. } => of_gateway(*reason),
        Failure::NoGateway {
            direct: Some(error), ..
        }
        | Failure::Direct { error, .. }
        | Failure::Local(error) => of_direct(error),
        Failure::NoGateway { direct: None, .. } => Reply::NetworkUnreachable,
        Failure::Request(_) | Failure::Refused(_) | Failure::Lost(_) => Reply::Failed,
    }
}

fn of_gateway(reason: FailureReason) -> Reply {
    use FailureReason as R;
    if matches!(reason, R::AddressRefused | R::TargetRefused) {
        Reply::NotAllowed
    } else if reason == R::ConnectionRefused {
        Reply::ConnectionRefused
    } else if reason == R::Unreachable {
        Reply::NetworkUnreachable
    } else if matches!(reason, R::DnsNotFound | R::DnsFailed | R::ConnectTimeout) {
        Reply::HostUnreachable
    } else {
        Reply::Failed
    }
}

const fn of_direct(error: &FetchError) -> Reply {
    use FetchError as E;
    if matches!(error, E::GuardRefused(_)) {
        Reply::NotAllowed
    } else if matches!(error, E::Refused) {
        Reply::ConnectionRefused
    } else if matches!(error, E::Unreachable) {
        Reply::NetworkUnreachable
    } else if matches!(error, E::DnsNotFound | E::DnsFailed(_) | E::ConnectTimeout) {
        Reply::HostUnreachable
    } else {
        Reply::Failed
    }
}
