//! Admission: the list of admitted devices, and the state directory with the gateway's keys.
pub mod devices;
pub mod state;
