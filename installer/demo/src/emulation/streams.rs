//! Byte streams over the direct hop, as TCP carries them: with headers, and with a congestion window.
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use longhaul_netem::HopConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    SEED,
    lane::{Entrance, Lane, MAX_SEGMENT, Segment},
    window::{Ack, CongestionWindow, acknowledge},
};

/// Both directions of the hop between a browser and the web.
#[derive(Debug)]
pub(super) struct DirectHop {
    up: Direction,
    down: Direction,
    received: Arc<AtomicU64>,
    _lanes: JoinSet<()>,
}

/// One direction of the hop.
#[derive(Clone, Debug)]
struct Direction {
    entrance: Entrance,
    /// Delay of the way back, which acknowledgements take.
    way_back: Duration,
}

impl DirectHop {
    pub(super) fn start(config: HopConfig) -> Self {
        let (up_delay, down_delay) = (config.up.delay, config.down.delay);
        let (up, up_lane) = Lane::new(config.up, SEED);
        let (down, down_lane) = Lane::new(config.down, SEED + 1);
        let mut lanes = JoinSet::new();
        lanes.spawn(up_lane.run());
        lanes.spawn(down_lane.run());
        Self {
            up: Direction {
                entrance: up,
                way_back: down_delay,
            },
            down: Direction {
                entrance: down,
                way_back: up_delay,
            },
            received: Arc::default(),
            _lanes: lanes,
        }
    }

    /// Bytes of streams that arrived at the browser's end.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Sends a message of `request` bytes to the other end and waits for the answer of `response` bytes.
    pub(super) async fn round_trip(&self, request: usize, response: usize) -> io::Result<()> {
        for (direction, length) in [(&self.up, request), (&self.down, response)] {
            let (receiver, mut arrival) = mpsc::unbounded_channel();
            let message = Segment {
                number: 0,
                data: Bytes::from(vec![0; length]),
                is_repeated: false,
                window: None,
                receiver,
            };
            direction.entrance.send(message).await.map_err(|_| ended())?;
            arrival.recv().await.ok_or_else(ended)?;
        }
        Ok(())
    }

    /// Carries the bytes of an open connection between `browser` and `origin` until both ends have closed it, or one
    /// breaks.
    pub(super) fn carry(
        &self,
        browser: impl AsyncRead + AsyncWrite + Send + 'static,
        origin: impl AsyncRead + AsyncWrite + Send + 'static,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (up, down) = (self.up.clone(), self.down.clone());
        let received = Arc::clone(&self.received);
        async move {
            let (browser_reader, browser_writer) = tokio::io::split(browser);
            let (origin_reader, origin_writer) = tokio::io::split(origin);
            let nobody = Arc::default();
            tokio::try_join!(
                one_way(browser_reader, origin_writer, up, &nobody),
                one_way(origin_reader, browser_writer, down, &received),
            )
            .map(drop)
        }
    }
}

async fn one_way(
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    direction: Direction,
    received: &AtomicU64,
) -> io::Result<()> {
    let (receiver, arrivals) = mpsc::unbounded_channel();
    let (acks, acknowledged) = mpsc::unbounded_channel();
    let window = CongestionWindow::new();
    tokio::try_join!(
        send(reader, &direction.entrance, &window, receiver),
        receive(arrivals, writer, received, acks),
        async {
            acknowledge(&window, acknowledged, direction.way_back).await;
            Ok(())
        },
    )
    .map(drop)
}

async fn send(
    mut reader: impl AsyncRead + Unpin,
    entrance: &Entrance,
    window: &CongestionWindow,
    receiver: mpsc::UnboundedSender<Segment>,
) -> io::Result<()> {
    for number in 0.. {
        let mut data = BytesMut::with_capacity(MAX_SEGMENT);
        let size = reader.read_buf(&mut data).await?;
        let share = window.take(size).await.ok_or_else(ended)?;
        let segment = Segment {
            number,
            data: data.freeze(),
            is_repeated: false,
            window: Some(Arc::new(share)),
            receiver: receiver.clone(),
        };
        entrance.send(segment).await.map_err(|_| ended())?;
        if size == 0 {
            break;
        }
    }
    Ok(())
}

async fn receive(
    mut arrivals: mpsc::UnboundedReceiver<Segment>,
    mut writer: impl AsyncWrite + Unpin,
    received: &AtomicU64,
    acks: mpsc::UnboundedSender<Ack>,
) -> io::Result<()> {
    let mut next = 0;
    // At most a window of segments that arrived before a lost one.
    let mut early = BTreeMap::new();
    while let Some(segment) = arrivals.recv().await {
        early.insert(segment.number, segment);
        while let Some(segment) = early.remove(&next) {
            next += 1;
            let ack = Ack::of(&segment);
            let data = segment.data;
            if data.is_empty() {
                return writer.shutdown().await;
            }
            received.fetch_add(data.len() as u64, Ordering::Relaxed);
            writer.write_all(&data).await?;
            writer.flush().await?;
            // The sender may have ended.
            let _gone = acks.send(ack);
        }
    }
    Err(ended())
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the emulated hop has ended")
}

#[cfg(test)]
mod tests {
    use longhaul_netem::{Loss, Probability, Profile};
    use longhaul_types::ByteCount;
    use tokio::{io::duplex, time::Instant};

    use super::*;
    use crate::emulation::hop;

    /// Sends `sizes[n]` bytes down on stream `n`, all at the same time; returns the time until all have arrived.
    async fn download(config: HopConfig, sizes: &[usize]) -> Duration {
        let direct = DirectHop::start(config);
        let start = Instant::now();
        let mut readers = JoinSet::new();
        for (stream, size) in (1_u8..).zip(sizes) {
            let (browser, mut near) = duplex(64 * 1024);
            let (origin, mut far) = duplex(64 * 1024);
            tokio::spawn(direct.carry(browser, origin));
            let body: Vec<u8> = (0..*size)
                .map(|at| stream.wrapping_mul(at.to_le_bytes()[0]))
                .collect();
            let expected = body.clone();
            tokio::spawn(async move {
                far.write_all(&body).await.unwrap();
                far.shutdown().await.unwrap();
            });
            readers.spawn(async move {
                let mut received = Vec::new();
                near.read_to_end(&mut received).await.unwrap();
                assert!(received == expected, "stream {stream} is intact");
            });
        }
        readers.join_all().await;
        let total: usize = sizes.iter().sum();
        assert_eq!(direct.received(), total as u64);
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_takes_its_bytes_at_the_rate_the_delay_and_slow_start() {
        for profile in Profile::all() {
            let config = hop(profile);
            let lossless = config.down.loss == Loss::Never && config.down.arq.is_none();
            let size = 300_000_u64;
            let on_link = ByteCount::new(size + size.div_ceil(1448) * 52);
            let least = on_link / profile.rate_down() + config.down.delay;
            // Until the window is as large as the path, each doubling takes at most a round trip.
            let path = (profile.rate_down() * profile.rtt()).bytes().min(size);
            let rounds = (path / 14_480)
                .checked_ilog2()
                .map_or(0, |doublings| doublings + 1);
            let most = least.mul_f64(1.02)
                + config.down.jitter
                + Duration::from_millis(5)
                + (profile.rtt() + config.down.jitter) * rounds;
            let time = download(config, &[usize::try_from(size).unwrap()]).await;
            let name = profile.name();
            assert!(time >= least, "{name}: {time:?} is below {least:?}");
            assert!(!lossless || time <= most, "{name}: {time:?} is above {most:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn six_connections_share_the_rate() {
        let profile = Profile::named("umts-384").unwrap();
        let time = download(hop(profile), &[20_000, 40_000, 60_000, 10_000, 50_000, 30_000]).await;
        // 210,000 bytes in 149 segments with their headers at 384 kbit/s, and 125 ms of delay.
        let seconds = time.as_secs_f64();
        assert!((4.65..4.75).contains(&seconds), "{seconds} s");
    }

    #[tokio::test(start_paused = true)]
    async fn lost_segments_are_repeated_and_order_is_kept() {
        let mut config = hop(Profile::named("lte").unwrap());
        config.down.loss = Loss::Random(Probability::per_mille(300));
        let least = ByteCount::new(600_000) / Profile::named("lte").unwrap().rate_down();
        let time = download(config, &[300_000, 200_000, 100_000]).await;
        assert!(time > least.mul_f64(1.3), "repetitions occupy the link: {time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_trip_takes_the_delay_of_both_directions() {
        let profile = Profile::named("geo-sat").unwrap();
        let direct = DirectHop::start(hop(profile));
        let start = Instant::now();
        direct.round_trip(40, 100).await.unwrap();
        let time = start.elapsed().as_secs_f64();
        assert!((0.600..0.610).contains(&time), "{time} s");
    }
}
