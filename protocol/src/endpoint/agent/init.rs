//! The INIT of a session: when it is due, and its contents.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile, SecretKey, Timestamp};

use crate::{
    connection::{Connection, TransportConfig},
    crypto::{Initiator, Mac1Key},
    endpoint::{
        ConnectionHandle, Endpoint, Role,
        early_packets::EarlyPackets,
        race::Race,
        session::{Created, Phase, Waiting},
    },
    path::{LEAST_LINK_PAYLOAD, Path, PathClass},
    wire::{Init, InitPayload, MAX_UDP_PAYLOAD, Parameters, Stamp},
};

/// Maximum interval between two INITs, unless the RTT of the hop requires a longer one.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3);
/// Interval to the first repetition without a link profile.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Writes the session's INIT into `out` if it is due.
    pub(in crate::endpoint) fn write_init(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        out: &mut Vec<u8>,
    ) {
        let unix = self.unix(now);
        let (Some(session), Role::Agent(agent)) = (self.sessions.get_mut(&handle), &mut self.role) else {
            return;
        };
        if let Phase::Created(created) = &session.phase
            && created.started
        {
            // Stamps must increase although the wall clock may stand still or be set back.
            let wall = unix.max(agent.last_stamp + Duration::from_nanos(1));
            agent.last_stamp = wall;
            let others = created.others.iter().map(|other| Path::from(*other));
            let remotes = others.chain([created.to.remote]);
            let max_len = remotes.map(|remote| max_datagram(&self.transport, remote)).min();
            let mut max_len = max_len.unwrap_or(MAX_UDP_PAYLOAD);
            if created.fits_links {
                max_len = max_len.min(LEAST_LINK_PAYLOAD);
            }
            let parameters = Parameters {
                profile: created.to.profile,
                ..self.transport.parameters()
            };
            let payload = InitPayload {
                wall,
                parameters,
                stamp: Stamp::of(now),
                frames: &[],
            };
            let waiting = build_init(
                now,
                &self.secret,
                created,
                payload,
                &mut session.connection,
                max_len,
            );
            session.phase = Phase::Waiting(Box::new(waiting));
        }
        if let Phase::Waiting(waiting) = &session.phase
            && waiting.race.due().is_some_and(|due| due <= now)
        {
            out.extend_from_slice(&waiting.init);
            self.counters.inits += 1;
        }
    }
}

fn build_init(
    now: Timestamp,
    secret: &SecretKey,
    created: &Created,
    payload: InitPayload<'_>,
    connection: &mut Connection,
    max_len: usize,
) -> Waiting {
    let to = &created.to;
    let token = to.token.as_ref();
    let mut init = Vec::with_capacity(max_len);
    Init::encode_clear(created.agent_index, token, &mut init);
    let mut plain = Vec::with_capacity(max_len);
    payload.encode(&mut plain);
    let budget = max_len.saturating_sub(Init::overhead(token) + plain.len());
    let mut frames = Vec::with_capacity(budget);
    connection.init_frames(now, budget, &mut frames);
    // The frames are the last field.
    plain.extend_from_slice(&frames);
    let clear = init.clone();
    let start = Initiator::start(
        secret,
        &to.gateway,
        created.seed.clone(),
        &clear,
        &plain,
        &mut init,
    );
    #[expect(
        clippy::expect_used,
        reason = "a payload below 64 KiB fits a Noise message, and this one fits a datagram"
    )]
    let (initiator, _) = start.expect("the payload fits");
    let mac1 = Mac1Key::new(&to.gateway).tag(&init);
    init.extend_from_slice(&mac1);
    let interval = first_interval(to.profile, init.len());
    Waiting {
        initiator,
        init,
        race: Race::new(
            now,
            to.remote,
            &created.others,
            created.delay,
            interval,
            interval.max(LONGEST_INTERVAL),
        ),
        ahead: EarlyPackets::default(),
    }
}

/// Interval after which an unanswered INIT of `len` bytes is repeated.
fn first_interval(profile: Option<LinkProfile>, len: usize) -> Duration {
    let Some(LinkProfile { up, rtt, .. }) = profile else {
        return UNKNOWN_INTERVAL;
    };
    let up = up.max(BitRate::bps(1));
    let sending = ByteCount::new(len as u64) / up;
    // A profile may contain an absurd RTT; a minute exceeds the RTT of any hop.
    rtt.saturating_add(sending).min(Duration::from_secs(60)) * 3 / 2
}

/// Maximum UDP payload to `remote`: 1,280 bytes with the IP and UDP headers, less on a link whose carrier has headers.
fn max_datagram(config: &TransportConfig, remote: Path) -> usize {
    let by_family = match remote {
        Path::Udp(path) if path.remote.is_ipv6() => MAX_UDP_PAYLOAD - 20,
        Path::Link(link) if link.class() == PathClass::Datagram => LEAST_LINK_PAYLOAD,
        Path::Udp(_) | Path::Link(_) => MAX_UDP_PAYLOAD,
    };
    by_family.min(usize::from(config.max_udp_payload))
}
