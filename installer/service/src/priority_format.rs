//! Messages for the journal: lines with a priority of sd-daemon(3), which the journal reads in each line.
use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// Formats a message with its priority as prefix, without a timestamp and the name of the severity: the journal
/// stores both.
pub(crate) struct PriorityFormat(Format<Full, ()>);

impl Default for PriorityFormat {
    fn default() -> Self {
        let format = tracing_subscriber::fmt::format();
        Self(
            format
                .without_time()
                .with_level(false)
                .with_target(false)
                .with_ansi(false),
        )
    }
}

impl<S, N> FormatEvent<S, N> for PriorityFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// Priority of syslog(3): error, warning, informational, debug.
const fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
