//! A map of bounded size.
use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// A map that drops the keys that were inserted first when it is full.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    values: HashMap<K, V>,
    /// Keys in the order of their insertion; removed keys remain until they are dropped.
    order: VecDeque<K>,
    limit: usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            values: HashMap::new(),
            order: VecDeque::new(),
            limit,
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.values.insert(key, value).is_some() {
            return;
        }
        self.order.push_back(key);
        while self.order.len() > self.limit {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            self.values.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.values.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_keys_are_dropped_when_the_map_is_full() {
        let mut recent = Recent::new(2);
        for key in [1, 2, 1, 3] {
            recent.insert(key, key * 10);
        }
        assert_eq!(
            [1, 2, 3].map(|key| recent.get(&key).copied()),
            [None, Some(20), Some(30)]
        );
        assert_eq!(recent.remove(&2), Some(20));
        recent.insert(2, 21);
        recent.insert(4, 40);
        assert!(recent.order.len() <= 2 && recent.values.len() <= 2);
    }
}
