//! Attacks on the isolation between sites, users, devices and programs, each in the form that a real attacker
//! would use (docs/THREAT-MODEL.md).
mod agent_ports;
mod browser_requests;
mod clock_jumps;
mod decompression_bombs;
mod fair_shares;
mod foreign_frames;
mod forget_site;
mod gateway_restarts;
mod hostile_device;
mod hostile_pages;
mod local_http2;
mod other_devices;
mod other_profiles;
mod other_sites;
mod picture_workers;
mod size_side_channels;
mod split_responses;
