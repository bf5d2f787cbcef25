//! Tests of the link model against its documentation, in virtual time.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod conservation;
mod definition;
mod hop;
mod impairment;
mod loss;
mod order;
mod outage;
mod probe;
mod profile;
mod queue;
mod rate;
mod trace;
