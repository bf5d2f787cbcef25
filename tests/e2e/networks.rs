//! Networks that change, and networks that are remembered: agent and gateway in network namespaces.
//!
//! Network namespaces need root; without it these tests print that they are skipped.
mod blocked;
mod families;
mod family_change;
mod gateway_moves;
mod harness;
mod limited;
mod middlebox;
mod moving;
mod port_443;
mod portal;
mod ports;
mod random_networks;
mod remembered;
mod silent_links;
mod udp_dies;
