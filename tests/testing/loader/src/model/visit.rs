//! A page load with its page, pool and connections.
use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tracing::debug;
use url::Url;

use super::{
    BrowserCache, Counted, ModelError, ModelOptions, Route,
    connection::{self, Closed, Command, Event, What},
    dial::{Dial, Origin, Peer, Way},
    error::Failure,
    names::Names,
    objects::Page,
    pool::{Action, Lost, Pool},
    request::Writer,
};
use crate::PageLoad;

/// Maximum number of events that wait for the page. It handles them at once, so this bounds memory without
/// delaying a connection.
const EVENTS: usize = 256;

/// A load in progress.
pub(super) struct Visit<'a> {
    url: Url,
    options: &'a ModelOptions,
    page: Page<'a>,
    pool: Pool,
    way: Way,
    names: Option<Arc<Names>>,
    user_agent: Arc<str>,
    started: Instant,
    reports: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    commands: BTreeMap<u64, mpsc::Sender<Command>>,
    /// Dropping them closes the open connections.
    tasks: JoinSet<()>,
    established: u64,
    requests: u64,
    /// Sum of the pipeline indices of `requests`.
    indices: u64,
    resent: u64,
}

impl<'a> Visit<'a> {
    pub(super) fn new(url: &Url, options: &'a ModelOptions, cache: Option<&'a mut BrowserCache>) -> Self {
        let started = Instant::now();
        let (way, names) = match options.route {
            Route::Direct { resolver } => {
                let names = Arc::new(Names::new(resolver, &options.hosts));
                (Way::Names(Arc::clone(&names)), Some(names))
            }
            Route::Proxy(proxy) => (Way::Proxy(proxy), None),
        };
        let proxied = names.is_none();
        let (reports, events) = mpsc::channel(EVENTS);
        Self {
            url: url.clone(),
            options,
            page: Page::new(url, options.limits, proxied, cache, started),
            pool: Pool::new(options.rules, proxied),
            way,
            names,
            user_agent: options.user_agent.as_str().into(),
            started,
            reports,
            events,
            commands: BTreeMap::new(),
            tasks: JoinSet::new(),
            established: 0,
            requests: 0,
            indices: 0,
            resent: 0,
        }
    }

    /// Loads until no object is missing.
    pub(super) async fn run(mut self) -> Result<Counted, ModelError> {
        let deadline = self.started + self.options.limits.time;
        loop {
            self.ask();
            if let Some(error) = self.page.error() {
                return Err(error);
            }
            if self.pool.is_idle() {
                break;
            }
            match timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => {
                    self.on(event);
                    // Events of one read are simultaneous: a connection that they released is available to
                    // the objects that they discovered.
                    while let Ok(event) = self.events.try_recv() {
                        self.on(event);
                    }
                }
                // Unreachable: the visit itself holds a sender.
                Ok(None) => break,
                Err(_) => {
                    self.page.time_out(Instant::now());
                    if let Some(error) = self.page.error() {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        Ok(Counted {
            load: self.finish(),
            resent: self.resent,
        })
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of requests stay far below 2^52"
    )]
    fn finish(&mut self) -> PageLoad {
        let empty = Page::new(&self.url, self.options.limits, false, None, self.started);
        let (objects, time) = std::mem::replace(&mut self.page, empty).into_objects();
        PageLoad {
            url: self.url.clone(),
            time,
            first_paint: None,
            largest_paint: None,
            objects,
            connections: self.established,
            dns_lookups: Some(self.names.as_ref().map_or(0, |names| names.questions())),
            pipelining_factor: (self.requests > 0).then(|| self.indices as f64 / self.requests as f64),
        }
    }

    /// Sends the requests that can be sent now.
    fn ask(&mut self) {
        for object in self.page.take_wanted() {
            // References without a host are not recorded, and http and https have known ports.
            if let Some(origin) = Origin::of(self.page.url_of(object)) {
                self.pool.enqueue(object, origin);
            }
        }
        for action in self.pool.actions() {
            match action {
                Action::Open { connection, peer } => self.open(connection, peer),
                Action::Close { connection } => {
                    self.commands.remove(&connection);
                }
                Action::Send { request, connection } => self.send(request, connection),
            }
        }
    }

    fn open(&mut self, connection: u64, peer: Peer) {
        while self.tasks.try_join_next().is_some() {}
        let (sender, commands) = mpsc::channel(self.options.rules.depth());
        self.commands.insert(connection, sender);
        let dial = Dial {
            connection,
            peer,
            way: self.way.clone(),
            trust: Arc::clone(&self.options.trust),
            user_agent: Arc::clone(&self.user_agent),
            idle: self.options.limits.idle,
        };
        self.tasks
            .spawn(connection::run(dial, commands, self.reports.clone()));
    }

    fn send(&self, request: usize, connection: u64) {
        let writer = Writer {
            rules: self.options.rules,
            proxied: self.names.is_none(),
            accept_encoding: self.options.accept_encoding,
            user_agent: &self.options.user_agent,
        };
        let bytes = writer.write(&self.page.request(request));
        if let Some(commands) = self.commands.get(&connection) {
            // The channel has room for all unanswered requests. If the connection has just closed, its event
            // queues the request again.
            let _ = commands.try_send(Command { request, bytes });
        }
    }

    fn on(&mut self, event: Event) {
        let Event { connection, at, what } = event;
        match what {
            What::Established => self.established += 1,
            What::Ready => self.pool.ready(connection),
            What::Unreachable(error) => {
                debug!(connection, %error, "no connection");
                self.commands.remove(&connection);
                for object in self.pool.unreachable(connection) {
                    self.page.fail(object, error.clone().into(), at);
                }
            }
            What::Sent { request, index } => {
                self.requests += 1;
                self.indices += index;
                self.page.sent(request, connection, at);
            }
            What::Head { head, first_byte } => {
                if let Some(object) = self.pool.current(connection) {
                    self.page.head(object, head, first_byte);
                }
            }
            What::Data(data) => {
                if let Some(object) = self.pool.current(connection)
                    && !self.page.data(object, &data, at)
                {
                    // The rest of the body would delay the responses after it.
                    self.commands.remove(&connection);
                    let lost = self.pool.closed(connection);
                    self.pool.give_up(object);
                    self.again(&lost.behind);
                }
            }
            What::End { keep_alive } => self.end(connection, keep_alive, at),
            What::Closed(why) => self.closed(connection, &why, at),
        }
    }

    fn end(&mut self, connection: u64, keep_alive: bool, at: Instant) {
        if let Some(object) = self.pool.current(connection) {
            self.page.end(object, at);
        }
        let lost = self.pool.answered(connection, keep_alive);
        if !self.pool.has(connection) {
            self.commands.remove(&connection);
        }
        self.again(&lost.behind);
    }

    fn closed(&mut self, connection: u64, why: &Closed, at: Instant) {
        self.commands.remove(&connection);
        let Lost { first, behind } = self.pool.closed(connection);
        self.again(&behind);
        let Some(first) = first else {
            return;
        };
        debug!(connection, %why, unanswered = behind.len() + 1, "connection lost");
        if self.page.lost(first, why) {
            self.pool.enqueue_again(first);
            self.again(&[first]);
        } else {
            self.pool.give_up(first);
            self.page.fail(first, Failure::Closed(why.clone()), at);
        }
    }

    fn again(&mut self, objects: &[usize]) {
        for object in objects {
            self.resent += u64::from(self.page.queued_again(*object));
        }
    }
}
