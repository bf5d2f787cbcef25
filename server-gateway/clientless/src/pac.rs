//! Requests for the proxy itself: the proxy auto-configuration script.
use http::{HeaderValue, Method, StatusCode, header};
use longhaul_http::{pac, target::host_and_port};

use super::{access::Security, answer::Answer};

/// Path of the script.
const PATH: &str = "/proxy.pac";
/// Ports of a host without one.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Answers a request in origin form. `host` is the address by which the client reaches the proxy.
pub(super) fn answer(security: Security, method: &Method, path: &str, host: Option<&HeaderValue>) -> Answer {
    let is_script = path.split('?').next() == Some(PATH);
    let is_readable = [Method::GET, Method::HEAD].contains(method);
    let proxy = host
        .filter(|_| is_script && is_readable)
        .and_then(|host| proxy_of(security, host));
    let Some(proxy) = proxy else {
        return Answer::text(StatusCode::NOT_FOUND, "Not Found\n");
    };
    let script = match security {
        Security::Plain => pac::script(&proxy, &[]),
        Security::Tls => pac::secure_script(&proxy),
    };
    let mut answer = Answer::text(StatusCode::OK, script);
    answer
        .headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(pac::MEDIA_TYPE));
    answer
}

/// The address as the client names it, checked, because it becomes a part of the script.
fn proxy_of(security: Security, host: &HeaderValue) -> Option<String> {
    let (host, port) = host_and_port(&host.to_str().ok()?.parse().ok()?).ok()?;
    let port = port.unwrap_or(match security {
        Security::Plain => HTTP,
        Security::Tls => HTTPS,
    });
    Some(if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}
