//! Formats of log messages.
use crate::journal_stream;

/// Format of log messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// [`Self::Journal`] if standard error is connected to the journal of systemd, else [`Self::Text`].
    #[default]
    Auto,
    /// One line for people, with a timestamp.
    Text,
    /// One JSON object in each line.
    Json,
    /// One line with the priority of sd-daemon(3) as prefix and without a timestamp, which the journal adds.
    Journal,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Text, Self::Json, Self::Journal];

    /// Name of the format in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
            Self::Journal => "journal",
        }
    }

    /// The format that [`Self::Auto`] selects for this process.
    pub(crate) fn selected(self) -> Self {
        match self {
            Self::Auto if journal_stream::is_stderr() => Self::Journal,
            Self::Auto | Self::Text => Self::Text,
            Self::Json => Self::Json,
            Self::Journal => Self::Journal,
        }
    }
}
