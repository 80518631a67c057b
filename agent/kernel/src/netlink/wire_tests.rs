//! Replies of a kernel, and replies that no kernel sends.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ETHTOOL: u16 = 21;
const STATE: Schema = &[
    (
        1,
        "header",
        Kind::Nest(&[(1, "dev-index", Kind::Number), (2, "dev-name", Kind::Text)]),
    ),
    (2, "link", Kind::Number),
    (5, "ext-state", Kind::Number),
    (20, "entries", Kind::List(&[(1, "value", Kind::Numbers)])),
];
/// What Linux 6.18 with `virtio_net` answered to `linkstate-get` of eth0 with sequence number 7: the message, and the acknowledgement.
const MESSAGE: &str = "3400000015000000070000003b240000060100001800018008000100040000000900020065746830000000000500020001000000";
const DONE: &str = "2400000002000001070000003b240000000000002c000000150005000700000000000000";
/// What it answered to `fec-get` of eth0: its driver does not support it.
const NOT_SUPPORTED: &str = "4000000002000000070000003b240000a1ffffff2c0000001500050007000000000000001d01000018000180090002006574\
    6830000000000800030004000000";

fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

const FORM: Form = Form {
    kind: ETHTOOL,
    header: 4,
    command: Some((0, 6)),
    layout: &[],
    schema: STATE,
    only_with: None,
};

fn reply() -> Reply<'static> {
    Reply::new("netlink ethtool linkstate-get eth0", 7, FORM)
}

/// A request of ethtool for the state of a link.
fn request(attributes: Vec<DefaultNla>) -> Request {
    Request {
        kind: ETHTOOL,
        header: vec![6, 1, 0, 0],
        dump: false,
        attributes,
    }
}

/// Why a message cannot be used, wherever in it that is noted.
fn defect_of(message: &Value) -> Option<String> {
    let Value::Object(fields) = message else {
        return None;
    };
    let own = fields.get(MALFORMED).and_then(Value::as_str);
    own.map(str::to_owned)
        .or_else(|| fields.values().find_map(defect_of))
}

fn refused(datagram: &[u8]) -> String {
    match reply().add(datagram) {
        Err(Failure::Unread(unread)) => unread.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_reply_of_a_kernel_is_a_document() {
    let mut reply = reply();
    assert!(!reply.add(&bytes(MESSAGE)).unwrap());
    assert!(reply.add(&bytes(DONE)).unwrap());
    let expected = json!({"header": {"dev-index": 4, "dev-name": "eth0"}, "link": 1});
    assert_eq!(reply.into_messages(), [expected]);
    assert_eq!(
        self::reply().add(&bytes(NOT_SUPPORTED)),
        Err(Failure::Errno(Errno::OPNOTSUPP))
    );
}

#[test]
fn a_request_is_what_the_program_ethtool_sends() {
    let header = nest(1, &[text(2, "eth0"), number(3, 4)]);
    let request = request(vec![header]);
    let expected =
        "2c000000150005000700000000000000060100001800018009000200657468300000000008000300 04000000";
    assert_eq!(request.bytes(7), bytes(expected));
}

#[test]
fn the_answer_to_another_request_is_passed_over() {
    let mut reply = Reply::new("", 8, FORM);
    assert!(!reply.add(&[bytes(MESSAGE), bytes(DONE)].concat()).unwrap());
    assert!(reply.into_messages().is_empty());
}

#[test]
fn what_no_kernel_sends_is_refused_with_a_reason() {
    let changed = |at: usize, byte: u8| {
        let mut message = bytes(MESSAGE);
        message[at] = byte;
        message
    };
    for (datagram, reason) in [
        (changed(4, 99), "a message has type 99 instead of 21"),
        (changed(16, 7), "a message has command 7 instead of 6"),
        (changed(0, 0x35), "a message is cut off"),
        (changed(0, 0x0f), "a message is cut off"),
        (changed(0, 0x12), "a message has no header"),
        (changed(20, 0x21), "an attribute is cut off"),
        (changed(20, 0x03), "an attribute is cut off"),
        (changed(24, 0x07), "dev-index has 3 bytes"),
    ] {
        // The messages before it are used.
        let mut reply = reply();
        let is_end = reply.add(&[bytes(MESSAGE), datagram].concat()).unwrap();
        assert!(is_end || reason != "a message is cut off");
        let messages = reply.into_messages();
        assert_eq!(defect_of(&messages[0]), None);
        assert!(
            messages.iter().filter_map(defect_of).any(|found| found == reason),
            "{messages:?}"
        );
    }
    let mut error = bytes(NOT_SUPPORTED);
    error[16..20].copy_from_slice(&i32::MIN.to_ne_bytes());
    assert!(refused(&error).contains("an error with number -2147483648"));
}

#[test]
fn a_list_that_changed_meanwhile_is_marked() {
    let mut done = bytes(DONE);
    done[4] = 3;
    let mut interrupted = bytes(MESSAGE);
    interrupted[6] = 0x12;
    for (message, expected) in [(bytes(MESSAGE), false), (interrupted, true)] {
        let mut reply = reply();
        assert!(reply.add(&[message, done.clone()].concat()).unwrap());
        assert_eq!(reply.is_interrupted(), expected);
    }
}

/// The commands of a family as the controller lists them.
#[test]
fn entries_that_only_their_numbers_distinguish_are_a_list() {
    const FAMILY: Schema = &[(6, "ops", Kind::Entries(&[(1, "id", Kind::Number)]))];
    let command = |place: u16, id: u32| nest(place, &[number(1, id), number(2, 14)]);
    let commands = nest(6, &[command(1, 6), command(2, 29)]);
    let mut reply = Reply::new(
        "",
        7,
        Form {
            schema: FAMILY,
            ..FORM
        },
    );
    assert!(!reply.add(&request(vec![commands]).bytes(7)).unwrap());
    assert_eq!(reply.into_messages(), [json!({"ops": [{"id": 6}, {"id": 29}]})]);
}

/// The table of trusted selectors: two sorts of attributes in one order.
#[test]
fn numbers_of_several_attributes_are_one_list_in_their_order() {
    const TABLE: Schema = &[(
        11,
        "trust-table",
        Kind::Nest(&[(1, "selector", Kind::Each), (2, "selector", Kind::Each)]),
    )];
    let table = nest(11, &[small(1, 5), small(2, 255), small(1, 1)]);
    let form = Form {
        schema: TABLE,
        ..FORM
    };
    let mut reply = Reply::new("", 7, form);
    assert!(!reply.add(&request(vec![table]).bytes(7)).unwrap());
    assert_eq!(
        reply.into_messages(),
        [json!({"trust-table": {"selector": [5, 255, 1]}})]
    );
}

#[test]
fn a_reply_without_end_stops_at_a_bound() {
    let mut reply = reply();
    let message = bytes(MESSAGE).repeat(1000);
    let mut bytes = 0;
    let failure = loop {
        match reply.add(&message) {
            Ok(done) => assert!(!done),
            Err(failure) => break failure,
        }
        bytes += message.len();
        assert!(bytes <= MAX_REPLY);
    };
    let Failure::Unread(unread) = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(unread.kind, UnreadKind::TooLong);
}

/// As deep as 64 KiB allow.
#[test]
fn a_deep_nest_is_not_followed_beyond_the_schema() {
    for number in [1, 2, 20, 21] {
        let mut nested = DefaultNla::new(number | NLA_F_NESTED, Vec::new());
        for _ in 0..16_000 {
            nested = nest(number, &[nested]);
        }
        let request = request(vec![nested]);
        // Refused or passed over; a deep recursion would overflow the stack.
        let _ = reply().add(&request.bytes(7));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_make_it_panic_or_go_on_forever(
        at in 0..60_usize,
        removed in 0..20_usize,
        added in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut datagram = [bytes(MESSAGE), bytes(MESSAGE), bytes(DONE)].concat();
        datagram.splice(at..at + removed, added);
        let mut reply = reply();
        if reply.add(&datagram).is_ok() {
            prop_assert!(reply.into_messages().len() <= 4);
        }
    }

    #[test]
    fn any_bytes_are_a_reply_or_refused(datagram in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = reply().add(&datagram);
    }

    /// What `bytes` writes, `Reply` reads.
    #[test]
    fn attributes_survive_the_wire(index: u32, name in "[a-z0-9]{1,15}") {
        let header = nest(1, &[number(1, index), text(2, &name)]);
        let request = request(vec![header]);
        let mut reply = reply();
        prop_assert!(!reply.add(&request.bytes(7)).unwrap());
        prop_assert_eq!(reply.into_messages(), [json!({"header": {"dev-index": index, "dev-name": name}})]);
    }
}

/// The header of a message of this type and with this length, and `body` zeros.
fn short(kind: u16, body: u8) -> Vec<u8> {
    let mut message = vec![16 + body, 0, 0, 0];
    message.extend(kind.to_ne_bytes());
    message.extend([0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    message.resize(16 + usize::from(body), 0);
    message
}

#[test]
fn an_acknowledgement_that_is_cut_off_is_none() {
    for body in 0..4 {
        assert!(
            refused(&short(NLMSG_ERROR, body)).contains("a status that is cut off"),
            "{body}"
        );
    }
    assert!(reply().add(&short(NLMSG_ERROR, 4)).unwrap());
    assert!(refused(&short(NLMSG_DONE, 2)).contains("a status that is cut off"));
    // A dump that succeeded may end without a status.
    for body in [0, 4] {
        assert!(reply().add(&short(NLMSG_DONE, body)).unwrap());
    }
}
