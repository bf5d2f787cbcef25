//! Names of the settings in file, environment and command line.

/// The names of one setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Keys {
    /// Key in the file: `section.key`.
    pub path: &'static str,
    /// Variable of the environment.
    pub env: &'static str,
    /// Flag of the command line; empty if there is none.
    pub flag: &'static str,
}

macro_rules! keys {
    ($($name:ident: $path:literal, $env:literal, $flag:literal;)*) => {
        $(pub(crate) const $name: Keys = Keys { path: $path, env: $env, flag: $flag };)*
        /// All settings, in the order of `check-config`.
        pub(crate) const ALL: &[&Keys] = &[$(&$name),*];
    };
}

keys! {
    LISTEN: "listen", "LONGHAUL_LISTEN", "--listen";
    STATE_DIR: "state-dir", "LONGHAUL_STATE_DIR", "--state-dir";
    LOG: "log", "LONGHAUL_LOG", "--log";
    FETCH_RESOLVE: "fetch.resolve", "LONGHAUL_FETCH_RESOLVE", "--resolve";
    FETCH_EXTRA_CA: "fetch.extra-ca", "LONGHAUL_FETCH_EXTRA_CA", "--extra-ca";
    FETCH_DENY_KEYS: "fetch.deny-keys", "LONGHAUL_FETCH_DENY_KEYS", "--deny-key";
    FETCH_DNS: "fetch.dns", "LONGHAUL_FETCH_DNS", "--dns";
    FETCH_RESPONSE_TIMEOUT: "fetch.response-timeout", "LONGHAUL_FETCH_RESPONSE_TIMEOUT", "";
    FETCH_IDLE_TIMEOUT: "fetch.idle-timeout", "LONGHAUL_FETCH_IDLE_TIMEOUT", "";
    GUARD_ALLOW: "guard.allow", "LONGHAUL_GUARD_ALLOW", "--allow";
    CACHE_SIZE: "cache.size", "LONGHAUL_CACHE_SIZE", "--cache-size";
    CACHE_DIR: "cache.dir", "LONGHAUL_CACHE_DIR", "--cache-dir";
    CODING_EFFORT: "coding.effort", "LONGHAUL_CODING_EFFORT", "--coding-effort";
    PICTURES_MEMORY: "pictures.memory", "LONGHAUL_PICTURES_MEMORY", "";
    PICTURES_MAX_MEGAPIXELS: "pictures.max-megapixels", "LONGHAUL_PICTURES_MAX_MEGAPIXELS", "";
    PICTURES_WORKERS: "pictures.workers", "LONGHAUL_PICTURES_WORKERS", "";
    TUNNEL_PORTS: "tunnel.ports", "LONGHAUL_TUNNEL_PORTS", "--tunnel-ports";
    TUNNEL_IDLE_TIMEOUT: "tunnel.idle-timeout", "LONGHAUL_TUNNEL_IDLE_TIMEOUT", "";
    METRICS_LISTEN: "metrics.listen", "LONGHAUL_METRICS_LISTEN", "--metrics";
    LIMITS_SESSIONS: "limits.sessions", "LONGHAUL_LIMITS_SESSIONS", "";
    LIMITS_STREAMS_PER_SESSION: "limits.streams-per-session", "LONGHAUL_LIMITS_STREAMS_PER_SESSION", "";
    LIMITS_STREAMS_PER_DEVICE: "limits.streams-per-device", "LONGHAUL_LIMITS_STREAMS_PER_DEVICE", "";
    LIMITS_QUEUE_TIMEOUT: "limits.queue-timeout", "LONGHAUL_LIMITS_QUEUE_TIMEOUT", "";
}
