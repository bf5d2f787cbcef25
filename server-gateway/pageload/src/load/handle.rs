//! Handling of events by the task of a page load.
use longhaul_session::EntryId;
use tokio::sync::oneshot;

use super::{
    event::{AgentEvent, Event, PushEvent, ResponseEvent},
    task::LoadTask,
};
use crate::plan::PushProgress;

impl LoadTask {
    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::PageGrew { references } => {
                if !references.is_empty() {
                    self.state.found(references, None);
                }
                self.state.plan_displayed();
            }
            Event::Literals(urls) => self.state.literals(urls, None),
            Event::PageComplete(hash) => {
                self.state.learned.document_complete(hash);
                self.state.body_complete(&hash, None);
            }
            Event::PageSearched => self.state.plan.page_searched(),
            Event::Response { entry, event } => self.handle_response(entry, event),
            Event::Push { entry, event } => self.handle_push(entry, event),
            Event::Agent(event) => self.handle_agent(event),
            Event::Flush { done } => self.manifest.flush(done),
        }
    }

    fn handle_response(&mut self, entry: EntryId, event: ResponseEvent) {
        let state = &mut self.state;
        match event {
            ResponseEvent::Arrived { cookies, reply } => send(reply, state.responded(entry, &cookies)),
            ResponseEvent::Redirects { target, policy } => state.redirected(*target, entry, policy),
            ResponseEvent::Document(document) => state.document_arrives(entry, document),
            ResponseEvent::Redirected(learned) => state.follow_redirect(entry, *learned),
            ResponseEvent::StyleSheet(policy) => state.style_sheet_arrives(entry, policy),
            ResponseEvent::Found(references) => state.found(references, Some(entry)),
            ResponseEvent::Literals(urls) => state.literals(urls, Some(entry)),
            ResponseEvent::MarkupNeeded { reply } => send(reply, state.markup_of(entry)),
            ResponseEvent::ReferencesPending(pending) => state.references_pending(entry, pending),
            ResponseEvent::BodyComplete(hash) => state.body_complete(&hash, Some(entry)),
            ResponseEvent::Searched => state.plan.entry_searched(entry),
            ResponseEvent::Answered(answer) => {
                state.answered(entry, *answer);
                state.require_searched();
            }
            ResponseEvent::Failed(failure) => {
                state.failed(entry, &failure);
                state.require_searched();
            }
            ResponseEvent::Withdrawn(reason) => {
                state.plan.withdraw(entry, reason);
                state.require_searched();
            }
        }
    }

    fn handle_push(&mut self, entry: EntryId, event: PushEvent) {
        let plan = &mut self.state.plan;
        match event {
            PushEvent::Grown { length, by, reply } => send(reply, Some(plan.grown(entry, length, by))),
            PushEvent::Completed { hash, length } => plan.completed(entry, hash, length),
            PushEvent::Progress {
                repeats,
                bytes,
                progress,
            } => plan.pushed(entry, repeats, bytes, progress),
            PushEvent::Delivered { repeats, reply } => {
                plan.pushed(entry, repeats, 0, PushProgress::Delivered);
                send(reply, plan.delivered_body(entry));
            }
        }
    }

    fn handle_agent(&mut self, event: AgentEvent) {
        let state = &mut self.state;
        match event {
            AgentEvent::Request(request) => state.request(*request),
            AgentEvent::UnplannedAnswered(answer) => state.unplanned_answered(&answer),
            AgentEvent::UnplannedFailed { url } => state.learned.failed(&url),
            AgentEvent::BrowserWaits(entries) => state.browser_waits(&entries),
            AgentEvent::HashNeeded { entry, reply } => send(reply, state.hash_of(entry)),
            AgentEvent::PushAgain { entry, body } => state.push_again(entry, body),
            AgentEvent::FetchAgain { entry } => state.plan.refetch(entry),
            AgentEvent::Ended { used, reply } => {
                let result = self.result(used.as_ref());
                send(reply, Some(result));
            }
            AgentEvent::FrameNeeded { url, reply } => send(reply, state.frames.at(&url)),
        }
    }
}

/// Sends a reply, if there is one.
fn send<T>(reply: oneshot::Sender<T>, value: Option<T>) {
    if let Some(value) = value {
        // The requesting task may have been cancelled.
        let _cancelled = reply.send(value);
    }
}
