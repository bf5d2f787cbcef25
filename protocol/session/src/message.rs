//! Messages as types. Only `envelope` encodes their payloads with bincode; `wire` contains the payloads that
//! differ from their messages.
use bincode::{Decode, Encode};

use crate::{
    announcement::Announcement,
    association::{AssociationAccept, AssociationOpen},
    bundle::{
        AcceleratedHosts, Ask, Dictionaries, Evicted, Forget, Forgotten, Holding, Manifest, Promised, Push,
        Used, Want,
    },
    failure::Failed,
    fetch::{Cancel, Continue, Fetch},
    hello::{Hello, Welcome},
    key_replacement::{KeyWanted, NewKey},
    origin_report::OriginReport,
    preferences::{Preferences, SiteImages},
    response::{Body, Head},
    tunnel::{TunnelAccept, TunnelFailed, TunnelOpen},
};

/// A text of the operator for the agent's user.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Notice {
    /// Plain text, at most 500 characters.
    pub text: String,
}

/// Any message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant carries the message of its name")]
pub enum Message {
    Hello(Hello),
    Welcome(Welcome),
    Fetch(Fetch),
    Head(Head),
    Body(Body),
    Failed(Failed),
    Cancel(Cancel),
    TunnelOpen(TunnelOpen),
    TunnelAccept(TunnelAccept),
    TunnelFailed(TunnelFailed),
    Notice(Notice),
    Manifest(Manifest),
    Push(Push),
    Promised(Promised),
    Want(Want),
    Ask(Ask),
    Used(Used),
    Evicted(Evicted),
    Holding(Holding),
    Preferences(Preferences),
    Dictionaries(Dictionaries),
    AcceleratedHosts(AcceleratedHosts),
    Forget(Forget),
    Forgotten(Forgotten),
    KeyWanted(KeyWanted),
    NewKey(NewKey),
    OriginReport(OriginReport),
    Announcement(Announcement),
    AssociationOpen(AssociationOpen),
    AssociationAccept(AssociationAccept),
    SiteImages(SiteImages),
    Continue(Continue),
}
