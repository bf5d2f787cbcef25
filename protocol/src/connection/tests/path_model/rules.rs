//! Rules that hold in each state of the model.
use super::{
    AGENT, Action, GATEWAY,
    state::{State, content},
};

/// Rounds of the fair end of a run: each one delivers everything, or lets a timer expire.
const ROUNDS: usize = 400;

impl State {
    /// The next packet that arrives if all do, in an order that the links permit.
    fn next_delivery(&self) -> Option<Action> {
        let link = self.link.as_ref();
        [AGENT, GATEWAY].into_iter().find_map(|end| {
            let on_link = link.is_some_and(|link| !link.lanes[end].is_empty());
            let on_udp = !self.udp[end].is_empty();
            on_udp
                .then_some(Action::Deliver(end, 0))
                .or_else(|| on_link.then_some(Action::DeliverOnLink(end)))
        })
    }

    /// True if the agent uses a path that does not work.
    fn needs_a_link(&self) -> bool {
        self.ends[AGENT].path().udp().is_some() && self.udp_works != [true; 2]
    }

    /// Returns true if everything arrives when from now on nothing is lost and the agent uses a path that works.
    pub(super) fn ends_well(&self) -> bool {
        let mut state = self.clone();
        if state.needs_a_link() {
            state.change_to_link();
            state.settle();
        } else if let Some(action) = state.next_delivery() {
            state.perform(&action);
            // The checker visits that state as well, and the end is the same.
            if state.on_the_way() <= self.left.packets {
                return true;
            }
        }
        for _ in 0..ROUNDS {
            if state.is_complete() {
                break;
            }
            match (state.next_delivery(), state.next_timer()) {
                (Some(action), _) => state.perform(&action),
                (None, Some(at)) => {
                    state.now = state.now.max(at);
                    state.settle();
                }
                (None, None) => return false,
            }
        }
        let paths = [
            state.ends[AGENT].path().class(),
            state.ends[GATEWAY].path().class(),
        ];
        state.is_complete() && state.is_right() && paths[0] == paths[1]
    }

    /// Each byte once and in order; losses counted once; the session where the agent has been.
    fn is_right(&self) -> bool {
        self.bytes_are_right() && self.losses_are_right() && self.gateway_follows()
    }

    pub(super) fn bytes_are_right(&self) -> bool {
        !self.closed
            && [AGENT, GATEWAY].iter().all(|end| {
                let (sent, received) = (content(&self.left, *end), &self.received[*end]);
                sent.starts_with(received) && (!self.finished[*end] || sent.len() == received.len())
            })
    }

    pub(super) fn losses_are_right(&self) -> bool {
        [AGENT, GATEWAY].iter().all(|end| {
            let book = self.books[*end];
            let (counted, lost) = book.at_change;
            !book.is_wrong && self.lost(*end) - lost <= book.counted - counted
        })
    }

    pub(super) const fn gateway_follows(&self) -> bool {
        !self.went_back
    }
}
