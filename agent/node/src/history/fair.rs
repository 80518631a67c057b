//! Bounds a list of what happened, so that a flood of one thing evicts nothing else.

use std::collections::BTreeMap;

/// Removes entries until at most `most` are left: the oldest of the keys with the most entries. `all` is in order of time, oldest first.
pub(crate) fn bound<T, K: Ord>(all: &mut Vec<T>, most: usize, key: impl Fn(&T) -> K) {
    if all.len() <= most {
        return;
    }
    let mut numbers: BTreeMap<K, usize> = BTreeMap::new();
    for one in &*all {
        *numbers.entry(key(one)).or_default() += 1;
    }
    // The greatest number of entries that every key may keep.
    let kept = |share: usize| numbers.values().map(|number| share.min(*number)).sum::<usize>();
    let (mut share, mut too_many) = (1, most + 1);
    while too_many - share > 1 {
        let middle = share.midpoint(too_many);
        if kept(middle) <= most {
            share = middle;
        } else {
            too_many = middle;
        }
    }
    all.retain(|one| {
        // Every key was counted.
        numbers.get_mut(&key(one)).is_none_or(|left| {
            *left -= 1;
            *left < share
        })
    });
    // More keys than there may be entries.
    let surplus = all.len().saturating_sub(most);
    all.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_key_evicts_only_itself() {
        let mut all: Vec<(char, usize)> = vec![('a', 0), ('b', 1)];
        all.extend((2..100).map(|n| ('x', n)));
        all.push(('c', 100));
        bound(&mut all, 10, |one| one.0);
        let keys: String = all.iter().map(|one| one.0).collect();
        assert_eq!(keys, "abxxxxxxxc");
        assert_eq!(all[2].1, 93, "the oldest are dropped");
    }

    #[test]
    fn of_too_many_keys_the_newest_stay() {
        let mut all: Vec<usize> = (0..30).chain(20..30).collect();
        bound(&mut all, 10, |one| *one);
        assert_eq!(all, (20..30).collect::<Vec<_>>());
        let mut few = vec![1, 1];
        bound(&mut few, 10, |one| *one);
        assert_eq!(few, [1, 1]);
    }
}
