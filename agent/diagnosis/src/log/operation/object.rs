//! Operations by their grammar: a verb next to an object of verbs or of the connection manager, whatever the program calls them in full:
//! `Failed to allocate the protection domain`, `creating completion queue`, `QP modify failed`, `RdmaCompletionQueue initialization`.

mod words;

use self::words::{BETWEEN, OBJECTS, Object, VERBS, Verb};
use super::Operation;

/// The most words between a verb and its object.
const WITHIN: usize = 3;

/// The shortest joined name of an object that is looked for within a word: `rdmacompletionqueue`.
const JOINED: usize = 9;

/// The operation in a line in lower case, and where its words begin.
pub(super) fn find(lower: &str) -> Option<(Operation, usize)> {
    let words = words(lower);
    words.iter().enumerate().find_map(|(place, (word, at))| {
        let (object, length) = object(&words[place..])
            .or_else(|| Some((joined(word)?, 1)))
            .or_else(|| Some((of_libfabric(word, lower)?, 1)))?;
        if is_part_of_name(object, &words[place + length..]) {
            return None;
        }
        let before = (0..=WITHIN)
            .map_while(|distance| words.get(place.checked_sub(distance + 1)?))
            .scan(false, |is_over, (word, at)| {
                if *is_over {
                    return None;
                }
                *is_over = !BETWEEN.contains(word);
                Some((verb(word), *at))
            })
            .find_map(|(verb, at)| Some((verb?, at)));
        let after = words
            .get(place + length)
            .and_then(|(word, _)| Some((verb(word)?, *at)));
        let within = || Some((of_beginning(word)?, *at));
        let (verb, at) = before.or(after).or_else(within)?;
        // GDRCopy maps memory of a GPU for the CPU, and registers none with an adapter.
        if verb == Verb::Register && words[..place].iter().any(|(word, _)| word.starts_with("gdr")) {
            return None;
        }
        Some((meaning(verb, object)?, at))
    })
}

/// Whether a line in lower case is about an address handle, or a protection domain, that a program creates. The two letters alone are of much
/// else.
pub(in crate::log) fn creates_handle(lower: &str) -> bool {
    let is_one = |name: &str, operation: Operation| {
        lower.contains(name) && find(lower).is_some_and(|(found, _)| found == operation)
    };
    is_one(" ah", Operation::Connect) || is_one(" pd", Operation::Create)
}

/// Whether the words behind an object make it a part of the name of another one, which comes last: `failed to create HCA copy CQ`, `failed to
/// allocate QP array memory`.
fn is_part_of_name(first: Object, rest: &[(&str, usize)]) -> bool {
    /// The most words of a name between its first object and its last.
    const BETWEEN_PARTS: usize = 1;
    /// What ends a name.
    const ENDS: [&str; 25] = [
        "",
        "for",
        "of",
        "on",
        "in",
        "to",
        "with",
        "from",
        "by",
        "and",
        "or",
        "at",
        "is",
        "failed",
        "error",
        "failure",
        "fail",
        "fails",
        "attributes",
        "attr",
        "before",
        "after",
        "during",
        "while",
        "when",
    ];
    (0..=BETWEEN_PARTS)
        .map_while(|at| {
            let (word, _) = rest.get(at)?;
            (!ENDS.contains(word) && verb(word).is_none()).then_some(at)
        })
        .any(|at| object(&rest[at..]).is_some_and(|(last, _)| last != first))
}

/// The words of a text, each with its place. Those that an underscore joins are separate words; between clauses there is an empty one.
fn words(lower: &str) -> Vec<(&str, usize)> {
    let mut words = Vec::new();
    let mut begin = None;
    for (at, byte) in lower.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() {
            begin.get_or_insert(at);
            continue;
        }
        if let Some(begin) = begin.take() {
            words.push((&lower[begin..at], begin));
        }
        if matches!(byte, b':' | b';' | b',' | b'.' | b'=') {
            words.push(("", at));
        }
    }
    if let Some(begin) = begin {
        words.push((&lower[begin..], begin));
    }
    words
}

/// The object that begins the words, and how many of them name it.
fn object(words: &[(&str, usize)]) -> Option<(Object, usize)> {
    OBJECTS
        .iter()
        .find_map(|(object, name)| {
            let is_one =
                words.len() >= name.len() && name.iter().zip(words).all(|(part, (word, _))| part == word);
            is_one.then_some((*object, name.len()))
        })
        .or_else(|| Some((directed(words.first()?.0)?, 1)))
}

/// The object in a word that joins its name with a direction: `sendcq`, `recvmr`.
fn directed(word: &str) -> Option<Object> {
    let name = word.strip_prefix("send").or_else(|| word.strip_prefix("recv"))?;
    OBJECTS
        .iter()
        .find_map(|(object, words)| (*words == [name]).then_some(*object))
}

/// The object in a word that joins its name with others.
fn joined(word: &str) -> Option<Object> {
    let name_in = |name: &[&str]| {
        let length: usize = name.iter().map(|part| part.len()).sum();
        name.len() > 1
            && length >= JOINED
            && word.len() >= length
            && word.match_indices(name[0]).any(|(at, _)| {
                name.iter()
                    .try_fold(&word[at..], |rest, part| rest.strip_prefix(part))
                    .is_some()
            })
    };
    OBJECTS
        .iter()
        .find_map(|(object, name)| name_in(name).then_some(*object))
}

/// The domain of libfabric opens a device. Programs use the word for much else, so the line must name the library.
fn of_libfabric(word: &str, lower: &str) -> Option<Object> {
    const LIBRARY: [&str; 3] = ["net/ofi", "libfabric", "fi_domain"];
    let is_one = word == "domain" && LIBRARY.iter().any(|name| lower.contains(name));
    is_one.then_some(Object::Device)
}

/// What a word does.
fn verb(word: &str) -> Option<Verb> {
    VERBS
        .iter()
        .find_map(|(verb, words)| words.contains(&word).then_some(*verb))
}

/// What the beginning of a joined word does: `createcompletionqueue`.
fn of_beginning(word: &str) -> Option<Verb> {
    const SHORTEST: usize = 4;
    VERBS.iter().find_map(|(verb, words)| {
        let begins = |beginning: &&str| beginning.len() >= SHORTEST && word.starts_with(*beginning);
        words.iter().any(begins).then_some(*verb)
    })
}

/// The operation of a verb on an object.
fn meaning(verb: Verb, object: Object) -> Option<Operation> {
    Some(match (verb, object) {
        (Verb::Create | Verb::Open, Object::Queue | Object::QueuePair) | (Verb::Create, Object::Endpoint) => {
            Operation::Create
        }
        (Verb::Query, Object::Device | Object::Port) => Operation::Query,
        (Verb::Modify, Object::QueuePair)
        | (Verb::Connect, Object::QueuePair | Object::Endpoint)
        | (Verb::Create, Object::AddressHandle) => Operation::Connect,
        (Verb::Register, Object::Memory | Object::Region) | (Verb::Create, Object::Region) => {
            Operation::Register
        }
        (Verb::Open | Verb::Create, Object::Device) => Operation::Open,
        (Verb::Create | Verb::Open, Object::EventChannel) | (Verb::Create, Object::Address) => {
            Operation::CmOpen
        }
        (Verb::Resolve, Object::Address) => Operation::CmAddress,
        (Verb::Post, Object::Request) => Operation::Post,
        (Verb::Query, Object::Gid) => Operation::Gid,
        (Verb::Query, Object::Pkey) => Operation::Pkey,
        (
            Verb::Remove,
            Object::Queue
            | Object::QueuePair
            | Object::Region
            | Object::Device
            | Object::Address
            | Object::AddressHandle
            | Object::Endpoint
            | Object::EventChannel,
        ) => Operation::Harmless,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_a_verb_next_to_its_object() {
        for (line, expected) in [
            ("failed to allocate protection domain", Some(Operation::Create)),
            (
                "couldn't allocate the rdma protection domain",
                Some(Operation::Create),
            ),
            (
                "creating completion queue: invalid argument",
                Some(Operation::Create),
            ),
            ("completion queue creation failed", Some(Operation::Create)),
            ("bnxt_re0: failed to create hw qp", Some(Operation::Create)),
            ("port 0 rx queue 3 cq creation failure", Some(Operation::Create)),
            ("ocrdma: qp create failed status 0x3", Some(Operation::Create)),
            ("unable to allocate shadow qp", Some(Operation::Create)),
            ("failed to open completion queue", Some(Operation::Create)),
            ("failed to create self ah.", Some(Operation::Connect)),
            (
                "ib0: failed to create multicast ah, ret = -22",
                Some(Operation::Connect),
            ),
            ("failed to destroy the ah", Some(Operation::Harmless)),
            ("creating the ipsec policy of ah failed", None),
            ("failed to create ack qp", Some(Operation::Create)),
            ("cannot register wq buf.", Some(Operation::Register)),
            ("failed to query user-specified gid index 5", Some(Operation::Gid)),
            ("failed to auto-detect a valid gid", Some(Operation::Gid)),
            ("net/ofi couldn't create domain", Some(Operation::Open)),
            ("couldn't create domain", None),
            ("failed to create thread for the cq", None),
            ("failed to allocate memory of the qp", None),
            ("create failed: qp 0x17", None),
            (
                "fail to intialize rdmacompletionqueue: invalid argument",
                Some(Operation::Create),
            ),
            ("createqueuepair() failed", Some(Operation::Create)),
            (
                "mlx5dv_devx_qp_modify(503) failed, syndrome 0",
                Some(Operation::Connect),
            ),
            (
                "failed registering memory, you might be out of memory",
                Some(Operation::Register),
            ),
            ("failure in mem_reg: addr=0x7f", Some(Operation::Register)),
            (
                "failed to register local dest ram block!",
                Some(Operation::Register),
            ),
            (
                "registering local gpu buffers: bad address",
                Some(Operation::Register),
            ),
            ("unable to bind rdma address (err=19)", Some(Operation::CmAddress)),
            ("opening verbs context failed", Some(Operation::Open)),
            ("failed to init rdma event channel", Some(Operation::CmOpen)),
            (
                "failed to destroy protection domain: device or resource busy",
                Some(Operation::Harmless),
            ),
            ("failed to create thread for qp 12", None),
            ("cannot allocate memory for qp", None),
            ("failed to poll completion queue: invalid argument", None),
            ("create: qp 12 is bad", None),
            ("memory leak", None),
            ("gdr_pin_buffer_v2(addr 1a, size 7) failed: 22", None),
            ("gdrcopy pin_buffer failed", None),
            ("unable to get ib devices", Some(Operation::Query)),
            ("couldn't read port attribute", Some(Operation::Query)),
            (
                "failed to connect endpoint in ucx transport",
                Some(Operation::Connect),
            ),
            (
                "could not create libfabric endpoint on rail 3",
                Some(Operation::Create),
            ),
            ("unable to allocate eps.", Some(Operation::Create)),
            ("failed to set pkey index", Some(Operation::Pkey)),
            ("failed to connect to the server", None),
        ] {
            assert_eq!(find(line).map(|(operation, _)| operation), expected, "{line}");
        }
    }
}
