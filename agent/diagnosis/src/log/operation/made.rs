//! What could not be made, in words of any program: a verb, adjectives and the object (`failed to create HW QP`), or the object and a noun
//! (`Rx queue 3 CQ creation failure`).

/// Words for the making of an object, before it.
const VERBS: [&str; 5] = ["create", "creating", "allocate", "allocating", "alloc"];

/// Words for the making of an object, after it.
const NOUNS: [&str; 6] = [
    "creation",
    "allocation",
    "create",
    "alloc",
    "creating",
    "allocating",
];

/// The objects of verbs, one word each.
const OBJECTS: [&str; 8] = ["qp", "qps", "cq", "cqs", "srq", "srqs", "pd", "xrcd"];

/// The objects of verbs of two words.
const PAIRS: [(&str, &str); 4] = [
    ("queue", "pair"),
    ("queue", "pairs"),
    ("completion", "queue"),
    ("protection", "domain"),
];

/// Words that begin another part of the sentence: `create a thread for the CQ` makes no CQ.
const BOUNDS: [&str; 14] = [
    "for", "to", "on", "in", "with", "of", "from", "and", "by", "at", "failed", "error", "memory", "buffer",
];

/// Most words between the verb and its object.
const MAX_ADJECTIVES: usize = 3;

/// The place of the verb or object in a line in lower case, if it names the making of an object of verbs.
pub(super) fn made(lower: &str) -> Option<usize> {
    // Where the verb is, and how many words ago it was.
    let mut verb: Option<(usize, usize)> = None;
    let mut words = words(lower).peekable();
    while let Some((at, word)) = words.next() {
        let next = words.peek().map_or("", |(_, next)| *next);
        let is_pair = PAIRS.contains(&(word, next));
        if is_pair || OBJECTS.contains(&word) {
            if let Some((start, _)) = verb {
                return Some(start);
            }
            if is_pair {
                words.next();
            }
            if words.peek().is_some_and(|(_, noun)| NOUNS.contains(noun)) {
                return Some(at);
            }
        }
        verb = if VERBS.contains(&word) {
            Some((at, 0))
        } else {
            verb.map(|(start, ago)| (start, ago + 1))
                .filter(|(_, ago)| *ago <= MAX_ADJECTIVES && !BOUNDS.contains(&word))
        };
    }
    None
}

/// The words of a text with their places. A name with underscores is one word; a colon, a comma and the like end a phrase and are words.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let begin = at + rest.find(|c: char| !c.is_whitespace() && c != '-')?;
        let rest = &text[begin..];
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let length = end.max(rest.chars().next().map_or(1, char::len_utf8));
        at = begin + length;
        Some((begin, &rest[..length]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_with_a_verb_before_or_a_noun_after() {
        for line in [
            "bnxt_re0: failed to create hw qp",
            "port 0 rx queue 3 cq creation failure",
            "placeholder cq creation failure",
            "ocrdma: qp create failed status 0x3",
            "could not allocate a new completion queue",
            "protection domain allocation failed",
            "unable to allocate shadow qp",
        ] {
            assert!(made(line).is_some(), "{line}");
        }
        for line in [
            "failed to create thread for the cq",
            "failed to allocate memory of the qp",
            "failed to destroy qp",
            "create failed: qp 0x17",
            "failed to create pdf",
            "failed to create an event channel, then the old qp",
            "error in mlx5_ib_create_qp_user",
        ] {
            assert_eq!(made(line), None, "{line}");
        }
    }
}
