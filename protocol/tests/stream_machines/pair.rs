//! The streams of two ends, and a model of what each end has written and read.
use std::collections::BTreeMap;

use bytes::Bytes;
use longhaul_protocol::streams::{
    ReadError, ReadOutcome, Role, SentControl, StreamEvent, StreamLimits, StreamRequest, Streams, WriteError,
};
use longhaul_types::{ByteCount, StreamId};
use proptest::sample::Index;

const WINDOW: u64 = 300;
const LIMITS: StreamLimits = StreamLimits {
    stream_window: ByteCount::new(WINDOW),
    largest_stream_window: ByteCount::new(WINDOW),
    receive_buffer: ByteCount::new(8 * WINDOW),
    max_streams: 4,
    send_buffer: ByteCount::new(1000),
    send_buffer_total: ByteCount::new(2000),
};

/// Content of a stream at an offset.
fn byte(stream: StreamId, offset: u64) -> u8 {
    (stream.0 * 31 + offset * 7 + offset / 256).to_le_bytes()[0]
}

fn content(stream: StreamId, from: u64, len: u64) -> Vec<u8> {
    (from..from + len).map(|offset| byte(stream, offset)).collect()
}

/// A frame in flight.
#[derive(Clone, Debug)]
pub(super) enum Content {
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
pub(super) struct Model {
    written: u64,
    finished: bool,
    cancelled: Option<u64>,
    stopped: Option<u64>,
    pub(super) read: u64,
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
pub(super) struct Pair {
    pub(super) sides: [Streams; 2],
    pub(super) models: BTreeMap<StreamId, Model>,
    /// Packets towards each side: in flight, and arrived but unacknowledged.
    pub(super) flying: [Vec<Vec<Content>>; 2],
    pub(super) unacknowledged: [Vec<Vec<Content>>; 2],
}

/// Side that sends a stream.
fn owner(stream: StreamId) -> usize {
    usize::from(stream.0 % 2 == 1)
}

impl Pair {
    pub(super) fn new() -> Self {
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
    pub(super) fn pick(&self, side: usize, sends: bool, which: Index) -> Option<StreamId> {
        let own: Vec<_> = self
            .models
            .keys()
            .filter(|id| (owner(**id) == side) == sends)
            .collect();
        (!own.is_empty()).then(|| *own[which.index(own.len())])
    }

    pub(super) fn write(&mut self, side: usize, id: StreamId, len: u64) {
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

    pub(super) fn finish(&mut self, side: usize, id: StreamId) {
        let model = self.models.get_mut(&id).expect("a stream of the test");
        if self.sides[side].finish(id).is_ok() {
            assert!(!model.finished && model.cancelled.is_none());
            model.finished = true;
        }
    }

    pub(super) fn cancel(&mut self, side: usize, id: StreamId, error: u64) {
        let model = self.models.get_mut(&id).expect("a stream of the test");
        if !model.acknowledged && model.told_stopped.is_none() {
            model.cancelled.get_or_insert(error);
        }
        self.sides[side].cancel(id, error);
    }

    pub(super) fn stop(&mut self, side: usize, id: StreamId, error: u64) {
        // A user stops only a stream that it knows.
        let model = self.models.get_mut(&id).expect("a stream of the test");
        if model.end.is_none() && self.sides[side].announced_total(id).is_some() | (model.read > 0) {
            model.stopped = Some(error);
            model.end = Some(End::Stopped);
            self.sides[side].stop(id, error);
        }
    }

    pub(super) fn read(&mut self, side: usize, id: StreamId) {
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
    pub(super) fn send(&mut self, side: usize, max: u64) {
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
    pub(super) fn arrive(&mut self, side: usize, packet: &[Content]) {
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
    pub(super) fn report(&mut self, side: usize, packet: Vec<Content>, arrived: bool) {
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

    pub(super) fn check_bounds(&self) {
        for streams in &self.sides {
            let (_, receiving) = streams.open_count();
            assert!(receiving <= 2 * 4, "{receiving} streams of the peer");
            // Each fragment counts 64 bytes in addition, and may be a single byte.
            assert!(streams.recv_buffered() <= 2 * 4 * WINDOW * 65);
            assert!(streams.send_buffered() <= 2000 + 8 * 64 * 1024);
        }
    }

    /// Users end all open streams, and the network delivers everything.
    pub(super) fn come_to_an_end(&mut self) {
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

    pub(super) fn check_ends(&self) {
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

pub(super) fn take(list: &mut Vec<Vec<Content>>, which: Index) -> Option<Vec<Content>> {
    (!list.is_empty()).then(|| list.remove(which.index(list.len())))
}

/// Rounds after which every stream must have ended.
const ROUNDS: usize = 2000;
