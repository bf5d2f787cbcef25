//! Descriptions of the settings that both programs have.
use longhaul_settings::{Form, Setting, Value, Wrong, quoted};

use crate::{LogFilter, LogFormat};

/// `log`
pub const LOG: Setting<LogFilter> = Setting::new(
    "log",
    Form::Text(
        "`error`, `warn`, `info`, `debug` or `trace`, and further ones for parts of the program, such as \
         `info,longhaul_origin=debug`",
    ),
    |_| LogFilter::default(),
    filter,
    |filter| Some(quoted(filter.text())),
)
.flag("--log", "FILTER")
.reloadable()
.meaning("minimum severity of log messages")
.reason(
    "URLs and hosts appear only at `debug`. Parts of the program are its modules, such as \
         `longhaul_gateway::tunnel`; parts that the filter does not name have the severity `info`",
);

/// `log-format`
pub const LOG_FORMAT: Setting<LogFormat> = Setting::new(
    "log-format",
    Form::OneOf(&["auto", "text", "json", "journal"]),
    |_| LogFormat::Auto,
    format,
    |format| Some(quoted(format.name())),
)
.flag("--log-format", "FORMAT")
.meaning("format of log messages on standard error")
.reason(
    "`text`: lines with a timestamp; `json`: one object in each line; `journal`: lines with the \
         priority of sd-daemon(3) as prefix, such as `<6>`, and without a timestamp, which the journal \
         adds. `auto` is `journal` if standard error is connected to the journal (JOURNAL_STREAM), else \
         `text`",
);

fn filter(value: &Value, _: &Form) -> Result<LogFilter, Wrong> {
    LogFilter::parse(value.text()?).map_err(Wrong::new)
}

fn format(value: &Value, form: &Form) -> Result<LogFormat, Wrong> {
    form.word(value)?;
    let text = value.text()?;
    let format = LogFormat::ALL.into_iter().find(|format| format.name() == text);
    format.ok_or_else(|| Wrong::new(format!("`{text}` is no format")))
}
