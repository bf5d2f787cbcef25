//! Sending and receiving halves of streams, compared with a model of the users' actions: with any loss,
//! duplication, delay and reordering in the network, and any order of the users' actions.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::collections::BTreeMap;

use bytes::Bytes;
use longhaul_protocol::streams::{
    Priority, ReadError, ReadOutcome, Role, SentControl, StreamEvent, StreamLimits, StreamRequest, Streams,
    WriteError,
};
use longhaul_types::{ByteCount, StreamId};
use proptest::{prelude::*, sample::Index};

const WINDOW: u64 = 300;
const LIMITS: StreamLimits = StreamLimits {
    stream_window: ByteCount::new(WINDOW),
    max_streams: 4,
    send_buffer: ByteCount::new(1000),
    send_buffer_total: ByteCount::new(2000),
};
/// Rounds after which every stream must have ended.
const ROUNDS: usize = 2000;

/// Content of a stream at an offset.
fn byte(stream: StreamId, offset: u64) -> u8 {
    (stream.0 * 31 + offset * 7 + offset / 256).to_le_bytes()[0]
}

fn content(stream: StreamId, from: u64, len: u64) -> Vec<u8> {
    (from..from + len).map(|offset| byte(stream, offset)).collect()
}

/// A frame in flight.
#[derive(Clone, Debug)]
enum Content {
    Data {
        stream: StreamId,
        offset: u64,
        fin: bool,
        total: Option<u64>,
        bytes: Vec<u8>,
    },
    Control(StreamRequest, SentControl),
}

/// Actions of the users of one stream, and the events that they received.
#[derive(Clone, Debug, Default)]
struct Model {
    written: u64,
    finished: bool,
    cancelled: Option<u64>,
    stopped: Option<u64>,
    read: u64,
    /// End of the stream at the reader.
    end: Option<End>,
    /// The writer was informed that all is acknowledged, or that the reader stopped the stream.
    acknowledged: bool,
    told_stopped: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Cancelled(u64),
    Stopped,
}

/// Two sides and the packets between them.
struct Pair {
    sides: [Streams; 2],
    models: BTreeMap<StreamId, Model>,
    /// Packets towards each side: in flight, and arrived but unacknowledged.
    flying: [Vec<Vec<Content>>; 2],
    unacknowledged: [Vec<Vec<Content>>; 2],
}

/// Side that sends a stream.
fn owner(stream: StreamId) -> usize {
    usize::from(stream.0 % 2 == 1)
}

impl Pair {
    fn new() -> Self {
        let sides = [Role::Agent, Role::Gateway].map(|role| {
            let mut streams = Streams::new(role, LIMITS);
            streams.set_peer(WINDOW, LIMITS.max_streams);
            streams
        });
        Self {
            sides,
            models: BTreeMap::new(),
            flying: [Vec::new(), Vec::new()],
            unacknowledged: [Vec::new(), Vec::new()],
        }
    }

    /// One of the streams that `side` sends or receives.
    fn pick(&self, side: usize, sends: bool, which: Index) -> Option<StreamId> {
        let own: Vec<_> = self
            .models
            .keys()
            .filter(|id| (owner(**id) == side) == sends)
            .collect();
        (!own.is_empty()).then(|| *own[which.index(own.len())])
    }

    fn write(&mut self, side: usize, id: StreamId, len: u64) {
        let model = self.models.get_mut(&id).expect("a stream of the test");
        let data = Bytes::from(content(id, model.written, len));
        match self.sides[side].write(id, data) {
            Ok(taken) => {
                assert!(
                    !model.finished && model.cancelled.is_none(),
                    "{id:?} took bytes after its end"
                );
                model.written += taken as u64;
            }
            Err(WriteError::Blocked) => {}
            Err(error) => assert!(
                model.finished || model.cancelled.is_some() || model.stopped.is_some(),
                "{id:?}: {error}"
            ),
        }
    }

    fn finish(&mut self, side: usize, id: StreamId) {
        let model = self.models.get_mut(&id).expect("a stream of the test");
        if self.sides[side].finish(id).is_ok() {
            assert!(!model.finished && model.cancelled.is_none());
            model.finished = true;
        }
    }

    fn cancel(&mut self, side: usize, id: StreamId, error: u64) {
        let model = self.models.get_mut(&id).expect("a stream of the test");
        if !model.acknowledged && model.told_stopped.is_none() {
            model.cancelled.get_or_insert(error);
        }
        self.sides[side].cancel(id, error);
    }

    fn stop(&mut self, side: usize, id: StreamId, error: u64) {
        // A user stops only a stream that it knows.
        let model = self.models.get_mut(&id).expect("a stream of the test");
        if model.end.is_none() && self.sides[side].announced_total(id).is_some() | (model.read > 0) {
            model.stopped = Some(error);
            model.end = Some(End::Stopped);
            self.sides[side].stop(id, error);
        }
    }

    fn read(&mut self, side: usize, id: StreamId) {
        let model = self.models.get_mut(&id).expect("a stream of the test");
        match self.sides[side].read(id) {
            Ok(ReadOutcome::Data(bytes)) => {
                assert_eq!(model.end, None, "{id:?} is read after its end");
                let len = bytes.len() as u64;
                assert!(
                    model.read + len <= model.written,
                    "{id:?}: bytes that nobody wrote"
                );
                assert_eq!(bytes, content(id, model.read, len), "{id:?} at {}", model.read);
                model.read += len;
            }
            Ok(ReadOutcome::Blocked) => {}
            Ok(ReadOutcome::Finished) => {
                assert_eq!(model.end.replace(End::Finished), None);
                assert!(model.finished, "{id:?} ended before its writer ended it");
                assert_eq!(model.read, model.written, "{id:?} ended early");
            }
            Err(ReadError::Cancelled(error)) => {
                assert_eq!(model.end.replace(End::Cancelled(error)), None);
                assert_eq!(
                    model.cancelled,
                    Some(error),
                    "{id:?}: a cancellation that nobody made"
                );
            }
            Err(error) => assert!(
                model.end.is_some() || model.read == 0,
                "{id:?} with {} bytes read: {error}",
                model.read
            ),
        }
    }

    /// Puts control frames and a segment of at most `max` bytes into a packet.
    fn send(&mut self, side: usize, max: u64) {
        let streams = &mut self.sides[side];
        let mut packet = Vec::new();
        while let Some(request) = streams.next_request() {
            let sent = streams.on_request_sent(&request);
            packet.push(Content::Control(request, sent));
        }
        if let Some(stream) = streams.next_sender()
            && let Some(segment) = streams.take_segment(stream, max)
        {
            let mut bytes = Vec::new();
            streams.copy_segment(stream, &segment.range, &mut bytes);
            assert_eq!(bytes.len() as u64, segment.range.end - segment.range.start);
            packet.push(Content::Data {
                stream,
                offset: segment.range.start,
                fin: segment.fin,
                total: segment.total,
                bytes,
            });
        }
        if !packet.is_empty() {
            self.flying[1 - side].push(packet);
        }
    }

    /// Delivers a packet; a correct peer causes no violation.
    fn arrive(&mut self, side: usize, packet: &[Content]) {
        let streams = &mut self.sides[side];
        for content in packet {
            let taken = match content {
                Content::Data {
                    stream,
                    offset,
                    fin,
                    total,
                    bytes,
                } => streams.on_data(*stream, *offset, *total, *fin, bytes, false),
                Content::Control(request, _) => match *request {
                    StreamRequest::Cancel {
                        stream,
                        error,
                        final_offset,
                    } => streams.on_cancel(stream, error, final_offset),
                    StreamRequest::Stop { stream, error } => streams.on_stop(stream, error),
                    StreamRequest::Limit { stream, limit } => streams.on_stream_limit(stream, limit),
                    StreamRequest::Count { count } => {
                        streams.on_streams(count);
                        Ok(())
                    }
                },
            };
            taken.unwrap_or_else(|violation| panic!("{content:?}: {violation}"));
        }
        self.mind_events(side);
    }

    fn mind_events(&mut self, side: usize) {
        while let Some(event) = self.sides[side].poll_event() {
            match event {
                StreamEvent::Finished(id) => {
                    let model = self.models.get_mut(&id).expect("a stream of the test");
                    assert!(model.finished && model.cancelled.is_none(), "{id:?}: {model:?}");
                    assert!(!std::mem::replace(&mut model.acknowledged, true), "{id:?} twice");
                }
                StreamEvent::Stopped(id, error) => {
                    let model = self.models.get_mut(&id).expect("a stream of the test");
                    assert_eq!(model.stopped, Some(error), "{id:?} was stopped by nobody");
                    assert_eq!(model.told_stopped.replace(error), None, "{id:?} twice");
                    model.cancelled.get_or_insert(error);
                }
                StreamEvent::Opened => while self.sides[side].accept().is_some() {},
                StreamEvent::Readable(_)
                | StreamEvent::Writable(_)
                | StreamEvent::Cancelled(..)
                | StreamEvent::Available => {}
            }
        }
    }

    /// Reports a packet from `side` as arrived or lost.
    fn report(&mut self, side: usize, packet: Vec<Content>, arrived: bool) {
        let streams = &mut self.sides[side];
        for content in packet {
            match (content, arrived) {
                (
                    Content::Data {
                        stream,
                        offset,
                        fin,
                        bytes,
                        ..
                    },
                    _,
                ) => {
                    let range = offset..offset + bytes.len() as u64;
                    if arrived {
                        streams.on_data_acked(stream, range, fin);
                    } else {
                        streams.on_data_lost(stream, range, fin);
                    }
                }
                (Content::Control(_, sent), true) => streams.on_control_acked(sent),
                (Content::Control(_, sent), false) => streams.on_control_lost(sent),
            }
        }
        self.mind_events(side);
    }

    fn check_bounds(&self) {
        for streams in &self.sides {
            let (_, receiving) = streams.open_count();
            assert!(receiving <= 2 * 4, "{receiving} streams of the peer");
            // Each fragment counts 64 bytes in addition, and may be a single byte.
            assert!(streams.recv_buffered() <= 2 * 4 * WINDOW * 65);
            assert!(streams.send_buffered() <= 2000 + 8 * 64 * 1024);
        }
    }

    /// Users end all open streams, and the network delivers everything.
    fn come_to_an_end(&mut self) {
        for round in 0..ROUNDS {
            let ids: Vec<_> = self.models.keys().copied().collect();
            for id in ids {
                self.finish(owner(id), id);
                self.read(1 - owner(id), id);
            }
            for side in 0..2 {
                self.send(side, 1000);
                for packet in std::mem::take(&mut self.flying[side]) {
                    self.arrive(side, &packet);
                    self.unacknowledged[side].push(packet);
                }
                for packet in std::mem::take(&mut self.unacknowledged[side]) {
                    self.report(1 - side, packet, true);
                }
            }
            let settled = self.sides.iter().all(|streams| streams.open_count() == (0, 0));
            if settled && self.sides.iter().all(|streams| !streams.has_output()) {
                return;
            }
            assert!(round + 1 < ROUNDS, "streams that do not end: {:?}", self.models);
        }
    }

    fn check_ends(&self) {
        for (id, model) in &self.models {
            let end = match (model.stopped, model.cancelled) {
                (Some(_), _) => model.end == Some(End::Stopped),
                // A reader that had everything before the cancellation arrived has finished.
                (None, Some(error)) => {
                    model.end == Some(End::Cancelled(error)) || model.end == Some(End::Finished)
                }
                (None, None) => model.end == Some(End::Finished) && model.acknowledged,
            };
            assert!(end, "{id:?}: {model:?}");
        }
        for streams in &self.sides {
            assert_eq!((streams.send_buffered(), streams.recv_buffered()), (0, 0));
            assert_eq!((streams.missing(), streams.has_holes()), (0, false));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Write(usize, Index, u64),
    Finish(usize, Index),
    Cancel(usize, Index, u64),
    Stop(usize, Index, u64),
    Read(usize, Index),
    Send(usize, u64),
    Arrive(usize, Index),
    Acknowledge(usize, Index),
    Lose(usize, Index),
    /// A packet is declared lost and arrives afterwards.
    TakeForLost(usize, Index),
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0_usize..2;
    let any = any::<Index>;
    prop_oneof![
        3 => side.clone().prop_map(Step::Open),
        6 => (side.clone(), any(), 0_u64..400).prop_map(|(side, which, len)| Step::Write(side, which, len)),
        2 => (side.clone(), any()).prop_map(|(side, which)| Step::Finish(side, which)),
        1 => (side.clone(), any(), 0_u64..50).prop_map(|(side, which, error)| Step::Cancel(side, which, error)),
        1 => (side.clone(), any(), 50_u64..99).prop_map(|(side, which, error)| Step::Stop(side, which, error)),
        6 => (side.clone(), any()).prop_map(|(side, which)| Step::Read(side, which)),
        10 => (side.clone(), 1_u64..150).prop_map(|(side, max)| Step::Send(side, max)),
        9 => (side.clone(), any()).prop_map(|(side, which)| Step::Arrive(side, which)),
        7 => (side.clone(), any()).prop_map(|(side, which)| Step::Acknowledge(side, which)),
        2 => (side.clone(), any()).prop_map(|(side, which)| Step::Lose(side, which)),
        1 => (side, any()).prop_map(|(side, which)| Step::TakeForLost(side, which)),
    ]
}

fn take(list: &mut Vec<Vec<Content>>, which: Index) -> Option<Vec<Content>> {
    (!list.is_empty()).then(|| list.remove(which.index(list.len())))
}

fn run(steps: Vec<Step>) {
    let mut pair = Pair::new();
    for step in steps {
        match step {
            Step::Open(side) => {
                if let Ok(id) = pair.sides[side].open(Priority::NORMAL) {
                    assert!(pair.models.insert(id, Model::default()).is_none());
                }
            }
            Step::Write(side, which, len) => {
                if let Some(id) = pair.pick(side, true, which) {
                    pair.write(side, id, len);
                }
            }
            Step::Finish(side, which) => {
                if let Some(id) = pair.pick(side, true, which) {
                    pair.finish(side, id);
                }
            }
            Step::Cancel(side, which, error) => {
                if let Some(id) = pair.pick(side, true, which) {
                    pair.cancel(side, id, error);
                }
            }
            Step::Stop(side, which, error) => {
                if let Some(id) = pair.pick(side, false, which) {
                    pair.stop(side, id, error);
                }
            }
            Step::Read(side, which) => {
                if let Some(id) = pair.pick(side, false, which) {
                    pair.read(side, id);
                }
            }
            Step::Send(side, max) => pair.send(side, max),
            Step::Arrive(side, which) => {
                if let Some(packet) = take(&mut pair.flying[side], which) {
                    pair.arrive(side, &packet);
                    pair.unacknowledged[side].push(packet);
                }
            }
            Step::Acknowledge(side, which) => {
                if let Some(packet) = take(&mut pair.unacknowledged[side], which) {
                    pair.report(1 - side, packet, true);
                }
            }
            Step::Lose(side, which) => {
                if let Some(packet) = take(&mut pair.flying[side], which) {
                    pair.report(1 - side, packet, false);
                }
            }
            Step::TakeForLost(side, which) => {
                if let Some(packet) = take(&mut pair.flying[side], which) {
                    pair.report(1 - side, packet.clone(), false);
                    pair.arrive(side, &packet);
                }
            }
        }
        pair.check_bounds();
    }
    pair.come_to_an_end();
    pair.check_ends();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn streams_deliver_the_operations_of_their_users(steps in prop::collection::vec(step(), 1..250)) {
        run(steps);
    }
}
