//! Files of the gateway that an operator may edit or damage: a backup, and the counts of devices.
use longhaul_gateway::reencode_backup;
use longhaul_gateway_core::admin::device_usage::reencode_usage;

/// A key as files write it: 32 bytes in base64.
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

/// A backup that is read and written again keeps its contents, with the hash of the input and with the right one:
/// no mutation finds the hash of what it changed.
pub(crate) fn backup(bytes: &[u8]) {
    let with_hash = format!("longhaul-gateway-backup 1 {}\n", blake3::hash(bytes).to_hex());
    for backup in [bytes.to_vec(), [with_hash.as_bytes(), bytes].concat()] {
        if let Ok(written) = reencode_backup(&backup) {
            let again = reencode_backup(&written).expect("the backup that was just written");
            assert_eq!(again, written, "a backup changed");
        }
    }
}

pub(crate) fn backup_seeds() -> Vec<Vec<u8>> {
    let document =
        r#"{"software": "longhaul-gateway/0.2.0", "files": {"gateway.key": "AAEC", "devices.toml": ""}}"#;
    vec![document.as_bytes().to_vec()]
}

/// Counts that are read and written again are equal.
pub(crate) fn usage(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(written) = reencode_usage(text) {
        let text = String::from_utf8(written).expect("JSON is UTF-8");
        let again = reencode_usage(&text).expect("the file that was just written");
        assert_eq!(again, text.as_bytes(), "the counts changed");
    }
}

pub(crate) fn usage_seeds() -> Vec<Vec<u8>> {
    let entry = |seen: u64, month: &str| {
        format!(
            r#"{{"version":1,"devices":{{"{KEY}":{{"seen":{seen},"software":"longhaul-agent/0.2.0","link_bps":8,"up":1,"down":2,"month":"{month}","month_up":1,"month_down":2}}}}}}"#
        )
        .into_bytes()
    };
    vec![entry(1_796_083_199, "2026-11"), entry(u64::MAX, "1970-01")]
}
