//! Techniques that measurements switch off one by one (docs/BENCHMARKING.md).
use std::{fmt, str::FromStr};

/// A technique that both programs can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Technique {
    /// A body that the agent stores is not sent again, whatever its URL is.
    Chk,
    /// A body is coded against an older version or a similar body that the agent stores.
    Delta,
    /// A body is coded against a library that both programs contain.
    Dictionaries,
    /// The objects of a page are sent before the browser requests them.
    Push,
    /// Images are converted to the level that the user selects.
    Pictures,
    /// Text is compressed.
    Coding,
    /// Text is compressed by context mixing on the slowest links.
    Mixing,
    /// Requests travel in the first datagram of a session.
    Early,
    /// Header fields are coded against a dictionary and earlier fields.
    Headers,
    /// A page is planned by what its scripts loaded in earlier visits.
    Learned,
    /// The receiver reports missing packets, and only these are sent again.
    Nack,
    /// The receiver measures the link and grants what may be on the way.
    Credit,
}

impl Technique {
    /// All techniques.
    pub const ALL: [Self; 12] = [
        Self::Chk,
        Self::Delta,
        Self::Dictionaries,
        Self::Push,
        Self::Pictures,
        Self::Coding,
        Self::Mixing,
        Self::Early,
        Self::Headers,
        Self::Learned,
        Self::Nack,
        Self::Credit,
    ];

    /// Returns its name in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chk => "chk",
            Self::Delta => "delta",
            Self::Dictionaries => "dictionaries",
            Self::Push => "push",
            Self::Pictures => "pictures",
            Self::Coding => "coding",
            Self::Mixing => "mixing",
            Self::Early => "early",
            Self::Headers => "headers",
            Self::Learned => "learned",
            Self::Nack => "nack",
            Self::Credit => "credit",
        }
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error: no technique has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no technique that can be switched off; known are: {known}", known = Techniques::all())]
pub struct ParseTechniqueError(String);

impl FromStr for Technique {
    type Err = ParseTechniqueError;

    fn from_str(name: &str) -> Result<Self, ParseTechniqueError> {
        let found = Self::ALL.into_iter().find(|technique| technique.name() == name);
        found.ok_or_else(|| ParseTechniqueError(name.to_owned()))
    }
}

/// A set of techniques.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Techniques(u16);

impl Techniques {
    /// No technique.
    pub const NONE: Self = Self(0);

    /// Returns all techniques.
    pub fn all() -> Self {
        Technique::ALL.into_iter().collect()
    }

    /// Returns the set with one more technique.
    #[must_use]
    pub const fn with(self, technique: Technique) -> Self {
        Self(self.0 | 1 << technique as u16)
    }

    /// Returns true if the set contains this technique.
    pub const fn contains(self, technique: Technique) -> bool {
        self.0 & 1 << technique as u16 != 0
    }

    /// Returns true if the set contains no technique.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the techniques that the set does not contain.
    #[must_use]
    pub fn others(self) -> Self {
        Self(Self::all().0 & !self.0)
    }

    /// Returns the techniques of the set.
    pub fn iter(self) -> impl Iterator<Item = Technique> {
        Technique::ALL
            .into_iter()
            .filter(move |technique| self.contains(*technique))
    }
}

impl FromIterator<Technique> for Techniques {
    fn from_iter<I: IntoIterator<Item = Technique>>(techniques: I) -> Self {
        techniques
            .into_iter()
            .fold(Self::NONE, |set, technique| set.with(technique))
    }
}

/// Names, separated by commas.
impl fmt::Display for Techniques {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Technique::name).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Techniques {
    type Err = ParseTechniqueError;

    fn from_str(names: &str) -> Result<Self, ParseTechniqueError> {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::parse::<Technique>).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_its_names() {
        for technique in Technique::ALL {
            let set = Techniques::NONE.with(technique);
            assert_eq!(set.to_string().parse(), Ok(set));
            assert_eq!(set.iter().collect::<Vec<_>>(), [technique]);
            assert!(!set.others().contains(technique));
            assert_eq!(set.others().iter().count(), Technique::ALL.len() - 1);
        }
        assert_eq!(
            " delta, chk,".parse::<Techniques>().unwrap().to_string(),
            "chk,delta"
        );
        assert_eq!("".parse(), Ok(Techniques::NONE));
        let unknown = "chk,fec".parse::<Techniques>().unwrap_err().to_string();
        assert!(unknown.starts_with("`fec` is no technique"), "{unknown}");
    }
}
