//! Requests of this shard that another shard is to answer, by token.
//!
//! A token carries a generation, so that a late answer to a request that is gone finds nothing.

/// A table of outstanding requests; slots are reused, tokens are not.
pub struct Pending<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pending<T> {
    /// Keeps `value` until its answer comes; the token goes with the question.
    pub fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            u32::try_from(self.entries.len() - 1).expect("outstanding requests are bounded")
        });
        let entry = &mut self.entries[index as usize];
        assert!(entry.value.is_none(), "a free entry holds nothing");
        entry.value = Some(value);
        u64::from(entry.generation) << 32 | u64::from(index)
    }

    /// How many requests are outstanding.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The value behind `token` once; `None` when it was taken before.
    pub fn take(&mut self, token: u64) -> Option<T> {
        let index = u32::try_from(token & u64::from(u32::MAX)).ok()?;
        let entry = self.entries.get_mut(index as usize)?;
        if u64::from(entry.generation) != token >> 32 {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_finds_nothing() {
        let mut pending = Pending::default();
        let first = pending.insert("a");
        assert_eq!(pending.take(first), Some("a"));
        let second = pending.insert("b");
        assert_eq!(pending.take(first), None);
        assert_eq!(pending.take(second), Some("b"));
        assert_eq!(pending.take(77), None);
    }
}
