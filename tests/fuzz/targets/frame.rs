//! Any bytes as what the agent and its helper say to each other.
#![no_main]

use rdma_health_protocol::{Message, Request, frame};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut stream = bytes;
    while let Ok(message) = frame::read::<Message>(&mut stream) {
        let again = frame::encode(&message).expect("what was read fits a frame");
        // Compared as text: a message may hold a number that equals nothing.
        let again: Message = frame::read(&mut again.as_slice()).expect("what was written");
        assert_eq!(format!("{again:?}"), format!("{message:?}"));
    }
    let _ = frame::decode::<Request>(bytes);
});
