//! Firefox's `policies.json`, shared with the policies of others. Pure.
use serde_json::{Map, Value, json};

use crate::step::FirefoxPolicies;

/// Returns the file's text with our members; members of others keep their values.
pub(crate) fn with_ours(text: &str, ours: &FirefoxPolicies) -> Result<String, String> {
    let mut root = parse(text)?;
    let policies = object(&mut root, "policies")?;
    policies.insert("Proxy".to_owned(), proxy(ours));
    if let Some(authority) = &ours.authority {
        let certificates = object(policies, "Certificates")?;
        let install = certificates.entry("Install").or_insert_with(|| json!([]));
        let Value::Array(install) = install else {
            return Err("its member `Install` is not a list".to_owned());
        };
        let file = Value::from(authority.file.as_str());
        if !install.contains(&file) {
            install.push(file);
        }
    }
    Ok(pretty(root))
}

/// True if the file has all our members.
pub(crate) fn has_ours(text: &str, ours: &FirefoxPolicies) -> bool {
    let Ok(root) = parse(text) else { return false };
    let root = Value::Object(root);
    let policies = &root["policies"];
    let installs = |file: &str| {
        let install = policies["Certificates"]["Install"].as_array();
        install.is_some_and(|install| install.iter().any(|present| present == file))
    };
    policies["Proxy"] == proxy(ours)
        && ours
            .authority
            .as_ref()
            .is_none_or(|authority| installs(&authority.file))
}

/// Returns the text of a changed file without our members, with those of `before` in their place; `None` if
/// nothing is left and there was no file.
pub(crate) fn without_ours(
    text: &str,
    before: Option<&str>,
    ours: &FirefoxPolicies,
) -> Result<Option<String>, String> {
    let mut root = parse(text)?;
    let earlier = Value::Object(parse(before.unwrap_or_default()).unwrap_or_default());
    let earlier = &earlier["policies"];
    if let Some(Value::Object(policies)) = root.get_mut("policies") {
        if policies.get("Proxy") == Some(&proxy(ours)) {
            match earlier.get("Proxy") {
                Some(proxy) => policies.insert("Proxy".to_owned(), proxy.clone()),
                None => policies.remove("Proxy"),
            };
        }
        if let Some(authority) = &ours.authority {
            remove_authority(policies, &earlier["Certificates"], &authority.file);
        }
    }
    let is_empty = root
        .values()
        .all(|value| value.as_object().is_some_and(Map::is_empty));
    Ok((before.is_some() || !is_empty).then(|| pretty(root)))
}

fn remove_authority(policies: &mut Map<String, Value>, earlier: &Value, file: &str) {
    let was_there = earlier["Install"]
        .as_array()
        .is_some_and(|install| install.iter().any(|present| present == file));
    let Some(Value::Object(certificates)) = policies.get_mut("Certificates") else {
        return;
    };
    if let Some(Value::Array(install)) = certificates.get_mut("Install") {
        install.retain(|present| was_there || present != file);
        if install.is_empty() && earlier.get("Install").is_none() {
            certificates.remove("Install");
        }
    }
    if certificates.is_empty() && earlier.is_null() {
        policies.remove("Certificates");
    }
}

fn proxy(ours: &FirefoxPolicies) -> Value {
    json!({ "Mode": "autoConfig", "AutoConfigURL": ours.script })
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(root)) => Ok(root),
        Ok(_) => Err("it is not a JSON object".to_owned()),
        Err(error) => Err(format!("it is not valid JSON: {error}")),
    }
}

fn object<'a>(parent: &'a mut Map<String, Value>, name: &str) -> Result<&'a mut Map<String, Value>, String> {
    let Value::Object(object) = parent.entry(name).or_insert_with(|| json!({})) else {
        return Err(format!("its member `{name}` is not an object"));
    };
    Ok(object)
}

fn pretty(root: Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::PolicyAuthority;

    fn ours() -> FirefoxPolicies {
        FirefoxPolicies {
            script: "http://127.0.0.1:3129/proxy.pac".to_owned(),
            authority: Some(PolicyAuthority {
                file: "/etc/ca.pem".to_owned(),
                certificate: String::new(),
            }),
        }
    }

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn policies_of_others_keep_their_meaning() {
        let cases = [
            "{}",
            r#"{"policies":{}}"#,
            r#"{"x":[1.5,null],"policies":{"DisableTelemetry":true,"Proxy":{"Mode":"none","Locked":true}}}"#,
            r#"{"policies":{"Certificates":{"Install":["a.pem"],"ImportEnterpriseRoots":true}}}"#,
            r#"{"policies":{"Certificates":{"Install":["/etc/ca.pem"]}}}"#,
        ];
        for before in cases {
            let with = with_ours(before, &ours()).unwrap();
            assert!(has_ours(&with, &ours()) && !has_ours(before, &ours()));
            assert_eq!(with_ours(&with, &ours()).unwrap(), with, "once is enough");
            let mut changed = value(&with);
            changed["policies"]["BlockAboutConfig"] = json!(true);
            let after = without_ours(&changed.to_string(), Some(before), &ours())
                .unwrap()
                .unwrap();
            let mut expected = value(before);
            expected["policies"]["BlockAboutConfig"] = json!(true);
            assert_eq!(value(&after), expected);
        }
        let alone = with_ours("", &ours()).unwrap();
        assert_eq!(without_ours(&alone, None, &ours()).unwrap(), None);
    }

    #[test]
    fn a_policy_that_somebody_changed_stays() {
        let mut changed = value(&with_ours("", &ours()).unwrap());
        changed["policies"]["Proxy"]["Locked"] = json!(true);
        let after = without_ours(&changed.to_string(), None, &ours())
            .unwrap()
            .unwrap();
        assert_eq!(value(&after)["policies"]["Proxy"], changed["policies"]["Proxy"]);
        for damaged in [
            "{",
            "[]",
            r#"{"policies":1}"#,
            r#"{"policies":{"Certificates":{"Install":{}}}}"#,
        ] {
            assert!(with_ours(damaged, &ours()).is_err(), "{damaged}");
        }
    }
}
