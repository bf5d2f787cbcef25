//! Payloads of `Hello` and `Welcome`.
use bincode::{Decode, Encode};

use crate::{
    hello::{Hello, LinkHint, MirrorState, VersionRange, Welcome},
    id::CacheStateId,
    preferences::Preferences,
};

/// Payload of a `Hello`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct HelloPayload {
    versions: VersionRange,
    software: String,
    link: Option<LinkHint>,
    /// 0 for none.
    cache_state: u64,
    preferences: Preferences,
}

impl From<&Hello> for HelloPayload {
    fn from(hello: &Hello) -> Self {
        Self {
            versions: hello.versions,
            software: hello.software.clone(),
            link: hello.link,
            cache_state: hello.cache_state.map_or(0, CacheStateId::number),
            preferences: hello.preferences,
        }
    }
}

impl From<HelloPayload> for Hello {
    fn from(payload: HelloPayload) -> Self {
        Self {
            versions: payload.versions,
            software: payload.software,
            link: payload.link,
            cache_state: CacheStateId::new(payload.cache_state),
            preferences: payload.preferences,
        }
    }
}

/// Payload of a `Welcome`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct WelcomePayload {
    /// 0 for none.
    version: u16,
    versions: VersionRange,
    software: String,
    mirror: MirrorState,
}

impl From<&Welcome> for WelcomePayload {
    fn from(welcome: &Welcome) -> Self {
        Self {
            version: welcome.version.unwrap_or(0),
            versions: welcome.versions,
            software: welcome.software.clone(),
            mirror: welcome.mirror,
        }
    }
}

impl From<WelcomePayload> for Welcome {
    fn from(payload: WelcomePayload) -> Self {
        Self {
            version: (payload.version != 0).then_some(payload.version),
            versions: payload.versions,
            software: payload.software,
            mirror: payload.mirror,
        }
    }
}
