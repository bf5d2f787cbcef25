//! The proxy auto-configuration script.
use crate::{captive_portal, local_network};

/// Media type of the script. Browsers ignore the script under another type. It is served without content
/// coding, which not all browsers remove here.
pub const MEDIA_TYPE: &str = "application/x-ns-proxy-autoconfig";

/// Returns the script for a proxy at `proxy`, which is HOST:PORT.
///
/// It sends all non-local requests to the proxy, with `DIRECT` as alternative while it does not answer. It
/// decides by the text of the host alone: `dnsResolve` and `isInNet` would resolve names over the slow hop. Names below
/// `domains` are local, too.
pub fn script(proxy: impl std::fmt::Display, domains: &[String]) -> String {
    script_for("PROXY", &proxy.to_string(), domains)
}

/// Returns the script for a secure web proxy, to which browsers speak TLS. See [`script`].
pub fn secure_script(proxy: impl std::fmt::Display) -> String {
    script_for("HTTPS", &proxy.to_string(), &[])
}

fn script_for(kind: &str, proxy: &str, domains: &[String]) -> String {
    // Through a proxy, systems and browsers would not detect a captive portal.
    let probes: Vec<String> = captive_portal::hosts()
        .map(|name| format!("\"{name}\""))
        .collect();
    let probes = probes.join(", ");
    let suffixes = local_network::SUFFIXES
        .into_iter()
        .chain(domains.iter().map(String::as_str));
    let local: Vec<String> = suffixes.map(|name| name.replace('.', "\\.")).collect();
    TEMPLATE
        .replace("@LOCAL@", &local.join("|"))
        .replace("@PROXY@", &format!("{kind} {proxy}"))
        .replace("@PROBES@", &probes)
}

const TEMPLATE: &str = r#"function FindProxyForURL(url, host) {
  var h = host.toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
  if (h.indexOf(":") >= 0) {
    return /^(::1$|::$|f[cd][0-9a-f]{2}:|fe[89ab][0-9a-f]:|::ffff:((127|10|192\.168|169\.254)\.|(7f[0-9a-f]{2}|a[0-9a-f]{2}|ac1[0-9a-f]|c0a8|a9fe):))/.test(h) ? "DIRECT" : "@PROXY@; DIRECT";
  }
  if (h.indexOf(".") < 0 || /(^|\.)(@LOCAL@)$/.test(h)) {
    return "DIRECT";
  }
  if (/^\d+\.\d+\.\d+\.\d+$/.test(h) && /^(0|10|127|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./.test(h)) {
    return "DIRECT";
  }
  var probes = [@PROBES@];
  for (var i = 0; i < probes.length; i++) {
    if (h === probes[i]) {
      return "DIRECT";
    }
  }
  return "@PROXY@; DIRECT";
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pac_script_names_the_proxy_and_makes_no_dns_lookup() {
        let script = script("127.0.0.1:3128", &["fritz.box".to_owned()]);
        assert!(script.starts_with("function FindProxyForURL(url, host) {"));
        assert_eq!(script.matches("\"PROXY 127.0.0.1:3128; DIRECT\"").count(), 2);
        assert!(script.contains("\"captive.apple.com\", "));
        assert!(!script.contains('@'));
        assert!(
            script.contains(r"(home|home\.arpa|internal|lan|local|localhost|fritz\.box)$/"),
            "{script}"
        );
        for lookup in [
            "dnsResolve",
            "isInNet",
            "isResolvable",
            "myIpAddress",
            "dnsDomainLevels",
        ] {
            assert!(!script.contains(lookup));
        }
        assert_eq!(script.matches('{').count(), script.matches('}').count());
        let v6 = super::script("[::1]:3128".parse::<std::net::SocketAddr>().unwrap(), &[]);
        assert!(v6.contains("\"PROXY [::1]:3128; DIRECT\""));
        let secure = secure_script("gw.example.org:3129");
        assert_eq!(secure.matches("\"HTTPS gw.example.org:3129; DIRECT\"").count(), 2);
        assert_eq!(secure.matches("PROXY").count(), 0);
    }
}
