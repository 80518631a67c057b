//! The command line.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use crate::worker::Bounds;

/// The output of `--help`.
pub const HELP: &str = "\
Queries libibverbs about RDMA devices and probes them, for rdma-health.

Usage: rdma-health-verbs stdio [--host DIR] [--kubelet SOCKET] [--peers NETWORKS]
       rdma-health-verbs serve --socket PATH [--allow-uid UID] [--host DIR] [--kubelet SOCKET] [--peers NETWORKS]
       rdma-health-verbs prepare --directory DIR --uid UID

Commands:
  stdio                 Serve requests in frames on standard input and output, until standard input ends
  serve                 Listen on a Unix socket and start one stdio worker per connection
  prepare               Make a directory of the host that of an unprivileged user, as an init container before the agent

Options:
      --socket PATH     The socket; its mode is 0660, with the user and group of this program
      --allow-uid UID   User that may connect, in addition to root and the user of this program. The user also needs write
                        permission on the socket: start this program with a group of that user (setpriv --regid)
      --directory DIR   The directory to prepare; it must exist
      --uid UID         User and group that it is to belong to
      --host DIR        Directory with the host's /proc, to read the memlock limits of runtimes and kubelet
      --kubelet SOCKET  The kubelet's pod-resources service, to report which pod was given which device [default:
                        /var/lib/kubelet/pod-resources/kubelet.sock]
      --peers NETWORKS  Networks with which the user of --allow-uid may measure, such as 10.0.0.0/8,2001:db8::/32; or any
                        [default], or none. By LID it may reach the own InfiniBand subnet unless this is none. With stdio,
                        the bounds below apply to the one peer
  -h, --help            Print this help
  -V, --version         Print the version

The user of --allow-uid may measure at most 1 TiB and 60 s at a time, and on a port that carries traffic 256 MiB and 10 s. Each of at
most four connections makes one such measurement at a time. Root and the user of this program are not bounded.

Exit status: 0 after the end of standard input, SIGTERM or SIGINT; 1 if it cannot start or continue; 2 for an invalid
command line, an invalid frame, or a peer that asks nothing or does not read its replies.
";

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Answer requests on standard input.
    Stdio {
        /// The directory with the host's `/proc`.
        host: Option<PathBuf>,
        /// The kubelet's pod-resources socket, if it is not the usual one.
        kubelet: Option<PathBuf>,
        /// The bounds of the peer, if it is bounded.
        bounds: Option<Bounds>,
    },
    /// Listen on a socket.
    Serve {
        /// The socket's file.
        socket: PathBuf,
        /// A user that may connect, in addition to root and the user of this process.
        allow_uid: Option<u32>,
        /// The directory with the host's `/proc`.
        host: Option<PathBuf>,
        /// The kubelet's pod-resources socket, if it is not the usual one.
        kubelet: Option<PathBuf>,
        /// The value of `--peers` for the user that may connect.
        peers: Option<String>,
    },
    /// Give a directory to a user.
    Prepare {
        /// The directory.
        directory: PathBuf,
        /// The user, and the group.
        uid: u32,
    },
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// A message about the invalid argument.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let first = arguments.next().ok_or("missing command")?;
    let known: &[&str] = match first.to_str() {
        Some("-h" | "--help") => return end(arguments, Command::Help),
        Some("-V" | "--version") => return end(arguments, Command::Version),
        Some("stdio") => &["--host", "--kubelet", "--peers"],
        Some("serve") => &["--socket", "--allow-uid", "--host", "--kubelet", "--peers"],
        Some("prepare") => &["--directory", "--uid"],
        _ => return Err(unexpected(&first)),
    };
    let mut arguments = arguments.peekable();
    if arguments.next_if(|one| one == "-h" || one == "--help").is_some() {
        return end(arguments, Command::Help);
    }
    let mut options = options(arguments, known)?;
    let host = options.remove("--host").map(PathBuf::from);
    let kubelet = options.remove("--kubelet").map(PathBuf::from);
    let peers = peers(&mut options)?;
    if first == "stdio" {
        return Ok(Command::Stdio {
            host,
            kubelet,
            bounds: peers.map(|(_, bounds)| bounds),
        });
    }
    if first == "prepare" {
        let directory = options.remove("--directory");
        let uid = number(&mut options, "--uid")?;
        return Ok(Command::Prepare {
            directory: directory.ok_or("prepare needs --directory DIR")?.into(),
            uid: uid.ok_or("prepare needs --uid UID")?,
        });
    }
    let allow_uid = number(&mut options, "--allow-uid")?;
    let socket = options.remove("--socket").ok_or("serve needs --socket PATH")?;
    Ok(Command::Serve {
        socket: socket.into(),
        allow_uid,
        host,
        kubelet,
        peers: peers.map(|(text, _)| text),
    })
}

/// The networks of peers, as they are written and as they are read.
fn peers(options: &mut BTreeMap<&'static str, OsString>) -> Result<Option<(String, Bounds)>, String> {
    let peers = options.remove("--peers").map(|value| {
        let bounds = value
            .to_str()
            .and_then(|text| Some((text.to_owned(), Bounds::parse(text)?)));
        bounds.ok_or_else(|| {
            format!(
                "--peers needs any, none, or networks such as 10.0.0.0/8,2001:db8::/32, not {}",
                value.display()
            )
        })
    });
    peers.transpose()
}

/// The value of an option that is the number of a user.
fn number(options: &mut BTreeMap<&'static str, OsString>, name: &str) -> Result<Option<u32>, String> {
    let number = options.remove(name).map(|uid| {
        let number = uid.to_str().and_then(|uid| uid.parse().ok());
        number.ok_or_else(|| format!("{name} needs the number of a user, not {}", uid.display()))
    });
    number.transpose()
}

/// The command, if nothing follows it.
fn end(mut arguments: impl Iterator<Item = OsString>, command: Command) -> Result<Command, String> {
    match arguments.next() {
        Some(extra) => Err(unexpected(&extra)),
        None => Ok(command),
    }
}

/// The values of the options, each at most once: `--host DIR` or `--host=DIR`.
fn options(
    mut arguments: impl Iterator<Item = OsString>,
    known: &[&'static str],
) -> Result<BTreeMap<&'static str, OsString>, String> {
    let mut found = BTreeMap::new();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        let (name, joined) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
            None => (bytes, None),
        };
        let Some(name) = known.iter().find(|known| known.as_bytes() == name) else {
            return Err(unexpected(&argument));
        };
        let value = joined
            .or_else(|| arguments.next())
            .filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("{name} needs a value"))?;
        if found.insert(*name, value).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(found)
}

fn unexpected(argument: &OsString) -> String {
    format!("unexpected argument {}", argument.display())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_all(arguments: &[&str]) -> Result<Command, String> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn commands_are_read() {
        let serve = Ok(Command::Serve {
            socket: "/run/x".into(),
            allow_uid: None,
            host: None,
            kubelet: None,
            peers: None,
        });
        let all = Ok(Command::Serve {
            socket: "/run/x".into(),
            allow_uid: Some(65_521),
            host: Some("/host".into()),
            kubelet: Some("/k".into()),
            peers: Some("none".into()),
        });
        for (arguments, expected) in [
            (
                &["stdio"][..],
                Ok(Command::Stdio {
                    host: None,
                    kubelet: None,
                    bounds: None,
                }),
            ),
            (
                &["stdio", "--host=/h=x", "--peers=10.0.0.0/8"],
                Ok(Command::Stdio {
                    host: Some("/h=x".into()),
                    kubelet: None,
                    bounds: Bounds::parse("10.0.0.0/8"),
                }),
            ),
            (
                &[
                    "serve",
                    "--host",
                    "/host",
                    "--allow-uid=65521",
                    "--kubelet=/k",
                    "--peers=none",
                    "--socket",
                    "/run/x",
                ],
                all,
            ),
            (&["serve", "--socket", "/run/x"], serve.clone()),
            (&["serve", "--socket=/run/x"], serve),
            (
                &["prepare", "--directory=/var/lib/x", "--uid", "65521"],
                Ok(Command::Prepare {
                    directory: "/var/lib/x".into(),
                    uid: 65_521,
                }),
            ),
            (&["--help"], Ok(Command::Help)),
            (&["serve", "--help"], Ok(Command::Help)),
            (&["-V"], Ok(Command::Version)),
        ] {
            assert_eq!(parse_all(arguments), expected);
        }
    }

    #[test]
    fn invalid_arguments_are_named() {
        for (arguments, expected) in [
            (&[][..], "missing command"),
            (&["stdio", "x"], "unexpected argument x"),
            (&["serve"], "serve needs --socket PATH"),
            (&["serve", "--socket"], "--socket needs a value"),
            (&["serve", "--socket="], "--socket needs a value"),
            (&["serve", "--socket=a", "--socket=b"], "--socket is given twice"),
            (
                &["serve", "--socket=a", "--allow-uid=root"],
                "--allow-uid needs the number of a user, not root",
            ),
            (&["stdio", "--socket=a"], "unexpected argument --socket=a"),
            (&["serve", "--port"], "unexpected argument --port"),
            (&["serve", "--socket", "a", "b"], "unexpected argument b"),
            (&["prepare", "--uid=1"], "prepare needs --directory DIR"),
            (&["prepare", "--directory=a"], "prepare needs --uid UID"),
            (
                &["prepare", "--directory=a", "--uid=-1"],
                "--uid needs the number of a user, not -1",
            ),
            (
                &["serve", "--socket=a", "--peers=10.0.0.1"],
                "--peers needs any, none, or networks such as 10.0.0.0/8,2001:db8::/32, not 10.0.0.1",
            ),
            (&["probe"], "unexpected argument probe"),
        ] {
            assert_eq!(parse_all(arguments), Err(expected.into()));
        }
    }

    proptest! {
        #[test]
        fn a_socket_is_taken_as_it_is_written(path in ".{1,40}", joined: bool) {
            let arguments = if joined {
                vec!["serve".into(), format!("--socket={path}")]
            } else {
                vec!["serve".into(), "--socket".into(), path.clone()]
            };
            let found = parse(arguments.into_iter().map(OsString::from));
            let expected = Command::Serve { socket: path.into(), allow_uid: None, host: None, kubelet: None, peers: None };
            prop_assert_eq!(found, Ok(expected));
        }

        #[test]
        fn no_argument_is_passed_over_in_silence(
            command in prop_oneof![Just(vec!["stdio"]), Just(vec!["serve", "--socket", "x"])],
            more in prop::collection::vec("[^-].{0,8}", 1..3),
        ) {
            let arguments = command.into_iter().map(OsString::from).chain(more.iter().map(OsString::from));
            prop_assert_eq!(parse(arguments), Err(unexpected(&OsString::from(&more[0]))));
        }
    }
}
