//! How NCCL leaves its functions after a failure that no warning of it explains: `NCCL INFO bootstrap.cc:270 -> 2`, the innermost function first.

/// What NCCL could not do by itself: a call of the system failed (2), or something that it did not expect (3). Others are of CUDA, of the caller or
/// of the peer.
const OWN: [&str; 2] = ["2", "3"];

/// What the lines so far show.
#[derive(Debug, Default)]
pub(super) struct Unwarned {
    /// The innermost function that failed first: the line, and its number.
    first: Option<(String, u64)>,
    /// Whether NCCL warned of something, which says more.
    warned: bool,
}

/// The part of NCCL that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Its connections over TCP.
    Sockets,
    /// Another one, or its transport over RDMA, which does not show what it could not do.
    Other,
}

impl Unwarned {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, number: u64) {
        if text.contains("NCCL WARN") {
            self.warned = true;
        } else if self.first.is_none() && failed_in(text).is_some() {
            self.first = Some((text.trim().to_owned(), number));
        }
    }

    /// The innermost function that failed, its line, and the line's number.
    pub(super) fn failed(&self) -> Option<(Part, &str, u64)> {
        let (text, number) = self.first.as_ref().filter(|_| !self.warned)?;
        let file = failed_in(text)?;
        let part = if file.ends_with("socket.cc") || file.ends_with("bootstrap.cc") {
            Part::Sockets
        } else {
            Part::Other
        };
        Some((part, text, *number))
    }
}

/// The source file of the function that a line shows to have failed.
fn failed_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("NCCL INFO ")?;
    let (place, result) = rest.split_once(" -> ")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_place = !file.contains(' ') && [".cc", ".cu"].iter().any(|end| file.ends_with(end));
    let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    let result = result.split_whitespace().next()?;
    (is_place && is_line && OWN.contains(&result)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(lines: &[&str]) -> Option<(Part, u64)> {
        let mut unwarned = Unwarned::default();
        for (number, line) in (1..).zip(lines) {
            unwarned.add(line, number);
        }
        unwarned.failed().map(|(part, _, number)| (part, number))
    }

    #[test]
    fn the_innermost_function_counts_unless_a_warning_says_more() {
        const SOCKET: &str = "n1:11:12 [0] NCCL INFO misc/socket.cc:564 -> 2";
        const INIT: &str = "n1:11:12 [0] NCCL INFO init.cc:1303 -> 2";
        const GROUP: &str = "n1:11:12 [0] NCCL INFO group.cc:64 -> 2 [Async thread]";
        const VERBS: &str = "n1:11:12 [0] NCCL INFO transport/net_ib.cc:282 -> 2";
        assert_eq!(failed(&[SOCKET, INIT, GROUP]), Some((Part::Sockets, 1)));
        assert_eq!(failed(&["x", VERBS, INIT]), Some((Part::Other, 2)));
        assert_eq!(failed(&[GROUP]), Some((Part::Other, 1)));
        assert_eq!(
            failed(&["n1:11:12 [0] NCCL WARN Call to bind failed", SOCKET]),
            None
        );
        for sound in [
            "n1:11:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0",
            "n1:11:12 [0] NCCL INFO init.cc:1303 -> 7",
            "n1:11:12 [0] NCCL INFO init.cc:1303 -> 1",
            "n1:11:12 [0] NCCL INFO Trees [0] 2/-1/-1->3->2",
        ] {
            assert_eq!(failed(&[sound]), None, "{sound}");
        }
    }
}
