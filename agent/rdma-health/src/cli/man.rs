//! `rdma-health man`: manual pages, made from the command line's own help.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::help::{self, ExitStatus};

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
        None => std::io::stdout().lock().write_all(&page(&command)?)?,
        Some(directory) => {
            let failed = |path: &Path| format!("cannot write {}", path.display());
            fs::create_dir_all(directory).with_context(|| failed(directory))?;
            for command in std::iter::once(&command).chain(command.get_subcommands()) {
                let path = directory.join(format!("{}.1", name(command)));
                fs::write(&path, page(command)?).with_context(|| failed(&path))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `rdma-health-check`: the name of a command's page.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// One page. `clap_mangen` would print examples and exit status as one paragraph.
fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(concat!("rdma-health ", env!("CARGO_PKG_VERSION")))
        .manual("rdma-health");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let is_main = command.has_subcommands();
    if is_main {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    rest.control("SH", ["EXAMPLES"]);
    for (purpose, line) in help::examples(command.get_name()) {
        rest.control("TP", []);
        rest.text([roman(purpose)]);
        rest.text([bold(line)]);
    }
    rest.control("SH", ["EXIT STATUS"]);
    if is_main {
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
    } else {
        let ExitStatus { brief, detail } = help::exit_status(command.get_name());
        rest.text([roman(brief)]);
        rest.control("PP", []);
        rest.text([roman(detail)]);
        rest.control("SH", ["SEE ALSO"]);
        rest.text([bold("rdma-health"), roman("(1)")]);
    }
    rest.to_writer(&mut page)?;
    page.push(b'\n');
    Ok(page)
}
