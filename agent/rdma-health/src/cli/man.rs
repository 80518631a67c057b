//! `rdma-health man`: manual pages, made from the command line's own help.

use std::{io::Write, path::PathBuf, process::ExitCode};

use clap::Args;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::{
    file,
    help::{self, ExitStatus},
};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Write the pages of all commands to this directory, which is created if missing [default: print the main page]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut command = super::command().disable_help_subcommand(true);
    // Gives the subcommands their full names.
    command.build();
    match &arguments.dir {
        None => std::io::stdout().lock().write_all(&page(&command, None)?)?,
        Some(directory) => {
            file::make_directory(directory)?;
            for page in pages(&command)? {
                file::publish(&directory.join(format!("{}.1", page.name)), &page.text)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A manual page.
struct Page {
    name: String,
    text: Vec<u8>,
}

/// The pages of the program, of its commands and of theirs.
fn pages(program: &clap::Command) -> std::io::Result<Vec<Page>> {
    let of = |command: &clap::Command, parent| {
        page(command, parent).map(|text| Page {
            name: name(command).to_owned(),
            text,
        })
    };
    let mut all = vec![of(program, None)?];
    for command in program.get_subcommands() {
        all.push(of(command, Some(program))?);
        for below in command.get_subcommands() {
            all.push(of(below, Some(command))?);
        }
    }
    Ok(all)
}

/// `rdma-health-check`: the name of a command's page.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// One page. `clap_mangen` would print examples and exit status as one paragraph.
fn page(command: &clap::Command, parent: Option<&clap::Command>) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(concat!("rdma-health ", env!("CARGO_PKG_VERSION")))
        .manual("rdma-health");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    // The commands of a command share its examples and its exit status.
    let described = parent
        .filter(|parent| parent.get_name() == "kubectl")
        .unwrap_or(command);
    let mut rest = Roff::new();
    rest.control("SH", ["EXAMPLES"]);
    for (purpose, line) in help::examples(described.get_name()) {
        rest.control("TP", []);
        rest.text([roman(purpose)]);
        rest.text([bold(line)]);
    }
    rest.control("SH", ["EXIT STATUS"]);
    let Some(parent) = parent else {
        for (name, status) in help::VERDICTS {
            rest.control("TP", []);
            rest.text([bold(name)]);
            rest.text([roman(status.brief)]);
        }
        rest.control("TP", []);
        rest.text([roman("other commands")]);
        rest.text([roman(help::OTHERS.brief)]);
        rest.control("SH", ["ENVIRONMENT"]);
        rest.text([roman(help::ENVIRONMENT)]);
        return ended(page, &rest);
    };
    let ExitStatus { brief, detail } = help::exit_status(described.get_name());
    rest.text([roman(brief)]);
    rest.control("PP", []);
    rest.text([roman(detail)]);
    rest.control("SH", ["SEE ALSO"]);
    rest.text([bold(name(parent)), roman("(1)")]);
    ended(page, &rest)
}

fn ended(mut page: Vec<u8>, rest: &Roff) -> std::io::Result<Vec<u8>> {
    rest.to_writer(&mut page)?;
    page.push(b'\n');
    Ok(page)
}
