//! A gateway that is built without the proxy for clients without an agent.
use longhaul_gateway::Server;
use longhaul_gateway_core::config::{Environment, SettingArgs, resolve, settings};

#[tokio::test]
async fn settings_of_absent_ports_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let flags = SettingArgs::default()
        .with(&settings::LISTEN, "127.0.0.1:0")
        .with(&settings::STATE_DIR, home.path().join("state").to_str().unwrap());
    for (flags, words) in [
        (
            flags.clone().with(&settings::CLIENTLESS_LISTEN, "127.0.0.1:0"),
            "clientless.listen: this gateway is built without the proxy",
        ),
        (
            flags.clone().with(&settings::DNS_LISTEN, "127.0.0.1:0"),
            "dns.listen: this gateway is built without the proxy",
        ),
    ] {
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        let error = Server::bind(&config).await.err().unwrap().to_string();
        assert!(error.starts_with(words), "{error}");
    }
}
