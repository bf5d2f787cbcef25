//! One plain HTTP request with a bound on time and size, for the agent's status and the look for a captive
//! portal.
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Maximum size of a response: a status has less than 64 KiB.
const MAX_RESPONSE: u64 = 1024 * 1024;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    /// Status code.
    pub(crate) status: u16,
    /// Value of `Location`.
    pub(crate) location: Option<String>,
    /// The body.
    pub(crate) body: String,
}

/// Sends a GET request; `host` is the value of `Host`, `token` the control port's token.
///
/// # Errors
/// Nothing answers within `limit` for each step, or the answer is not HTTP.
pub(crate) fn get(
    address: SocketAddr,
    host: &str,
    path: &str,
    token: Option<&str>,
    limit: Duration,
) -> io::Result<Response> {
    get_up_to(MAX_RESPONSE, address, host, path, token, limit)
}

/// The same with another maximum size of the response, in bytes.
///
/// # Errors
/// Nothing answers within `limit` for each step, or the answer is not HTTP.
pub(crate) fn get_up_to(
    most: u64,
    address: SocketAddr,
    host: &str,
    path: &str,
    token: Option<&str>,
    limit: Duration,
) -> io::Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let authorization = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Accept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let read = stream.take(most).read_to_end(&mut answer);
    // A server may keep the connection open although it has answered.
    match read {
        Err(error) if answer.is_empty() => return Err(error),
        Ok(_) | Err(_) => {}
    }
    parse(&String::from_utf8_lossy(&answer))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

fn parse(answer: &str) -> Option<Response> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location")
            .then(|| value.trim().to_owned())
    };
    Some(Response {
        status: status.parse().ok()?,
        location: lines.find_map(field),
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read() {
        let redirect = parse("HTTP/1.1 302 Found\r\nX: y\r\nlocation: http://a.test/\r\n\r\nbody").unwrap();
        assert_eq!((redirect.status, redirect.body.as_str()), (302, "body"));
        assert_eq!(redirect.location.as_deref(), Some("http://a.test/"));
        assert_eq!(
            parse("HTTP/1.0 204 No Content\r\n\r\n").map(|response| response.status),
            Some(204)
        );
        for wrong in [
            "",
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
