//! The messages as types. Their payload encoding is bincode's, done in `envelope` alone.
use bincode::{Decode, Encode};
use longhaul_types::ClientId;

use super::{
    bundle::{
        AcceleratedHosts, Ask, Dictionaries, Evicted, Forget, Forgotten, Holding, Manifest, ManifestId,
        Promised, Push, ShortHash, Used, Want,
    },
    headers::HeaderSet,
};

/// The newest session version that this build speaks.
pub const SESSION_VERSION: u16 = 2;

/// Session versions that an end speaks, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct VersionRange {
    /// The oldest.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
}

impl VersionRange {
    /// What this build speaks.
    pub const OURS: Self = Self {
        oldest: 2,
        newest: SESSION_VERSION,
    };

    /// The newest version that both ends speak, if there is one.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

/// The first message of an agent in a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// Session versions that the agent speaks.
    pub versions: VersionRange,
    /// The agent's software, for the operator's eyes, such as `longhaul-agent/0.1.0`.
    pub software: String,
    /// The hop as the agent's user configured it.
    pub link: Option<LinkHint>,
    /// Identifies the state of the agent's cache; zero while it holds nothing that the gateway should know.
    pub cache_state: u64,
    /// What the user prefers.
    pub preferences: Preferences,
}

/// A configured link profile, as in [`longhaul_types::LinkProfile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LinkHint {
    /// Towards the agent, bit/s.
    pub down_bps: u64,
    /// Towards the gateway, bit/s.
    pub up_bps: u64,
    /// Round-trip time of the idle hop, ms.
    pub rtt_ms: u32,
}

/// What the user prefers; the gateway applies it to later requests of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Preferences {
    /// Width of the device's viewport in CSS pixels.
    pub viewport_width: u16,
    /// Height of the device's viewport in CSS pixels.
    pub viewport_height: u16,
    /// Device pixels per CSS pixel, in hundredths.
    pub pixel_ratio_percent: u16,
    /// The quality of pictures.
    pub images: ImageLevel,
    /// Whether the agent takes bodies in [`BodyCoding::Mix`].
    pub mixing: Mixing,
}

/// Whether an agent takes bodies that are coded by context mixing, which costs it memory and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Mixing {
    /// The gateway must not send any.
    #[default]
    Refused,
    /// The gateway may send them, in version 1 of mix.md.
    Accepted,
}

/// How near to the original pictures are that a page displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum ImageLevel {
    /// As the origin sends them.
    #[default]
    Original,
    /// Differences are hard to find side by side.
    High,
    /// Differences are slight; what is larger than the screen is scaled to it.
    Medium,
    /// Differences are plain, the content is clear; what is larger than the screen is scaled to it.
    Low,
    /// None until they are asked for.
    Text,
}

impl ImageLevel {
    /// All, from untouched to none.
    pub const ALL: [Self; 5] = [Self::Original, Self::High, Self::Medium, Self::Low, Self::Text];

    /// Its name in settings.
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
    /// 1366 x 768 at ratio 1, the most common laptop, pictures as they are, and the usual codings.
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

/// The first message of a gateway in a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Welcome {
    /// The version that both speak from now on; 0 when there is none, and the gateway closes the session.
    pub version: u16,
    /// Versions that the gateway speaks.
    pub versions: VersionRange,
    /// The gateway's software.
    pub software: String,
    /// Whether the gateway knows what the agent holds.
    pub mirror: MirrorState,
}

/// Whether the gateway knows what the agent's cache holds, in the state that the agent's `Hello` named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum MirrorState {
    /// It does.
    Agreed,
    /// It knows nothing of this state.
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

/// Why the browser wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FetchKind {
    /// A document that the user navigates to.
    Page,
    /// Something that a page needs, or nothing is known about it.
    Object,
}

/// A request (RFC 9110) to be fetched by the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Numbered upwards by the agent, from 1.
    pub id: u64,
    /// The method.
    pub method: Method,
    /// How many bytes at the front of the URL are those of the URL of the fetch that is the base of `headers`; 0 without
    /// base.
    pub url_shared: u16,
    /// The absolute URL, without fragment; what comes behind those bytes.
    pub url: String,
    /// The request's fields, hop-by-hop ones removed.
    pub headers: HeaderSet,
    /// Page or object.
    pub kind: FetchKind,
    /// Whether `Body` and windows follow on this stream.
    pub has_body: bool,
    /// For an object, the page load that it belongs to, by its fetch; 0 for none.
    pub page: u64,
    /// The CHK of the version of this URL that the agent holds.
    pub held: Option<[u8; 32]>,
    /// For a page, the manifest of its last load that the agent keeps.
    pub manifest: Option<ManifestId>,
    /// For a page, while the gateway does not know what the agent holds: what it holds of that manifest.
    pub holding: Vec<ShortHash>,
    /// How the answer may come.
    pub delivery: Delivery,
    /// The browser's connection, where logins are bound to connections (NTLM, Negotiate: RFC 4559); 0 elsewhere.
    pub connection: u64,
    /// Whom the agent serves by it: what is kept for one client answers no other.
    pub client: ClientId,
    /// Nothing private may be looked up or kept for it, beyond what its fields say: a frame of another site asks.
    pub unpartitioned: bool,
    /// The newest fetch whose `Head` the agent has (section 5); 0 for none.
    pub seen: u64,
    /// Set when this repeats an earlier request from an offset (section 6).
    pub resume: Option<Resume>,
}

/// How the answer to a fetch may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Delivery {
    /// By `Promised`, if a manifest promises it.
    Any,
    /// On a stream of its own.
    Own,
    /// On a stream of its own, and coded without a base: the agent lacks the one that was named.
    Plain,
}

/// Where to go on after a bad window.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Resume {
    /// Decoded bytes that the agent already delivered.
    pub offset: u64,
    /// The validator of the first response.
    pub validator: Validator,
}

/// A validator of a response (RFC 9110 section 8.8).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Validator {
    /// A strong entity tag, with its quotes.
    EntityTag(String),
    /// A Last-Modified field.
    LastModified(String),
    /// The CHK, known when the body had been complete at the gateway.
    ContentHash([u8; 32]),
}

/// The response's status and fields.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Head {
    /// The fetch that it answers.
    pub fetch: u64,
    /// The status code, 200 to 599.
    pub status: u16,
    /// The response's fields, hop-by-hop ones removed.
    pub headers: HeaderSet,
    /// Where the body is.
    pub body: BodyPlace,
    /// The CHK of the decoded body, where it is known beforehand.
    pub content_hash: Option<[u8; 32]>,
}

/// Where a response's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BodyPlace {
    /// There is none.
    None,
    /// `Body` and windows follow on this stream.
    Follows,
    /// The agent holds it: the one with the head's content hash.
    Held,
}

/// Announces the windows of a body (docs/protocol/body.md).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Body {
    /// How the windows are coded.
    pub coding: BodyCoding,
    /// The decoded length, where it is known.
    pub length: Option<u64>,
    /// Decoded offset at which the windows start; not 0 only when resumed.
    pub offset: u64,
    /// A body that the agent holds and that this one is coded against; only towards the agent.
    pub base: Option<ShortHash>,
}

/// The coding of a body's windows on the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum BodyCoding {
    /// As it is.
    Identity,
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// Context mixing (mix.md).
    Mix,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Fault {
    /// The request cannot be carried out as it stands.
    Request,
    /// The origin or its network.
    Origin,
    /// The gateway's operator forbids it.
    Policy,
    /// The gateway itself.
    Gateway,
    /// The agent broke the protocol.
    Agent,
}

/// A fetch that has no response.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Failed {
    /// The fetch that it answers.
    pub fetch: u64,
    /// What happened.
    pub reason: FailureReason,
    /// Details for the error page, at most 500 characters, without private data of others.
    pub detail: String,
}

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum FailureReason {
    /// The name does not exist.
    DnsNotFound,
    /// The name could not be looked up.
    DnsFailed,
    /// The origin refused the connection.
    ConnectionRefused,
    /// No route to the origin.
    Unreachable,
    /// The origin did not accept the connection in time.
    ConnectTimeout,
    /// The origin's certificate is expired or not yet valid.
    TlsExpired,
    /// The origin's certificate has an unknown issuer.
    TlsUnknownIssuer,
    /// The origin's certificate is for another name.
    TlsNameMismatch,
    /// Another TLS failure.
    TlsOther,
    /// The origin did not answer in time.
    ResponseTimeout,
    /// The origin broke the connection before its response.
    ConnectionReset,
    /// The origin's answer is not HTTP.
    MalformedResponse,
    /// The origin's header section is too large.
    HeaderTooLarge,
    /// The address is private or otherwise refused by the operator.
    AddressRefused,
    /// The port or scheme is refused by the operator.
    TargetRefused,
    /// The URL cannot be fetched.
    BadUrl,
    /// Not allowed in early data: repeat it in the open session.
    TooEarly,
    /// The header set's base is not known: repeat it with full fields.
    UnknownBase,
    /// The resource changed since the response that is to be resumed.
    Changed,
    /// The gateway is out of a resource.
    Overloaded,
    /// The request broke the session protocol.
    Malformed,
    /// The gateway failed.
    Internal,
    /// The origin asks for a certificate of the client, which nobody but the browser can give. Nothing was asked of it.
    TlsClientCertificate,
    /// A key of the origin's certificate's chain is on the operator's list of denied keys.
    TlsDeniedKey,
}

impl FailureReason {
    /// Whose fault it is.
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

/// The agent no longer wants a fetch or tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Cancel {
    /// The fetch or tunnel.
    pub fetch: u64,
}

/// Opens a tunnel (CONNECT). Bytes that the browser already sent follow on the stream.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelOpen {
    /// Numbered together with the fetches.
    pub id: u64,
    /// Host name or address literal, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether the gateway speaks TLS with the host.
    pub security: TunnelSecurity,
}

/// What a tunnel's bytes are between gateway and host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum TunnelSecurity {
    /// What the browser says and hears, untouched.
    #[default]
    Untouched,
    /// The contents of a TLS connection, HTTP/1.1 by its ALPN, that the gateway opens and verifies as it does for fetches:
    /// for the upgraded connections of accelerated hosts.
    Tls,
}

/// The tunnel's host is connected; its bytes follow on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelAccept {
    /// The tunnel.
    pub id: u64,
}

/// The tunnel could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TunnelFailed {
    /// The tunnel.
    pub id: u64,
    /// What happened.
    pub reason: FailureReason,
    /// Details, as in [`Failed`].
    pub detail: String,
}

/// Something that the operator tells the agent's user.
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
}
