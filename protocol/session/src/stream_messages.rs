//! The messages of each kind of stream, by direction (docs/protocol/session.md section 2). A message elsewhere is
//! unexpected.
use crate::{
    announcement::Announcement,
    association::{AssociationAccept, AssociationOpen},
    bundle::{
        AcceleratedHosts, Ask, Dictionaries, Evicted, Forget, Forgotten, Holding, Manifest, Promised, Push,
        Used, Want,
    },
    failure::Failed,
    fetch::{Cancel, Continue, Fetch},
    hello::Welcome,
    key_replacement::KeyWanted,
    message::{Message, Notice},
    origin_report::OriginReport,
    preferences::{Preferences, SiteImages},
    response::Head,
    tunnel::{TunnelAccept, TunnelFailed, TunnelOpen},
};

/// Defines the messages that have a place on a kind of stream.
macro_rules! stream_messages {
    ($(#[$meaning:meta])* $name:ident: $($message:ident)+) => {
        $(#[$meaning])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant carries the message of its name")]
        #[allow(clippy::large_enum_variant, reason = "a message is moved once, to what serves it")]
        pub enum $name {
            $($message($message),)+
        }

        impl $name {
            /// Returns the message, if it has a place there.
            pub fn of(message: Message) -> Option<Self> {
                $(if let Message::$message(message) = message {
                    return Some(Self::$message(message));
                })+
                None
            }
        }
    };
}

stream_messages! {
    /// The first message of a stream of the agent other than its control stream: a request.
    RequestMessage: Fetch TunnelOpen AssociationOpen
}

stream_messages! {
    /// The first message of a stream of the gateway.
    GatewayStream: Welcome Head Failed TunnelAccept TunnelFailed AssociationAccept Manifest Push Continue Promised
}

stream_messages! {
    /// A message of the agent's control stream after `Hello`.
    AgentControl: Cancel Want Ask Used Evicted Holding Preferences Dictionaries AcceleratedHosts SiteImages Forget
}

stream_messages! {
    /// A message of the gateway's control stream after `Welcome`.
    GatewayControl: Notice Forgotten KeyWanted Announcement OriginReport
}
