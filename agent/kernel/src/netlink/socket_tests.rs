//! Senders, interrupted lists, and families and commands that a kernel does not have.

use rustix::net::socketpair;

use super::*;

#[test]
fn only_the_kernel_is_believed() {
    assert!(is_kernel(Some(SocketAddrNetlink::new(0, 0).into())));
    assert!(!is_kernel(Some(SocketAddrNetlink::new(4711, 0).into())));
    assert!(!is_kernel(None));
}

/// A socket whose other end is not the kernel: each datagram comes from another sender.
#[test]
fn datagrams_of_others_are_passed_over_until_the_time_is_up() {
    let (own, other) = socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .unwrap();
    // What ends a reply with success if the kernel sends it.
    let mut done = [0; 20];
    done[0] = 20;
    done[4..6].copy_from_slice(&3_u16.to_ne_bytes());
    let sender = std::thread::spawn(move || {
        // As fast as it is taken, until the reader is gone.
        while !matches!(
            send(&other, &done, SendFlags::NOSIGNAL),
            Err(Errno::CONNREFUSED | Errno::PIPE | Errno::NOTCONN | Errno::CONNRESET)
        ) {
            std::thread::yield_now();
        }
    });
    let mut reply = Reply::new("question", 0, generic(16, 1, &[]));
    let failure = receive(&own, &mut reply).unwrap_err();
    drop(own);
    sender.join().unwrap();
    let Failure::Unread(unread) = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(unread.kind, UnreadKind::Errno(Errno::TIMEDOUT));
    assert_eq!(unread.detail, "the kernel's reply did not end in time");
    assert!(reply.into_messages().is_empty());
}

/// A kernel that says of the first lists that they changed meanwhile.
fn asked(interrupted: usize) -> (Result<usize, Failure>, usize) {
    let mut number = 0;
    let answer = twice(|| {
        number += 1;
        let mut reply = Reply::new("question", 0, generic(16, 1, &[]));
        // The end of a list, with or without NLM_F_DUMP_INTR.
        let mut done = [0; 20];
        done[0] = 20;
        done[4] = 3;
        done[6] = if number <= interrupted { 0x12 } else { 2 };
        reply.add(&done)?;
        Ok(reply)
    });
    (answer.map(|messages| messages.len()), number)
}

#[test]
fn a_list_that_changed_meanwhile_is_requested_again() {
    assert_eq!(asked(0), (Ok(0), 1));
    assert_eq!(asked(1), (Ok(0), 2));
    let (answer, number) = asked(9);
    let Err(Failure::Unread(unread)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((unread.kind, number), (UnreadKind::Errno(Errno::INTR), 2));
}

/// The kernel of this machine has the controller, and no family of that name.
#[test]
fn a_family_that_the_kernel_does_not_have_is_reported() {
    let mut client = Client::default();
    let failure = client.family("question", "no_such_family").unwrap_err();
    let Failure::Unread(unread) = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(
        unread.to_string(),
        "question: this kernel has no netlink family no_such_family (EOPNOTSUPP)"
    );
    let controller = client.family("question", "nlctrl").unwrap();
    assert_eq!(controller.number, 16);
    assert!(controller.commands.contains(&3), "{:?}", controller.commands);
}

/// The controller has no command with this number.
#[test]
fn a_command_that_the_kernel_does_not_have_is_not_that_of_a_driver() {
    let question = Question {
        family: "nlctrl",
        call: Call::Generic(99, 99),
        dump: false,
        attributes: Vec::new(),
        schema: &[],
    };
    let failure = Client::default().ask("question", question).unwrap_err();
    let Failure::Unread(unread) = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(
        unread.to_string(),
        "question: this kernel is too old: its netlink family nlctrl does not have this command (EOPNOTSUPP)"
    );
}
