//! `invite`: admits a new device and prints its invite.
use std::io::{self, IsTerminal as _, Write};

use longhaul_gateway_core::config::Config;
use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};

use super::{CommandError, access::DeviceAccess};
use crate::{
    cli::InviteArgs,
    operator::messages::{InviteReply, InviteRequest},
};

pub(super) async fn execute(
    args: &InviteArgs,
    config: &Config,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let request = InviteRequest {
        name: args.device_name().to_owned(),
        address: args.address.clone().or_else(|| config.public_address.clone()),
        expires_s: Some(args.expires.as_secs()),
        one_time: args.once,
        replace: args.replace,
    };
    let reply = DeviceAccess::open(config).await?.order(request).await?;
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string(&reply)?)?);
    }
    writeln!(out, "{}", reply.invite)?;
    if (args.qr || io::stdout().is_terminal() && !args.no_qr)
        && let Some(code) = qr_code(&reply.invite)
    {
        writeln!(out, "{code}")?;
    }
    // Not on standard output: scripts read the invite there.
    Ok(io::stderr().write_all(note(&reply).as_bytes())?)
}

/// What the operator should know about the invite.
fn note(reply: &InviteReply) -> String {
    let replaced = reply.replaced.as_ref().map_or_else(String::new, |id| {
        format!("The device {id}, which had this name, was removed.\n")
    });
    let once = if reply.one_time {
        " Only the first agent that uses it is admitted."
    } else {
        ""
    };
    format!("{replaced}The invite is valid until {}.{once}\n", reply.expires)
}

/// The line as a QR code for a dark terminal; `None` if the line is too long for one.
fn qr_code(line: &str) -> Option<String> {
    // The lowest level of correction: a screen does not get dirty, and a smaller code fits more terminals.
    let code = QrCode::with_error_correction_level(line, EcLevel::L).ok()?;
    let mut picture = code.render::<Dense1x2>();
    let picture = picture.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark);
    Some(picture.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_the_longest_invite_consists_of_half_blocks() {
        let longest = "x".repeat(500);
        let code = qr_code(&longest).unwrap();
        assert!(code.chars().all(|c| "█▀▄ \n".contains(c)), "{code}");
        let widths: Vec<usize> = code.lines().map(|line| line.chars().count()).collect();
        // 77 modules (version 15) and a quiet zone of 4 on both sides.
        assert!(widths.iter().all(|width| *width == 77 + 8), "{widths:?}");
        assert_eq!(widths.len(), (77 + 8_usize).div_ceil(2));
        // An ordinary invite fits a terminal of 80 columns.
        let ordinary = qr_code(&"x".repeat(170)).unwrap();
        assert!(ordinary.lines().all(|line| line.chars().count() <= 61));
    }
}
