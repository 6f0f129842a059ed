//! A sorted map that is cheap to copy: entries lie in short shared runs, and a change to a copy
//! copies one run and the list of runs.
//!
//! Invariant: no run is empty, runs and the entries in them ascend.

use std::{borrow::Borrow, sync::Arc};

/// Entries of a run before it is split: one change of a map with 10,000 entries then touches about
/// 128 entries and 160 run pointers.
const RUN_LENGTH: usize = 128;

/// The map; a clone shares all runs.
#[derive(Clone, Debug)]
pub(super) struct Sorted<K, V> {
    runs: Vec<Arc<Vec<(K, V)>>>,
    length: usize,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self { runs: Vec::new(), length: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> Sorted<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// All entries, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.runs.iter().flat_map(|run| run.iter().map(|(key, value)| (key, value)))
    }

    /// The value of `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let run = self.runs.get(self.run_of(key))?;
        let at = run.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
        run.get(at).map(|(_, value)| value)
    }

    /// Sets the value of `key`, whether it was there or not.
    pub fn insert(&mut self, key: K, value: V) {
        let index = self.run_of(&key);
        let Some(run) = self.runs.get_mut(index) else {
            assert!(self.runs.is_empty(), "run_of names a run where there is one");
            self.runs.push(Arc::new(vec![(key, value)]));
            self.length = 1;
            return;
        };
        let run = Arc::make_mut(run);
        match run.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(at) => run[at].1 = value,
            Err(at) => {
                run.insert(at, (key, value));
                self.length += 1;
            }
        }
        if run.len() > RUN_LENGTH {
            let upper = run.split_off(RUN_LENGTH / 2);
            self.runs.insert(index + 1, Arc::new(upper));
        }
    }

    /// Takes `key` out; whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let index = self.run_of(key);
        let Some(run) = self.runs.get_mut(index) else { return false };
        let Ok(at) = run.binary_search_by(|(known, _)| known.borrow().cmp(key)) else {
            return false;
        };
        let run = Arc::make_mut(run);
        run.remove(at);
        if run.is_empty() {
            self.runs.remove(index);
        }
        self.length -= 1;
        true
    }

    /// The run that holds `key` or would: the last that starts at or before it, else the first.
    fn run_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let starts_before =
            |run: &Arc<Vec<(K, V)>>| run.first().is_some_and(|(first, _)| first.borrow() <= key);
        self.runs.partition_point(starts_before).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn behaves_as_a_tree_map_and_copies_do_not_change() {
        let mut ours: Sorted<u64, u64> = Sorted::default();
        let mut theirs = BTreeMap::new();
        let mut random = 7_u64;
        for step in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = random % 1500;
            let before = (step % 1000 == 0).then(|| (ours.clone(), theirs.clone()));
            if random.is_multiple_of(3) {
                assert_eq!(ours.remove(&key), theirs.remove(&key).is_some());
            } else {
                ours.insert(key, step);
                theirs.insert(key, step);
            }
            assert_eq!(ours.get(&key), theirs.get(&key));
            assert_eq!(ours.len(), theirs.len());
            if let Some((ours, theirs)) = before {
                assert!(ours.iter().eq(theirs.iter()));
            }
        }
        assert!(ours.iter().eq(theirs.iter()));
        assert!(ours.runs.iter().all(|run| !run.is_empty() && run.len() <= RUN_LENGTH));
    }
}
