//! Parsers of the settings that have a form of their own.
use std::{net::SocketAddr, time::Duration};

use longhaul_origin::Cidr;
use longhaul_session::ImageLevel;
use longhaul_settings::{Form, Value, Wrong, units::parse_duration};
use longhaul_types::{Invite, LinkProfile};

use url::Url;

use super::Fallback;
use crate::{
    gateway::{Carriers, PinPolicy, PortalCheck},
    holdout::HoldOutSetting,
    https::Accelerate,
    networks::Metered,
};

pub(super) fn address(value: &Value, _: &Form) -> Result<SocketAddr, Wrong> {
    let text = value.text()?;
    text.parse()
        .map_err(|_| Wrong::new(format!("`{text}` is not ADDRESS:PORT")))
}

pub(super) fn loopback_address(value: &Value, form: &Form) -> Result<SocketAddr, Wrong> {
    let address = address(value, form)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    let problem = format!("`{address}` could be reached from other machines");
    Err(Wrong::new(problem).instead("use 127.0.0.1 or [::1]"))
}

pub(super) fn ranges(value: &Value, _: &Form) -> Result<Vec<Cidr>, Wrong> {
    let ranges = value
        .texts()?
        .into_iter()
        .map(|text| text.parse::<Cidr>().map_err(Wrong::new));
    ranges.collect()
}

pub(super) fn invite(value: &Value, _: &Form) -> Result<Option<Invite>, Wrong> {
    value.text()?.parse().map(Some).map_err(Wrong::explained)
}

pub(super) fn link(value: &Value, _: &Form) -> Result<Option<LinkProfile>, Wrong> {
    value.text()?.parse().map(Some).map_err(Wrong::explained)
}

pub(super) fn carriers(value: &Value, _: &Form) -> Result<Carriers, Wrong> {
    let names = value.texts()?;
    let has = |name: &str| names.iter().any(|one| one == name);
    if let Some(unknown) = names
        .iter()
        .find(|name| !["auto", "udp", "tls", "quic"].contains(&name.as_str()))
    {
        return Err(
            Wrong::new(format!("`{unknown}` is no carrier")).instead("write `auto`, `udp`, `tls` or `quic`")
        );
    }
    if has("auto") {
        return Ok(Carriers::AUTO);
    }
    let (udp, tls, quic) = (has("udp"), has("tls"), has("quic"));
    if udp || tls || quic {
        Ok(Carriers { udp, tls, quic })
    } else {
        Err(Wrong::new("no carrier could reach the gateway").instead("write `auto`"))
    }
}

pub(super) fn metered(value: &Value, _: &Form) -> Result<Metered, Wrong> {
    if value.text() == Ok("auto") {
        return Ok(Metered::Auto);
    }
    let yes = Form::YesNo
        .yes_no(value)
        .map_err(|wrong| wrong.instead("write `yes`, `no` or `auto`"))?;
    Ok(if yes { Metered::Yes } else { Metered::No })
}

pub(super) fn hold_out(value: &Value, form: &Form) -> Result<HoldOutSetting, Wrong> {
    // The words are `yes`, `no` and `metered`, in this order.
    Ok(match form.word(value)? {
        0 => HoldOutSetting::Yes,
        1 => HoldOutSetting::No,
        _ => HoldOutSetting::Metered,
    })
}

pub(super) fn pin(value: &Value, form: &Form) -> Result<PinPolicy, Wrong> {
    // The words are `note` and `require`, in this order.
    Ok(match form.word(value)? {
        1 => PinPolicy::Require,
        _ => PinPolicy::Note,
    })
}

pub(super) fn portal_check(value: &Value, _: &Form) -> Result<PortalCheck, Wrong> {
    let text = value.text()?;
    match text {
        "on" => return Ok(PortalCheck::Public),
        "off" => return Ok(PortalCheck::Off),
        _ => {}
    }
    match Url::parse(text) {
        // A portal cannot answer in the place of an https server.
        Ok(url) if url.scheme() == "http" && url.has_host() => Ok(PortalCheck::Url(url)),
        Ok(_) | Err(_) => Err(Wrong::new(format!("`{text}` is no address of plain http"))
            .instead("write such as http://check.example.org/generate_204, \"on\" or \"off\"")),
    }
}

/// The name of a profile.
pub(super) fn name_of_link(profile: &LinkProfile) -> Option<&'static str> {
    LinkProfile::names().find(|name| name.parse() == Ok(*profile))
}

pub(super) fn image_level(value: &Value, form: &Form) -> Result<ImageLevel, Wrong> {
    let text = value.text()?;
    form.word(value)?;
    ImageLevel::ALL
        .into_iter()
        .find(|level| level.name() == text)
        .ok_or_else(|| Wrong::new(format!("`{text}` is no level")))
}

pub(super) fn fallback(value: &Value, _: &Form) -> Result<Fallback, Wrong> {
    let text = value.text_with_unit()?;
    if text == "never" {
        return Ok(Fallback::Never);
    }
    match parse_duration(text).map_err(Wrong::new)? {
        Duration::ZERO => {
            Err(Wrong::new("0 would always go around the gateway").instead("write at least 1s, or \"never\""))
        }
        after => Ok(Fallback::After(after)),
    }
}

pub(super) fn page_after(value: &Value, _: &Form) -> Result<Option<Duration>, Wrong> {
    let text = value.text_with_unit()?;
    if text == "never" {
        return Ok(None);
    }
    parse_duration(text).map(Some).map_err(Wrong::new)
}

pub(super) fn patience(value: &Value, _: &Form) -> Result<Duration, Wrong> {
    match parse_duration(value.text_with_unit()?).map_err(Wrong::new)? {
        Duration::ZERO => {
            Err(Wrong::new("0 would believe in no push at all")
                .instead("write `push.enabled = false` for that"))
        }
        patience => Ok(patience),
    }
}

pub(super) fn accelerate(value: &Value, form: &Form) -> Result<Accelerate, Wrong> {
    match value.text() {
        Ok("off") => Ok(Accelerate::Off),
        Ok("all") => Ok(Accelerate::All),
        Ok(_) | Err(_) => hosts(value, form).map(Accelerate::Only),
    }
}

pub(super) fn hosts(value: &Value, _: &Form) -> Result<Vec<String>, Wrong> {
    let host = |name: String| {
        let name = name.trim_start_matches("*.").to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if name.len() <= 253 && name.chars().all(plain) {
            Ok(name)
        } else {
            let problem = format!("`{name}` is no host name");
            Err(Wrong::new(problem).instead("write such as example.org, without https:// and path"))
        }
    };
    value.texts()?.into_iter().map(host).collect()
}
