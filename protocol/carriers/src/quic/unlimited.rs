//! A congestion controller that limits nothing: the packets inside have their own credit.
use std::{any::Any, sync::Arc, time::Instant};

use quinn::congestion::{Controller, ControllerFactory};

/// Window in bytes. It is far more than any credit, and above the windows for which quinn paces (4 GiB).
const WINDOW: u64 = 1 << 40;

/// Controller and its factory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlimited;

impl Controller for Unlimited {
    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _is_persistent_congestion: bool,
        _lost_bytes: u64,
    ) {
        // The receiver of the packets inside counts its losses itself.
    }

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        WINDOW
    }

    fn initial_window(&self) -> u64 {
        WINDOW
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Unlimited {
    fn build(self: Arc<Self>, _now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        Box::new(*self)
    }
}
