//! Bound on the work of comparing the rules of a page with its elements and its text, both of which the page chooses.
use std::sync::Arc;

/// Budget of a document, in bytes of selectors that are compared: some tenths of a second.
const MOST: usize = 8 * 1024 * 1024;
/// Cost of a list of selectors in addition to its length.
const OVERHEAD: usize = 64;

/// What a document has left of its budget.
#[derive(Debug)]
pub(crate) struct MatchingBudget(usize);

impl Default for MatchingBudget {
    fn default() -> Self {
        Self(MOST)
    }
}

impl MatchingBudget {
    /// Takes the sum of these costs. Returns false if the document has not enough left: nothing is compared from then on.
    pub(crate) fn take(&mut self, costs: impl IntoIterator<Item = usize>) -> bool {
        for cost in costs {
            self.0 = self.0.saturating_sub(cost);
            if self.0 == 0 {
                return false;
            }
        }
        self.0 > 0
    }
}

/// Cost of comparing the selectors of a rule and of the rules around it.
pub(crate) fn of_selectors(selectors: &[Arc<str>]) -> usize {
    selectors.iter().map(|selectors| selectors.len() + OVERHEAD).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_compared_once_the_budget_is_spent() {
        let mut budget = MatchingBudget::default();
        assert!(budget.take([MOST / 2, MOST / 4]) && budget.take([]));
        let mut asked = 0;
        let costs = std::iter::repeat_with(|| {
            asked += 1;
            MOST / 8
        });
        assert!(!budget.take(costs.take(100)));
        assert_eq!(asked, 2);
        assert!(!budget.take([]) && !budget.take([1]));
    }
}
