//! The log of a program.
use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
};

use longhaul_types::OneLine;
use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::MakeExt as _,
    fmt,
    fmt::{MakeWriter, format},
    layer::{Layered, SubscriberExt as _},
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt as _,
};

use crate::{LogFilter, LogFormat, priority_format::PriorityFormat};

/// The log of this program, on standard error.
#[derive(Clone, Debug)]
pub struct Logs {
    filter: reload::Handle<EnvFilter, Registry>,
}

/// The log cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("the log cannot be started: {0}")]
pub struct LogsError(String);

/// Messages that the filter selects.
type Filtered = Layered<reload::Layer<EnvFilter, Registry>, Registry>;

impl Logs {
    /// Starts the log of this process.
    ///
    /// # Errors
    /// The process has a log already.
    pub fn start(filter: &LogFilter, format: LogFormat) -> Result<Self, LogsError> {
        let colours = io::stderr().is_terminal();
        let (subscriber, logs) = subscriber(filter, format.selected(), io::stderr, colours);
        subscriber
            .try_init()
            .map_err(|error| LogsError(error.to_string()))?;
        Ok(logs)
    }

    /// Replaces the filter.
    pub fn set_filter(&self, filter: &LogFilter) {
        // Fails only if the log has ended with the program.
        let _ended = self.filter.reload(filter.env_filter());
    }
}

/// A log with this format that writes to `writer`.
fn subscriber<W>(
    filter: &LogFilter,
    format: LogFormat,
    writer: W,
    colours: bool,
) -> (impl Subscriber + Send + Sync + use<W>, Logs)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter.env_filter());
    let lines = lines::<Filtered, W>(format, writer, colours);
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    (subscriber, Logs { filter: handle })
}

/// Writes one line for each message. Values may contain text from peers, origins and programs: control characters are escaped.
fn lines<S, W>(format: LogFormat, writer: W, colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).with_ansi(false);
    let fields = format::debug_fn(|writer, field, value| {
        let mut line = OneLine(writer);
        match field.name() {
            "message" => write!(line, "{value:?}"),
            name => write!(line, "{}={value:?}", name.trim_start_matches("r#")),
        }
    });
    let fields = fields.delimited(" ");
    match format {
        LogFormat::Json => layer.json().boxed(),
        LogFormat::Journal => {
            let layer = layer.fmt_fields(fields);
            layer.event_format(PriorityFormat::default()).boxed()
        }
        LogFormat::Auto | LogFormat::Text => {
            let layer = layer.fmt_fields(fields).with_ansi(colours);
            layer.with_target(false).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use tracing::{debug, info, info_span, subscriber::with_default, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock())).unwrap()
        }
    }

    fn log(filter: &str, format: LogFormat) -> (impl Subscriber + Send + Sync, Logs, Written) {
        let written = Written::default();
        let writer = written.clone();
        let filter = LogFilter::parse(filter).unwrap();
        let (subscriber, logs) = subscriber(&filter, format, move || writer.clone(), false);
        (subscriber, logs, written)
    }

    #[test]
    fn journal_lines_have_a_priority_and_no_timestamp() {
        let (subscriber, _logs, written) = log("debug", LogFormat::Journal);
        with_default(subscriber, || {
            let _span = info_span!("session", device = 7).entered();
            warn!(cause = "none", text = %"a\n\u{1b}[31m\u{202e}", "two\nlines");
            info!("one");
            debug!("fine");
        });
        assert_eq!(
            written.take(),
            "<4>session{device=7}: two\\nlines cause=\"none\" text=a\\n\\u{1b}[31m\\u{202e}\n<6>session{device=7}: one\n<7>session{device=7}: fine\n"
        );
    }

    #[test]
    fn json_lines_are_objects() {
        let (subscriber, _logs, written) = log("info", LogFormat::Json);
        with_default(subscriber, || info!(count = 3, "an \"event\""));
        let text = written.take();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["level"], "INFO");
        assert_eq!(value["fields"]["message"], "an \"event\"");
        assert_eq!(value["fields"]["count"], 3);
        assert!(value["timestamp"].is_string(), "{text}");
    }

    #[test]
    fn text_lines_have_a_timestamp_and_a_severity() {
        let (subscriber, _logs, written) = log("info", LogFormat::Text);
        with_default(subscriber, || info!("an event"));
        let text = written.take();
        assert!(text.ends_with("Z  INFO an event\n"), "{text}");
    }

    #[test]
    fn another_filter_takes_effect_at_once() {
        let (subscriber, logs, written) = log("warn", LogFormat::Journal);
        with_default(subscriber, || {
            info!("hidden");
            logs.set_filter(&LogFilter::parse("debug").unwrap());
            debug!("shown");
            logs.set_filter(&LogFilter::parse("error").unwrap());
            warn!("hidden again");
        });
        assert_eq!(written.take(), "<7>shown\n");
    }
}
