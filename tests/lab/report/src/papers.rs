//! Figures of the papers and of current systems, for comparison with the measurements.

/// Factors relative to a browser with HTTP/1.1 and two connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub(crate) system: &'static str,
    pub(crate) time: f64,
    pub(crate) down: f64,
    pub(crate) up: f64,
    pub(crate) bandwidth: f64,
}

const fn factors(system: &'static str, time: f64, down: f64, up: f64, bandwidth: f64) -> Factors {
    Factors {
        system,
        time,
        down,
        up,
        bandwidth,
    }
}

/// PEP-WWAN Table II, GPRS.
pub(crate) const FACTORS_GPRS: &[Factors] = &[
    factors("NettGain C/S", 4.28, 5.31, 4.21, 4.23),
    factors("NettGain CLS", 2.77, 3.77, 1.71, 2.74),
    factors("Macara C/S", 2.18, 2.36, 2.83, 2.05),
    factors("Macara CLS", 1.88, 2.04, 1.49, 1.80),
];
/// PEP-WWAN Table III, UMTS.
pub(crate) const FACTORS_UMTS: &[Factors] = &[
    factors("NettGain C/S", 2.41, 5.02, 3.82, 2.43),
    factors("NettGain CLS", 1.81, 3.58, 1.62, 1.91),
];

/// WWAN-STUDY Tables 6 and 9: seconds on GPRS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StudySite {
    pub(crate) page: &'static str,
    pub(crate) two_connections: f64,
    pub(crate) pipelining: f64,
    pub(crate) six_connections: f64,
    pub(crate) dual_proxy: f64,
}

const fn site(page: &'static str, two: f64, pipelining: f64, six: f64, dual: f64) -> StudySite {
    StudySite {
        page,
        two_connections: two,
        pipelining,
        six_connections: six,
        dual_proxy: dual,
    }
}

/// The four sites with which the study compares all techniques.
pub(crate) const STUDY_SITES: &[StudySite] = &[
    site("mail", 34.5, 15.2, 21.5, 12.4),
    site("yahoo", 35.1, 22.7, 24.2, 9.9),
    site("amazon", 76.4, 39.2, 43.5, 24.3),
    site("cnn", 196.3, 89.1, 123.0, 59.3),
];

/// All reference pages: targets for each of them need all of them.
pub(crate) const REFERENCE_PAGES: &[&str] = &[
    "alps",
    "altavista",
    "amazon",
    "aol",
    "bahn",
    "bbc",
    "cnn",
    "ebay",
    "fortunecity",
    "go",
    "lastminute",
    "mail",
    "nasa",
    "samsung",
    "snoopy",
    "sourceforge",
    "starwars",
    "static",
    "t-mobile",
    "yahoo",
];

/// UMTS-PROXY Table 1: mean and median seconds, persistent connections, no loss in the Internet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProxyLoads {
    pub(crate) system: &'static str,
    pub(crate) mean: f64,
    pub(crate) median: f64,
    pub(crate) mean_pipelined: f64,
    pub(crate) median_pipelined: f64,
}

const fn proxy(system: &'static str, mean: f64, median: f64, mean_pip: f64, median_pip: f64) -> ProxyLoads {
    ProxyLoads {
        system,
        mean,
        median,
        mean_pipelined: mean_pip,
        median_pipelined: median_pip,
    }
}

pub(crate) const UMTS_PROXY: &[ProxyLoads] = &[
    proxy("no proxy", 7.73, 5.95, 6.22, 4.96),
    proxy("TCP proxy", 8.22, 6.16, 6.74, 4.94),
    proxy("Squid, without cache", 7.02, 5.35, 7.09, 5.41),
    proxy("Squid, with cache", 6.92, 5.26, 6.91, 5.40),
];

/// Results in the paper's text about its Figures 9 to 12, whose values are not printed.
pub(crate) const UMTS_PROXY_LOSS: &str = "UMTS-PROXY, Figures 9 to 12 (256 kbit/s dedicated channel, Internet loss 0 to 5 %; the text gives no values \
     of the curves): without a proxy mean and median grow approximately linearly with the loss; a TCP proxy is slower without loss, grows much \
     less, and wins above 1 % loss; Squid with its cache eventually drops far below the TCP proxy, because its mostly idle server connections \
     are closed and start again in slow start, unless the servers keep them open for longer.";

/// Results of current systems on the page `static` (chromium, median of 3, or 2 on lte and geo-sat).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TodaySystem {
    /// Description.
    pub(crate) name: &'static str,
    /// The equivalent system of the benchmark, if there is one.
    pub(crate) system: Option<&'static str>,
    /// Loads on gprs-3+1, umts-384, lte and geo-sat.
    pub(crate) loads: [Option<TodayLoad>; 4],
    /// kB down and up on gprs-3+1.
    pub(crate) kilobytes: &'static str,
}

/// A load of [`TODAY`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TodayLoad {
    pub(crate) seconds: f64,
    /// Ratio to the ideal, if the source states it.
    pub(crate) ratio: Option<f64>,
}

/// The links of [`TODAY`], in its order.
pub(crate) const TODAY_LINKS: [&str; 4] = ["gprs-3+1", "umts-384", "lte", "geo-sat"];
/// Longhaul's targets on these links, relative to the ideal.
pub(crate) const TODAY_AIMS: [f64; 4] = [1.05, 1.10, 3.0, 1.5];
/// Best results of other systems on these links, relative to the ideal.
pub(crate) const TODAY_BEST: [&str; 4] = ["1.14", "1.77", "6.5", "8.7"];

const fn today(
    name: &'static str,
    system: Option<&'static str>,
    loads: [Option<TodayLoad>; 4],
    kilobytes: &'static str,
) -> TodaySystem {
    TodaySystem {
        name,
        system,
        loads,
        kilobytes,
    }
}

const fn load(seconds: f64, ratio: f64) -> Option<TodayLoad> {
    Some(TodayLoad {
        seconds,
        ratio: Some(ratio),
    })
}

const fn bare(seconds: f64) -> Option<TodayLoad> {
    Some(TodayLoad { seconds, ratio: None })
}

pub(crate) const TODAY: &[TodaySystem] = &[
    today(
        "ideal one-shot",
        None,
        [bare(18.53), bare(2.14), bare(0.16), bare(0.68)],
        "88",
    ),
    today(
        "two nghttpx, HTTP/2 over TLS between them, tunnel already open",
        None,
        [load(21.1, 1.14), load(3.8, 1.77), load(1.05, 6.5), load(5.9, 8.7)],
        "100/9",
    ),
    today(
        "compy (lossy images, fewer bytes than the ideal assumes)",
        None,
        [load(20.5, 1.11), load(4.8, 2.23), None, None],
        "84/28",
    ),
    today(
        "QUIC stream tunnel to a Squid",
        None,
        [load(23.5, 1.27), load(4.5, 2.11), None, None],
        "110/27",
    ),
    today(
        "direct, HTTP/1.1",
        Some("direct"),
        [
            load(25.0, 1.35),
            load(4.9, 2.30),
            load(1.28, 7.9),
            load(7.1, 10.5),
        ],
        "106/28",
    ),
    today(
        "direct, HTTPS HTTP/2",
        Some("direct-h2"),
        [load(27.0, 1.46), load(4.2, 1.95), None, None],
        "103/19",
    ),
    today(
        "Squid at the gateway",
        Some("squid"),
        [load(26.2, 1.41), load(5.2, 2.41), None, None],
        "113/33",
    ),
    today(
        "ziproxy (lossy)",
        None,
        [load(30.1, 1.62), load(7.3, 3.40), None, None],
        "98/42",
    ),
    today(
        "plain TCP-splitting proxy",
        Some("tcp-proxy"),
        [load(32.2, 1.74), load(7.7, 3.62), None, None],
        "119/43",
    ),
    today(
        "kcptun to a Squid, tuned",
        None,
        [bare(34.3), bare(5.8), None, None],
        "159/49",
    ),
    today(
        "kcptun to a Squid, defaults",
        None,
        [bare(63.5), bare(10.0), None, None],
        "293/97",
    ),
    today(
        "QPEP (patched to run; fails on gprs and umts, 1 of 2 loads elsewhere)",
        None,
        [None, None, bare(1.2), bare(6.6)],
        "",
    ),
];
