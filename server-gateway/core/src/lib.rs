//! What all parts of the gateway stand on: settings, admission, quotas, counters, and the state that all sessions share.
//!
//! * `config` are the operator's settings, `admission` the devices and clients that are served, `device_register` applies changes
//!   of their list, `quota` paces devices and counts their bytes of the month within `quota_limits`, `admin` are the counters.
//! * `gateway` is the state of all sessions, `start` creates it from the settings.
//! * `failure` maps failures to the reasons that agents receive, `origin_reports` tells agents what origins sent for them.
//! * What fetches share, whoever asks: `origin_request`, `predicted_request`, `response_class`, `logins`, `tunnel_rules`,
//!   `page_parsers`, `body_words`, `observed_requests`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod admin;
pub mod admission;
pub mod association_slots;
pub mod body_words;
pub mod client;
pub mod client_network;
pub mod config;
pub mod connections;
pub mod device_register;
pub mod device_streams;
pub mod drain;
pub mod extra_ca;
pub mod failure;
pub mod file_problem;
pub mod gateway;
pub mod lessons;
pub mod logins;
pub mod observed_requests;
pub mod open_files;
pub mod origin_reports;
pub mod origin_request;
pub mod own_addresses;
pub mod page_parsers;
pub mod port_error;
pub mod predicted_request;
pub mod quota;
pub mod quota_limits;
pub mod response_class;
pub mod rfc3339;
pub mod start;
pub mod tunnel_rules;
pub mod wall_clock;
