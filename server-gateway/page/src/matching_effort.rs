//! Bound on the work of comparing the rules of a page with its elements and its text, both of which the page chooses.
use std::sync::Arc;

/// Effort per document, in bytes of selectors that are compared: some tenths of a second.
const MOST: usize = 8 * 1024 * 1024;
/// Effort of a list of selectors in addition to its length.
const OVERHEAD: usize = 64;

/// The effort that a document has left.
#[derive(Debug)]
pub(crate) struct MatchingEffort(usize);

impl Default for MatchingEffort {
    fn default() -> Self {
        Self(MOST)
    }
}

impl MatchingEffort {
    /// Takes the sum of these efforts. Returns false if the document has not enough left: nothing is compared from then on.
    pub(crate) fn take(&mut self, efforts: impl IntoIterator<Item = usize>) -> bool {
        for effort in efforts {
            self.0 = self.0.saturating_sub(effort);
            if self.0 == 0 {
                return false;
            }
        }
        self.0 > 0
    }
}

/// Effort of comparing the selectors of a rule and of the rules around it.
pub(crate) fn of_selectors(selectors: &[Arc<str>]) -> usize {
    selectors.iter().map(|selectors| selectors.len() + OVERHEAD).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_compared_once_the_effort_is_spent() {
        let mut effort = MatchingEffort::default();
        assert!(effort.take([MOST / 2, MOST / 4]) && effort.take([]));
        let mut asked = 0;
        let efforts = std::iter::repeat_with(|| {
            asked += 1;
            MOST / 8
        });
        assert!(!effort.take(efforts.take(100)));
        assert_eq!(asked, 2);
        assert!(!effort.take([]) && !effort.take([1]));
    }
}
