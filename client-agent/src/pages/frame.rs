//! The common layout of all pages of the agent: one file, no external resources.
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Content security policy: the page contains only text and its own style, and may load and execute nothing.
pub(crate) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#1d2733;background:#eef1f5;margin:0}\
main{max-width:44rem;margin:3rem auto;padding:1.5rem 2rem 2rem;background:#fff;border-radius:10px;\
border-top:5px solid #1c6ea4;box-shadow:0 1px 4px #0002}\
h1{font-size:1.45rem;line-height:1.25;margin:.3rem 0 .8rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}\
dt{font-weight:600;margin-top:.9rem}dd{margin:0}\
code{font:13px/1.4 ui-monospace,monospace;color:#555;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}td{padding:.3rem 0;border-bottom:1px solid #8883}td+td{text-align:right}\
button{font:inherit;padding:.25rem .8rem;border:1px solid #1c6ea4;border-radius:6px;background:none;color:inherit}\
button:disabled{background:#1c6ea4;color:#fff}\
footer{color:#778;font-size:.8rem;margin-top:1.6rem}a{color:#1c6ea4}\
.ok{color:#187a3c}.wait{color:#a86400}.bad{color:#b3261e}\
@media(prefers-color-scheme:dark){body{color:#dde3ea;background:#14181d}main{background:#1e242b}code{color:#aab}}";

/// Returns a document around `main`; `head` follows the declarations that each page has.
pub(crate) fn document(title: &str, head: &Markup, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                (head)
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (main)
                    footer { "Longhaul agent " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    }
}
