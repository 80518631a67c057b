//! The command line.

use std::{ffi::OsString, path::PathBuf};

/// What `--help` prints.
pub const HELP: &str = "\
Asks libibverbs about RDMA devices and probes them, for rdma-health.

Usage: rdma-health-verbs stdio
       rdma-health-verbs serve --socket PATH

Commands:
  stdio                 Answer requests in frames on standard input and output, until standard input ends
  serve --socket PATH   Listen on a Unix socket (mode 0660) and start one stdio worker per connection

Options:
  -h, --help            Print this
  -V, --version         Print the version

Exit status: 0 after the end of standard input, SIGTERM or SIGINT; 1 if it cannot start or go on; 2 for a wrong
command line, a frame that does not parse, or a peer that does not read its replies.
";

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Answer requests on standard input.
    Stdio,
    /// Listen on a socket.
    Serve {
        /// The socket's file.
        socket: PathBuf,
    },
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
}

/// Reads the arguments that follow the program's name.
///
/// # Errors
/// What is wrong with them, in words.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let first = arguments.next().ok_or("a command is missing")?;
    let command = match first.to_str() {
        Some("-h" | "--help") => return Ok(Command::Help),
        Some("-V" | "--version") => return Ok(Command::Version),
        Some("stdio") => Command::Stdio,
        Some("serve") => {
            let socket = match arguments.next() {
                Some(option) if option == "--socket" => arguments.next().ok_or("--socket needs a path")?,
                Some(option) => match option
                    .to_str()
                    .and_then(|option| option.strip_prefix("--socket="))
                {
                    Some(path) => path.into(),
                    None => return Err(unexpected(&option)),
                },
                None => return Err("serve needs --socket PATH".into()),
            };
            if socket.is_empty() {
                return Err("--socket needs a path".into());
            }
            Command::Serve {
                socket: socket.into(),
            }
        }
        _ => return Err(unexpected(&first)),
    };
    match arguments.next() {
        Some(extra) => Err(unexpected(&extra)),
        None => Ok(command),
    }
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
        });
        for (arguments, expected) in [
            (&["stdio"][..], Ok(Command::Stdio)),
            (&["serve", "--socket", "/run/x"], serve.clone()),
            (&["serve", "--socket=/run/x"], serve),
            (&["--help"], Ok(Command::Help)),
            (&["-V"], Ok(Command::Version)),
        ] {
            assert_eq!(parse_all(arguments), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (arguments, expected) in [
            (&[][..], "a command is missing"),
            (&["stdio", "x"], "unexpected argument x"),
            (&["serve"], "serve needs --socket PATH"),
            (&["serve", "--socket"], "--socket needs a path"),
            (&["serve", "--socket="], "--socket needs a path"),
            (&["serve", "--port"], "unexpected argument --port"),
            (&["serve", "--socket", "a", "b"], "unexpected argument b"),
            (&["probe"], "unexpected argument probe"),
        ] {
            assert_eq!(parse_all(arguments), Err(expected.into()));
        }
    }

    proptest! {
        #[test]
        fn no_arguments_panic(arguments: Vec<String>) {
            let _ = parse(arguments.into_iter().map(OsString::from));
        }
    }
}
