//! Messages as types. Only `envelope` encodes their payloads with bincode; `wire` contains the payloads that
//! differ from their messages.
use bincode::{Decode, Encode};
use longhaul_types::{ClientId, ContentHash};

use super::{
    bundle::{
        AcceleratedHosts, Ask, Dictionaries, Evicted, Forget, Forgotten, Holding, Manifest, Promised, Push,
        Used, Want,
    },
    hash_prefix::{ManifestId, ShortHash},
    headers::HeaderSet,
    id::{BoundConnectionId, CacheStateId, FetchId, PageId},
    origin_report::OriginReport,
};

/// Newest session version of this build.
pub const SESSION_VERSION: u16 = 2;

/// Range of session versions, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct VersionRange {
    /// Oldest version.
    pub oldest: u16,
    /// Newest version.
    pub newest: u16,
}

impl VersionRange {
    /// Versions that this build supports.
    pub const OURS: Self = Self {
        oldest: 2,
        newest: SESSION_VERSION,
    };

    /// The newest version that both ends support, if any.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

/// First message of an agent in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Session versions that the agent supports.
    pub versions: VersionRange,
    /// Software of the agent, for the operator, such as `longhaul-agent/0.1.0`.
    pub software: String,
    /// Link profile in the agent's configuration.
    pub link: Option<LinkHint>,
    /// State of the agent's cache; `None` while the cache contains nothing of interest to the gateway.
    pub cache_state: Option<CacheStateId>,
    /// Settings of the user.
    pub preferences: Preferences,
}

/// A configured link profile, as in [`longhaul_types::LinkProfile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LinkHint {
    /// Rate towards the agent in bit/s.
    pub down_bps: u64,
    /// Rate towards the gateway in bit/s.
    pub up_bps: u64,
    /// Round-trip time of the idle hop in ms.
    pub rtt_ms: u32,
}

/// Settings of the user, which the gateway applies to later requests of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Preferences {
    /// Width of the device's viewport in CSS pixels.
    pub viewport_width: u16,
    /// Height of the device's viewport in CSS pixels.
    pub viewport_height: u16,
    /// Device pixels per CSS pixel, in hundredths.
    pub pixel_ratio_percent: u16,
    /// Image level.
    pub images: ImageLevel,
    /// States if the agent accepts bodies in [`BodyCoding::Mix`].
    pub mixing: Mixing,
}

/// Acceptance of context-mixed bodies, which cost the agent memory and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Mixing {
    /// The gateway must not send context-mixed bodies.
    #[default]
    Refused,
    /// The gateway may send context-mixed bodies, in version 1 of mix.md.
    Accepted,
}

/// Quality of the images that a page displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum ImageLevel {
    /// Images as the origin sends them.
    #[default]
    Original,
    /// Differences are hard to find side by side.
    High,
    /// Differences are slight; images larger than the screen are scaled to it.
    Medium,
    /// Differences are visible, the content is clear; images larger than the screen are scaled to it.
    Low,
    /// No images until the user requests them.
    Text,
}

impl ImageLevel {
    /// All levels, from original images to none.
    pub const ALL: [Self; 5] = [Self::Original, Self::High, Self::Medium, Self::Low, Self::Text];

    /// Name of the level in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Text => "text",
        }
    }
}

impl Default for Preferences {
    /// 1366 x 768 at ratio 1 (the most common laptop), original images, no context mixing.
    fn default() -> Self {
        Self {
            viewport_width: 1366,
            viewport_height: 768,
            pixel_ratio_percent: 100,
            images: ImageLevel::Original,
            mixing: Mixing::Refused,
        }
    }
}

/// First message of a gateway in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the session from now on; `None` if there is no common version, and the gateway closes the
    /// session.
    pub version: Option<u16>,
    /// Versions that the gateway supports.
    pub versions: VersionRange,
    /// Software of the gateway.
    pub software: String,
    /// States if the gateway has the mirror of the agent's cache state.
    pub mirror: MirrorState,
}

/// Availability of the mirror of the cache state that the agent's `Hello` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum MirrorState {
    /// The gateway has the mirror.
    Agreed,
    /// The gateway does not know this cache state.
    Unknown,
}

/// A request method.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// OPTIONS
    Options,
    /// PATCH
    Patch,
    /// Any other token.
    Other(String),
}

/// Kind of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FetchKind {
    /// Navigation: a document that the browser displays.
    Page,
    /// An object of a page, or a request of unknown purpose.
    Object,
}

/// A request (RFC 9110) that the gateway is to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Number of the fetch.
    pub id: FetchId,
    /// Method.
    pub method: Method,
    /// Number of first bytes of the URL that equal those of the URL of the fetch that is the base of
    /// `headers`; 0 without base.
    pub url_shared: u16,
    /// Absolute URL without fragment, after the shared bytes.
    pub url: String,
    /// Fields of the request, without hop-by-hop fields.
    pub headers: HeaderSet,
    /// Page or object.
    pub kind: FetchKind,
    /// True if `Body` and windows follow on this stream.
    pub has_body: bool,
    /// For an object, the page load that it belongs to.
    pub page: Option<PageId>,
    /// CHK of the version of this URL that the agent holds.
    pub held: Option<ContentHash>,
    /// For a page, the id of the kept manifest of its previous load.
    pub manifest: Option<ManifestId>,
    /// For a page, if the gateway has no mirror: the bodies of that manifest that the agent holds.
    pub holding: Vec<ShortHash>,
    /// Permitted ways of the answer.
    pub delivery: Delivery,
    /// The browser's connection, if it uses connection-bound logins.
    pub connection: Option<BoundConnectionId>,
    /// Client that the agent serves: data stored for one client answers no other client.
    pub client: ClientId,
    /// Removes the partition: nothing private is looked up or stored, because a frame of another site may be
    /// the requester.
    pub unpartitioned: bool,
    /// Newest fetch whose `Head` the agent has received (section 5).
    pub seen: Option<FetchId>,
    /// Present if the fetch repeats an earlier request from an offset (section 6).
    pub resume: Option<Resume>,
}

/// Permitted ways of the answer to a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Delivery {
    /// `Promised` is permitted if an entry of a manifest matches.
    Any,
    /// On a response stream of its own.
    Own,
    /// On a response stream of its own and encoded without base, because the agent lacks the named base.
    Plain,
}

/// Position at which an interrupted body resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Decoded bytes that the agent has delivered.
    pub offset: u64,
    /// Validator of the first response.
    pub validator: Validator,
}

/// A validator of a response (RFC 9110 section 8.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag, with its quotes.
    EntityTag(String),
    /// Value of a Last-Modified field.
    LastModified(String),
    /// The CHK, known if the body was complete at the gateway.
    ContentHash(ContentHash),
}

/// Status and fields of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the fetch.
    pub fetch: FetchId,
    /// Status code, 200 to 599.
    pub status: u16,
    /// Fields of the response, without hop-by-hop fields.
    pub headers: HeaderSet,
    /// Location of the body.
    pub body: BodyPlace,
    /// CHK of the decoded body, if known in advance.
    pub content_hash: Option<ContentHash>,
}

/// Location of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BodyPlace {
    /// The response has no body.
    None,
    /// `Body` and windows follow on this stream.
    Follows,
    /// The agent holds the body with the head's content hash.
    Held,
}

/// Announces the windows of a body (docs/protocol/body.md).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Body {
    /// Coding of the windows.
    pub coding: BodyCoding,
    /// Decoded length, if known.
    pub length: Option<u64>,
    /// Decoded offset at which the windows start; 0 unless the body is resumed.
    pub offset: u64,
    /// Body that the agent holds and against which the windows are encoded; only towards the agent.
    pub base: Option<ShortHash>,
}

/// Coding of a body's windows on the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BodyCoding {
    /// Identity.
    Identity,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
    /// Context mixing (mix.md).
    Mix,
}

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
            Self::AddressRefused | Self::TargetRefused | Self::TlsDeniedKey => Fault::Policy,
            Self::BadUrl => Fault::Request,
            Self::TooEarly | Self::UnknownBase | Self::Malformed => Fault::Agent,
            Self::Overloaded | Self::Internal => Fault::Gateway,
        }
    }
}

/// Cancels a fetch or tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Cancel {
    /// Number of the fetch or tunnel.
    pub fetch: FetchId,
}

/// Opens a tunnel (CONNECT). Bytes that the browser has already sent follow on the stream.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelOpen {
    /// Number, from the same sequence as the fetches.
    pub id: FetchId,
    /// Host name or address literal, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Protection of the connection between gateway and host.
    pub security: TunnelSecurity,
}

/// Protection of a tunnel's bytes between gateway and host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum TunnelSecurity {
    /// Raw bytes of browser and host, unchanged.
    #[default]
    Untouched,
    /// Plaintext of a TLS connection (ALPN http/1.1) that the gateway opens and verifies as for fetches; used
    /// for upgraded connections of accelerated hosts.
    Tls,
}

/// The gateway has connected to the tunnel's host, whose bytes follow on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelAccept {
    /// Number of the tunnel.
    pub id: FetchId,
}

/// The gateway could not open the tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelFailed {
    /// Number of the tunnel.
    pub id: FetchId,
    /// Reason.
    pub reason: FailureReason,
    /// Details, as in [`Failed`].
    pub detail: String,
}

/// A text of the operator for the agent's user.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Notice {
    /// Plain text, at most 500 characters.
    pub text: String,
}

/// The gateway wants the agent to replace the key of its one-time invite (session.md section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct KeyWanted {}

/// The key that the agent has made for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NewKey {
    /// Static public key.
    pub key: [u8; 32],
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
}
