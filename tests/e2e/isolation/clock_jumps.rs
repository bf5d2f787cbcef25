//! Jumps of the wall clock of agent and gateway.
use std::{
    ffi::{OsStr, OsString},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    client::{Ending, RawResponse, ask, get},
    origin::Origin,
    process::{Running, run},
    raw_origin::RawOrigin,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, control, folder, free_udp_port, invite, status_until},
};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const YEAR: i64 = 365 * 24 * HOUR;
const JUMPS: [i64; 6] = [MINUTE, -MINUTE, HOUR, -HOUR, 10 * YEAR, -10 * YEAR];
/// Paths of the library in Debian's package.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

/// The wall clock of one program, which the test sets; the monotonic clock is not affected.
#[derive(Debug)]
struct WallClock {
    library: OsString,
    offset: PathBuf,
}

impl WallClock {
    fn new(folder: &Path, name: &str) -> Result<Self> {
        let library = LIBRARIES.iter().find(|path| Path::new(path).exists());
        let clock = Self {
            library: library
                .context("libfaketime: run scripts/install-tools.sh test")?
                .into(),
            offset: folder.join(format!("{name}.clock")),
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the difference to the correct time.
    fn set(&self, seconds: i64) -> Result<()> {
        // Replace the file atomically: the program reads it at each call of its clock.
        let new = self.offset.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(std::fs::rename(new, &self.offset)?)
    }

    fn variables(&self) -> [(&str, &OsStr); 4] {
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.as_os_str()),
            ("FAKETIME_NO_CACHE", OsStr::new("1")),
            ("FAKETIME_DONT_FAKE_MONOTONIC", OsStr::new("1")),
        ]
    }
}

/// A pair whose programs have clocks of their own.
#[derive(Debug)]
struct ClockedPair {
    gateway_clock: WallClock,
    agent_clock: WallClock,
    gateway_address: SocketAddr,
    gateway: Option<Running>,
    agent: Running,
    folder: TempDir,
}

impl ClockedPair {
    async fn start(names: &[(&str, SocketAddr)], authority: &TestAuthority) -> Result<Self> {
        let folder = folder()?;
        let trusted = folder.path().join("trusted.pem");
        std::fs::write(&trusted, authority.pem())?;
        let names: String = names
            .iter()
            .map(|(name, address)| format!("\"{name}\" = \"{address}\"\n"))
            .collect();
        let config = format!(
            "[fetch.resolve]\n{names}\n[fetch]\nextra-ca = ['{}']\n",
            trusted.display()
        );
        std::fs::write(folder.path().join("gateway.toml"), config)?;
        let gateway_clock = WallClock::new(folder.path(), "gateway")?;
        let agent_clock = WallClock::new(folder.path(), "agent")?;
        let gateway_address = free_udp_port().await?;
        let line = invite(folder.path(), "test", &gateway_address.to_string()).await?;
        let gateway = start_gateway(folder.path(), gateway_address, &gateway_clock).await?;
        let state = folder.path().join("agent");
        let mut arguments: Vec<OsString> = [
            "run",
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
            "--invite",
        ]
        .map(OsString::from)
        .to_vec();
        arguments.extend([line.into(), "--state-dir".into(), state.into_os_string()]);
        arguments
            .extend(["--fallback-after", "never", "--https-accelerate", "secure.test"].map(OsString::from));
        let agent = Running::start_with("longhaul-agent", &arguments, &agent_clock.variables()).await?;
        Ok(Self {
            gateway_clock,
            agent_clock,
            gateway_address,
            gateway: Some(gateway),
            agent,
            folder,
        })
    }

    /// Navigates over plain http.
    async fn get(&self, url: &str) -> Result<RawResponse> {
        let fields = [
            ("Accept", "text/html,*/*;q=0.8"),
            ("Upgrade-Insecure-Requests", "1"),
        ];
        ask(self.agent.address(), get(url, &fields)).await
    }

    /// Loads a page with a new URL.
    async fn load_new_page(&self, what: &str) -> Result<()> {
        let response = self
            .get(&format!("http://site.test/new/{what}"))
            .await
            .with_context(|| what.to_owned())?;
        ensure!(
            (response.status, response.ending) == (200, Ending::Whole),
            "{what}: {}",
            response.text()
        );
        Ok(())
    }

    /// Restarts the gateway, so that the agent connects again.
    async fn restart_gateway(&mut self) -> Result<()> {
        self.gateway.take().context("a gateway")?.kill().await?;
        self.gateway =
            Some(start_gateway(self.folder.path(), self.gateway_address, &self.gateway_clock).await?);
        Ok(())
    }

    /// Loads a page of the accelerated host with a browser whose clock differs by `off` seconds.
    async fn load_accelerated_host(&self, off: i64, trusted: &str) -> Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_details(provider, Arc::new(SkewedClock(off)))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut stream = TcpStream::connect(self.agent.address()).await?;
        stream
            .write_all(b"CONNECT secure.test:443 HTTP/1.1\r\nHost: secure.test:443\r\n\r\n")
            .await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect("secure.test".try_into()?, stream)
            .await?;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: secure.test\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = Vec::new();
        let _no_close_notify = stream.read_to_end(&mut answer).await;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Clock of a browser, with its difference to the correct time in seconds.
#[derive(Debug)]
struct SkewedClock(i64);

impl TimeProvider for SkewedClock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let seconds = now.as_secs().checked_add_signed(self.0)?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

async fn start_gateway(folder: &Path, listen: SocketAddr, clock: &WallClock) -> Result<Running> {
    let (config, state) = (folder.join("gateway.toml"), folder.join("gateway"));
    let listen = listen.to_string();
    let arguments = [
        OsStr::new("run"),
        OsStr::new("--listen"),
        OsStr::new(&listen),
        OsStr::new("--config"),
        config.as_os_str(),
        OsStr::new("--state-dir"),
        state.as_os_str(),
    ];
    Running::start_with("longhaul-gateway", &arguments, &clock.variables()).await
}

/// Each response contains the number of earlier requests and has no `Date`, which would reveal the wrong
/// clock.
async fn counting_origin() -> Result<RawOrigin> {
    let count = AtomicUsize::new(0);
    RawOrigin::start(move |path| {
        let text = format!("answer {}", count.fetch_add(1, Relaxed));
        let control = if path == "/kept" { "max-age=600" } else { "no-store" };
        let length = text.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: {control}\r\nContent-Length: {length}");
        format!("{head}\r\n\r\n{text}").into_bytes()
    })
    .await
}

async fn secure_origin(authority: &TestAuthority) -> Result<Origin> {
    let answer = |_request: Request<Incoming>| std::future::ready(ok("text/plain", "secure"));
    Origin::start(Some(authority.server(&["secure.test"])?), |_| {}, answer).await
}

async fn setup() -> Result<(RawOrigin, Origin, ClockedPair)> {
    let authority = TestAuthority::new()?;
    let origin = counting_origin().await?;
    let secure = secure_origin(&authority).await?;
    let names = [
        ("site.test", origin.address()),
        ("secure.test:443", secure.address()),
    ];
    let clocked = ClockedPair::start(&names, &authority).await?;
    Ok((origin, secure, clocked))
}

/// Pages load before, during and after each jump, in the open session and in a new one.
#[tokio::test(flavor = "multi_thread")]
async fn pages_load_across_clock_jumps() -> Result<()> {
    let (_origin, _secure, mut clocked) = setup().await?;
    clocked.load_new_page("before").await?;
    for end in ["gateway", "agent"] {
        for jump in JUMPS {
            let clock = if end == "gateway" {
                &clocked.gateway_clock
            } else {
                &clocked.agent_clock
            };
            clock.set(jump)?;
            clocked.load_new_page(&format!("{end}/{jump}")).await?;
            if jump.abs() > HOUR {
                clocked.restart_gateway().await?;
                clocked.load_new_page(&format!("{end}/{jump}/new")).await?;
            }
            let clock = if end == "gateway" {
                &clocked.gateway_clock
            } else {
                &clocked.agent_clock
            };
            clock.set(0)?;
            clocked.load_new_page(&format!("{end}/{jump}/back")).await?;
            if jump.abs() > HOUR {
                clocked.restart_gateway().await?;
                clocked.load_new_page(&format!("{end}/{jump}/back/new")).await?;
            }
        }
    }
    // The request may travel in early data, before the session is open.
    let status = status_until(control(clocked.folder.path())?, |status| {
        status["state"] == "open"
    })
    .await?;
    println!("sessions {}, repeated {}", status["sessions"], status["repeated"]);
    Ok(())
}

/// A response with a reception time in the future is not fresh.
#[tokio::test(flavor = "multi_thread")]
async fn responses_do_not_stay_fresh_after_a_clock_is_set_back() -> Result<()> {
    let (_origin, _secure, clocked) = setup().await?;
    for ahead in [HOUR, 10 * YEAR] {
        clocked.gateway_clock.set(ahead)?;
        clocked.agent_clock.set(ahead)?;
        let first = clocked.get("http://site.test/kept").await?;
        assert_eq!(
            clocked.get("http://site.test/kept").await?.text(),
            first.text(),
            "the response is not cached"
        );
        clocked.gateway_clock.set(0)?;
        clocked.agent_clock.set(0)?;
        let second = clocked.get("http://site.test/kept").await?;
        assert_ne!(
            second.text(),
            first.text(),
            "stored {ahead} s in the future and still fresh"
        );
        // Jumps of one program alone.
        for clock in [&clocked.agent_clock, &clocked.gateway_clock] {
            clock.set(ahead)?;
            let ahead_of_other = clocked.get("http://site.test/kept").await?;
            assert_eq!(ahead_of_other.status, 200);
            clock.set(0)?;
            assert_eq!(clocked.get("http://site.test/kept").await?.status, 200);
        }
    }
    // Forward jump: a fresh response becomes stale.
    let first = clocked.get("http://site.test/kept").await?;
    clocked.gateway_clock.set(HOUR)?;
    clocked.agent_clock.set(HOUR)?;
    assert_ne!(clocked.get("http://site.test/kept").await?.text(), first.text());
    Ok(())
}

/// Certificates for browsers are valid by the agent's clock, which is also the browser's.
#[tokio::test(flavor = "multi_thread")]
async fn issued_certificates_are_valid_by_the_agents_clock() -> Result<()> {
    let (_origin, _secure, clocked) = setup().await?;
    let state = clocked.folder.path().join("agent").display().to_string();
    let exported = run(
        "longhaul-agent",
        &["ca", "export", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    let trusted = exported.stdout;
    assert!(
        clocked
            .load_accelerated_host(0, &trusted)
            .await?
            .starts_with("HTTP/1.1 200")
    );
    // The validity dates of the authority are not tested: rustls ignores those of trust anchors.
    for jump in JUMPS {
        clocked.agent_clock.set(jump)?;
        let answer = clocked
            .load_accelerated_host(jump, &trusted)
            .await
            .with_context(|| jump.to_string())?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{jump}: {answer}");
        clocked.agent_clock.set(0)?;
        let answer = clocked
            .load_accelerated_host(0, &trusted)
            .await
            .with_context(|| format!("{jump}, back"))?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{jump}, back: {answer}");
    }
    Ok(())
}
