//! Tests of requests to origins over real sockets.
#![forbid(unsafe_code)]

#[cfg(test)]
mod broken_responses;
#[cfg(test)]
mod chains;
#[cfg(test)]
mod dns_answers;
#[cfg(test)]
mod dns_records;
#[cfg(test)]
mod http1;
#[cfg(test)]
mod http2_repeats;
#[cfg(test)]
mod http2_strictness;
#[cfg(test)]
mod https;
#[cfg(test)]
mod kept_connections;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod names;
#[cfg(test)]
mod odd_responses;
#[cfg(test)]
mod openssl;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod pooled_connections;
#[cfg(test)]
mod proxies;
#[cfg(test)]
mod reconfigure;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod silent_http2;
#[cfg(test)]
mod timeouts;
#[cfg(test)]
mod tls_connections;
