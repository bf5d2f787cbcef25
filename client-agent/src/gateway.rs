//! The session with the gateway: one task ([`Gateway::start`]) opens a session at the start and after each
//! loss, and publishes the state; requests get the session ([`GatewaySession`]) from it. The streams of page
//! loads go to a [`PageStreams`]. `portal` looks for captive portals, and `announced` stores what the gateway says of itself.
mod address_order;
mod announced;
mod answer;
mod association;
mod associations;
mod carriers;
mod check;
mod codings;
mod demand;
mod device_identity;
mod dialer;
mod eviction_reports;
mod exchange;
mod gateway_session;
mod handle;
mod incoming_streams;
mod link_tracker;
mod new_start;
mod observation;
mod page_streams;
mod portal;
mod reachability;
mod request_table;
mod state;
mod takeovers;
mod traffic;
mod window_decoding;

pub use answer::{GatewayAnswer, ResponseStream};
pub use association::{AssociateError, Association};
pub use carriers::{CarrierSettings, Carriers, Certificates, PinPolicy, UsedCarrier};
pub use check::check_gateway;
pub(crate) use codings::{body_coding_of, coding_of};
pub use demand::WaitingRequest;
pub use dialer::GatewayConfig;
pub use exchange::Exchange;
pub use gateway_session::{GatewaySession, SendError, SendPhase};
pub use handle::{Gateway, RequiredSessionState};
pub use page_streams::{PageStream, PageStreamTask, PageStreams};
pub use portal::{PortalCheck, PortalSettings};
pub use request_table::{BasePolicy, FetchContext, FetchDraft};
pub use state::{GatewayState, LinkKnowledge, SessionSnapshot};
pub use traffic::Traffic;
pub(crate) use window_decoding::next_window;

pub use crate::session_serial::SessionSerial;
