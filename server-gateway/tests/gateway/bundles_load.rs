//! A page load as an agent sees it: reads all streams of the gateway concurrently.
use std::collections::BTreeMap;

use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits};
use longhaul_driver::Session;
use longhaul_session::{
    BodyPlace, Entry, EntryBody, EntryHead, EntryId, Fetch, Head, HeaderField, HeaderSets, Manifest,
    ManifestId, Message, PageId, Promised, Record, RecordReader, Withdrawal, decode_header_set,
};
use tokio::sync::mpsc;

use crate::agent::{Agent, Answer, coding, fetch_of, window_key};

/// A pushed body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) body: Vec<u8>,
    pub(crate) end: StreamEnd,
    pub(crate) times: u32,
}

/// State of a stream of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    #[default]
    Open,
    Complete,
    Broken,
}

/// The received parts of a page load.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) page: PageId,
    pub(crate) head: Option<Head>,
    pub(crate) fields: Vec<HeaderField>,
    pub(crate) body: Vec<u8>,
    pub(crate) body_end: StreamEnd,
    pub(crate) manifest: Option<Manifest>,
    /// Decoded bytes.
    pub(crate) manifest_bytes: Vec<u8>,
    /// Bytes on its stream.
    pub(crate) manifest_wire: usize,
    pub(crate) manifest_end: StreamEnd,
    pub(crate) records: Vec<Record>,
    pub(crate) pushes: BTreeMap<EntryId, Pushed>,
    pub(crate) promised: Vec<Promised>,
    /// Heads of other fetches.
    pub(crate) answers: Vec<Head>,
    /// Numbers of the streams of head and manifest.
    pub(crate) head_stream: u64,
    pub(crate) manifest_stream: u64,
}

enum Event {
    Head(Head, u64),
    Other(Head),
    Page(Vec<u8>),
    PageEnd(StreamEnd),
    Manifest(Manifest, u64),
    ManifestBytes(Vec<u8>, usize),
    ManifestEnd(StreamEnd),
    Push(EntryId),
    PushBytes(EntryId, Vec<u8>),
    PushEnd(EntryId, StreamEnd),
    Promised(Promised),
}

impl Load {
    const fn new(page: PageId) -> Self {
        Self {
            page,
            head: None,
            fields: Vec::new(),
            body: Vec::new(),
            body_end: StreamEnd::Open,
            manifest: None,
            manifest_bytes: Vec::new(),
            manifest_wire: 0,
            manifest_end: StreamEnd::Open,
            records: Vec::new(),
            pushes: BTreeMap::new(),
            promised: Vec::new(),
            answers: Vec::new(),
            head_stream: 0,
            manifest_stream: 0,
        }
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entries = self.records.iter().filter_map(|record| match record {
            Record::Entry(entry) => Some(entry.clone()),
            _ => None,
        });
        entries.collect()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.url).collect()
    }

    pub(crate) fn entry(&self, url: &str) -> EntryId {
        let found = self.urls().iter().position(|found| found == url);
        EntryId::at(found.unwrap_or_else(|| panic!("{url} in {:?}", self.urls()))).unwrap()
    }

    pub(crate) fn find_head(&self, entry: EntryId) -> Option<&EntryHead> {
        self.records.iter().find_map(|record| match record {
            Record::Head(head) if head.entry == entry => Some(head),
            _ => None,
        })
    }

    pub(crate) fn head_of(&self, url: &str) -> &EntryHead {
        self.find_head(self.entry(url))
            .unwrap_or_else(|| panic!("no head of {url}"))
    }

    pub(crate) fn withdrawal(&self, entry: EntryId) -> Option<Withdrawal> {
        self.records.iter().find_map(|record| match record {
            Record::Withdrawn { entry: found, reason } if *found == entry => Some(*reason),
            _ => None,
        })
    }

    /// True if the fetch of the entry failed.
    pub(crate) fn is_failed(&self, entry: EntryId) -> bool {
        let is_told = |record: &Record| matches!(record, Record::Failed(failure) if failure.entry == entry);
        self.withdrawal(entry) == Some(Withdrawal::Failed) || self.records.iter().any(is_told)
    }

    pub(crate) fn body_of(&self, url: &str) -> &[u8] {
        let push = &self.pushes[&self.entry(url)];
        assert_eq!(push.end, StreamEnd::Complete, "{url}");
        &push.body
    }

    pub(crate) fn is_planned(&self) -> bool {
        self.records.contains(&Record::Planned)
    }

    pub(crate) fn manifest_id(&self) -> ManifestId {
        assert_eq!(self.manifest_end, StreamEnd::Complete);
        ManifestId::of(&self.manifest_bytes)
    }

    /// Returns true if everything that the manifest announces has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        let pushed = |head: &EntryHead| {
            let push = self.pushes.get(&head.entry);
            !matches!(head.body, EntryBody::Pushed { .. })
                || push.is_some_and(|push| push.end != StreamEnd::Open)
        };
        let heads = self.records.iter().filter_map(|record| match record {
            Record::Head(head) => Some(head),
            _ => None,
        });
        self.body_end != StreamEnd::Open
            && self.manifest_end != StreamEnd::Open
            && heads.into_iter().all(pushed)
    }

    fn apply(&mut self, event: Event, reader: &mut RecordReader) {
        match event {
            Event::Head(head, stream) => {
                self.fields = decode_header_set(&head.headers, head.fetch, &HeaderSets::new()).unwrap();
                (self.head, self.head_stream) = (Some(head), stream);
            }
            Event::Other(head) => self.answers.push(head),
            Event::Page(bytes) => self.body.extend(bytes),
            Event::PageEnd(end) => self.body_end = end,
            Event::Manifest(manifest, stream) => {
                assert!(self.manifest.is_none(), "a page load has one manifest");
                (self.manifest, self.manifest_stream) = (Some(manifest), stream);
            }
            Event::ManifestBytes(bytes, wire) => {
                self.manifest_wire += wire;
                reader.push(&bytes);
                while let Some(record) = reader.next().unwrap() {
                    self.records.push(record);
                }
                self.manifest_bytes.extend(bytes);
            }
            Event::ManifestEnd(end) => self.manifest_end = end,
            Event::Push(entry) => {
                let times = self.pushes.get(&entry).map_or(0, |push| push.times);
                let push = Pushed {
                    times: times + 1,
                    ..Pushed::default()
                };
                self.pushes.insert(entry, push);
            }
            Event::PushBytes(entry, bytes) => self.pushes.get_mut(&entry).unwrap().body.extend(bytes),
            Event::PushEnd(entry, end) => self.pushes.get_mut(&entry).unwrap().end = end,
            Event::Promised(promised) => self.promised.push(promised),
        }
    }
}

/// Reader of a page load.
pub(crate) struct LoadReader {
    pub(crate) load: Load,
    session: Session,
    base: Vec<u8>,
    records: RecordReader,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl LoadReader {
    /// Requests a page; `base` is the manifest that `fetch` names.
    pub(crate) async fn begin(agent: &Agent, fetch: Fetch, base: &[u8]) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let page = PageId::of(fetch.id);
        agent.send(Message::Fetch(fetch)).await;
        Self {
            load: Load::new(page),
            session: agent.session.clone(),
            base: base.to_vec(),
            records: RecordReader::new(),
            sender,
            events,
        }
    }

    /// Requests a page and reads its whole page load.
    pub(crate) async fn whole(agent: &mut Agent, url: &str, fields: &[(&str, &str)]) -> Load {
        let fetch = fetch_of(agent.id(), longhaul_session::Method::Get, url, fields);
        let mut reader = Self::begin(agent, fetch, &[]).await;
        reader.until(Load::is_complete).await;
        reader.load
    }

    /// Reads until `is_there` returns true.
    pub(crate) async fn until(&mut self, is_there: impl Fn(&Load) -> bool) {
        let waiting = async {
            while !is_there(&self.load) {
                tokio::select! {
                    stream = self.session.accept() => {
                        let answer = Answer::of(stream.unwrap()).await;
                        let key = window_key(&self.session);
                        let base = self.base.clone();
                        let (page, sender) = (self.load.page, self.sender.clone());
                        tokio::spawn(read(answer, key, page, base, sender));
                    }
                    Some(event) = self.events.recv() => self.load.apply(event, &mut self.records),
                }
            }
        };
        let limit = std::time::Duration::from_secs(20);
        if tokio::time::timeout(limit, waiting).await.is_err() {
            panic!(
                "the expected data did not arrive; received so far: {:#?}",
                Brief(&self.load)
            );
        }
    }
}

/// Debug output of a load without its bodies.
struct Brief<'a>(&'a Load);

impl std::fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let load = self.0;
        writeln!(
            f,
            "{:?} {:?} body {} {:?}",
            load.head,
            load.manifest,
            load.body.len(),
            load.body_end
        )?;
        writeln!(f, "manifest {:?}", load.manifest_end)?;
        for record in load.records.iter().take(40) {
            writeln!(f, "{record:?}")?;
        }
        for (entry, push) in load.pushes.iter().take(40) {
            writeln!(f, "push {entry}: {} {:?}", push.body.len(), push.end)?;
        }
        Ok(())
    }
}

async fn read(
    answer: Answer,
    key: [u8; 32],
    page: PageId,
    base: Vec<u8>,
    sender: mpsc::UnboundedSender<Event>,
) {
    let stream = answer.stream.id().0;
    match answer.message.clone() {
        Message::Head(head) => {
            if head.fetch != page.fetch() {
                let _over = sender.send(Event::Other(head));
                return;
            }
            let has_body = head.body == BodyPlace::Follows;
            let _over = sender.send(Event::Head(head, stream));
            if has_body {
                body(
                    answer,
                    key,
                    &[],
                    &sender,
                    || None,
                    |bytes, _| Event::Page(bytes),
                    Event::PageEnd,
                )
                .await;
            } else {
                let _over = sender.send(Event::PageEnd(StreamEnd::Complete));
            }
        }
        Message::Manifest(manifest) if manifest.page == page => {
            let base = if manifest.base.is_some() { base } else { Vec::new() };
            let _over = sender.send(Event::Manifest(manifest, stream));
            body(
                answer,
                key,
                &base,
                &sender,
                || None,
                Event::ManifestBytes,
                Event::ManifestEnd,
            )
            .await;
        }
        Message::Push(push) if push.page == page => {
            let entry = push.entry;
            let begin = || Some(Event::Push(entry));
            let bytes = |bytes, _| Event::PushBytes(entry, bytes);
            body(answer, key, &[], &sender, begin, bytes, |end| {
                Event::PushEnd(entry, end)
            })
            .await;
        }
        Message::Promised(promised) => {
            let _over = sender.send(Event::Promised(promised));
        }
        _ => {}
    }
}

async fn body(
    mut answer: Answer,
    key: [u8; 32],
    base: &[u8],
    sender: &mpsc::UnboundedSender<Event>,
    begin: impl Fn() -> Option<Event>,
    piece: impl Fn(Vec<u8>, usize) -> Event,
    end: impl Fn(StreamEnd) -> Event,
) {
    let Ok(Message::Body(announced)) = answer.next_message().await else {
        let _over = sender.send(end(StreamEnd::Broken));
        return;
    };
    if let Some(event) = begin() {
        let _over = sender.send(event);
    }
    let mut decoder = BodyDecoder::with_base(key, coding(announced.coding), BodyLimits::default(), base);
    let ended = loop {
        match answer.bytes().await {
            Err(_) => break StreamEnd::Broken,
            Ok(None) if decoder.finish().is_ok() => break StreamEnd::Complete,
            Ok(None) => break StreamEnd::Broken,
            Ok(Some(bytes)) => {
                let mut wire = &bytes[..];
                let mut decoded = Vec::new();
                while let Ok(BodyEvent::Window(window)) = decoder.next(&mut wire) {
                    decoded.extend_from_slice(&window);
                }
                let _over = sender.send(piece(decoded, bytes.len()));
            }
        }
    };
    let _over = sender.send(end(ended));
}
