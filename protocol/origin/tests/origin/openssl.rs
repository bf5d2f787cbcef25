//! TLS with `openssl s_server`, which has keys, signatures and algorithms that the servers of the other tests do not
//! have.
use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use longhaul_origin::{FetchError, OriginClient, OriginConfig, TlsDefect};
use tempfile::TempDir;

use crate::rig::{LOCAL, config_of, get, text};

const OTHER: Option<TlsDefect> = Some(TlsDefect::Other);

/// Runs a shell script in a folder; returns false if it fails.
fn shell(folder: &TempDir, script: &str) -> bool {
    let mut command = Command::new("sh");
    let command = command.current_dir(folder.path()).args(["-ec", script]);
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Makes `server.key` and `server.pem` for these names with a key of this kind.
fn certify(folder: &TempDir, (key, signing): (&str, &str), names: &str) {
    let names = if names.is_empty() {
        "basicConstraints=CA:false".to_owned()
    } else {
        format!("subjectAltName={names}")
    };
    let script = format!(
        "openssl genpkey {key} -out server.key
         openssl req -new -key server.key -subj /CN=site.test -out request.pem
         echo {names} > extensions
         openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile extensions \
         {signing} -out server.pem"
    );
    assert!(shell(folder, &script), "{key}");
}

/// A running server; it ends when dropped.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(folder: &TempDir, arguments: &str) -> Self {
        let mut process = Command::new("openssl")
            .current_dir(folder.path())
            .args(["s_server", "-accept", "127.0.0.1:0", "-www"])
            .args(["-cert", "server.pem", "-key", "server.key"])
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| line.unwrap().strip_prefix("ACCEPT ")?.parse().ok());
        // Its output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            address: address.unwrap_or_else(|| panic!("{arguments}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

const EC: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const RSA: &str = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
const SITE: &str = "DNS:site.test";

/// Keys, signatures and names of certificates, with the defect that the client finds.
const CERTIFICATES: &[(&str, &str, &str, &str, Option<TlsDefect>)] = &[
    (EC, "", SITE, "https://site.test/", None),
    (RSA, "", SITE, "https://site.test/", None),
    (
        "-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
        "-sha384",
        SITE,
        "https://site.test/",
        None,
    ),
    ("-algorithm ED25519", "", SITE, "https://site.test/", None),
    (
        EC,
        "-sha256 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32",
        SITE,
        "https://site.test/",
        None,
    ),
    // The agent leads its browser into a tunnel, and the browser decides.
    (
        "-algorithm EC -pkeyopt ec_paramgen_curve:P-521",
        "",
        SITE,
        "https://site.test/",
        OTHER,
    ),
    (
        "-algorithm RSA -pkeyopt rsa_keygen_bits:1024",
        "",
        SITE,
        "https://site.test/",
        Some(TlsDefect::UnknownIssuer),
    ),
    (EC, "-sha1", SITE, "https://site.test/", OTHER),
    (EC, "", "", "https://site.test/", Some(TlsDefect::NameMismatch)),
    (EC, "", "DNS:*.store.test", "https://my_bucket.store.test/", None),
    (
        EC,
        "",
        "DNS:my_bucket.store.test",
        "https://my_bucket.store.test/",
        None,
    ),
    (
        EC,
        "",
        "DNS:*.store.test",
        "https://a.b.store.test/",
        Some(TlsDefect::NameMismatch),
    ),
    (EC, "", SITE, "https://SITE.test./", None),
    (EC, "", "IP:192.0.2.7", "https://192.0.2.7/", None),
    (EC, "", "IP:2001:db8::7", "https://[2001:db8::7]/", None),
    (
        EC,
        "",
        "DNS:192.0.2.7",
        "https://192.0.2.7/",
        Some(TlsDefect::NameMismatch),
    ),
];

/// Settings of a server with an RSA key, with the defect that the client finds.
const SERVERS: &[(&str, Option<TlsDefect>)] = &[
    ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", None),
    ("-tls1_2 -cipher ECDHE-RSA-AES256-GCM-SHA384", None),
    ("-tls1_2 -cipher ECDHE-RSA-CHACHA20-POLY1305", None),
    ("-tls1_2 -curves P-256", None),
    ("-tls1_2 -curves P-384", None),
    ("-tls1_2 -curves X25519", None),
    ("-tls1_2 -sigalgs RSA-PSS+SHA256", None),
    ("-tls1_2 -sigalgs RSA+SHA256", None),
    ("-tls1_2 -no_ticket", None),
    ("-tls1_3 -curves P-256", None),
    ("-tls1_3 -curves P-384", None),
    ("-tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256", None),
    ("-tls1_3 -num_tickets 9", None),
    ("-max_send_frag 512", None),
    ("-serverpref -legacy_renegotiation", None),
    // Chromium accepts some of these; the agent leads its browser into a tunnel.
    ("-tls1_2 -cipher ECDHE-RSA-AES128-SHA:@SECLEVEL=0", OTHER),
    ("-tls1_2 -cipher AES128-GCM-SHA256:@SECLEVEL=0", OTHER),
    ("-tls1_2 -cipher DHE-RSA-AES128-GCM-SHA256", OTHER),
    ("-tls1_3 -curves P-521", OTHER),
    ("-tls1_1 -cipher ALL:@SECLEVEL=0", Some(TlsDefect::Version)),
];

#[tokio::test]
async fn keys_names_and_algorithms_are_accepted_as_browsers_do() {
    let folder = TempDir::new().unwrap();
    let authority = format!(
        "openssl genpkey {RSA} -out ca.key
         openssl req -x509 -key ca.key -subj /CN=Authority -days 30 -out ca.pem"
    );
    if !shell(&folder, &authority) {
        println!("SKIPPED: openssl cannot be run");
        return;
    }
    let trusted = std::fs::read(folder.path().join("ca.pem")).unwrap();
    let check = async |arguments: &str, url: &str, expected: Option<TlsDefect>, what: &str| {
        let server = Server::start(&folder, arguments);
        let client = OriginClient::new(OriginConfig {
            extra_ca: vec![trusted.clone()],
            ..config_of(server.address)
        })
        .unwrap();
        // The second connection resumes the session of the first one, if the server permits it.
        for _ in 0..2 {
            let page = match client.fetch(get(url), LOCAL).await {
                Ok(response) => text(response)
                    .await
                    .map(|text| text.contains("s_server"))
                    .unwrap_or(true),
                Err(error) => {
                    assert_eq!(Some(&error), expected.map(FetchError::Tls).as_ref(), "{what}");
                    continue;
                }
            };
            assert!(page && expected.is_none(), "{what}");
        }
    };
    for (key, signing, names, url, expected) in CERTIFICATES {
        certify(&folder, (key, signing), names);
        // Short keys and old signatures, too.
        check(
            "-cipher DEFAULT:@SECLEVEL=0",
            url,
            *expected,
            &format!("{key} {signing} {names} {url}"),
        )
        .await;
    }
    certify(&folder, (RSA, ""), SITE);
    for (arguments, expected) in SERVERS {
        check(arguments, "https://site.test/", *expected, arguments).await;
    }
}
