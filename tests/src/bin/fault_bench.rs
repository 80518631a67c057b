//! `make fault-bench`: injects every fault and scores the doctor.
//!
//! `fault_bench [--write FILE] [--trees] [WORD…]`: only what has one of the words in its name or its node's; `--trees`
//! boots no machine; `--write` also keeps the table in a page of the documentation. Ends with 1 where a first
//! guess is wrong and not a known miss, or a healthy part is called broken. The cases of `fixtures/field` are reported
//! separately, because their misses are the figure that counts.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use rdma_health_tests::fault_bench::{Outcome, Selection, field_cases, live, scenes::SCENES, table, trees};
use rdma_health_tests::virtual_node::built;

struct Arguments {
    selection: Selection,
    write: Option<PathBuf>,
    only_trees: bool,
}

fn arguments() -> Result<Arguments> {
    let mut found = Arguments {
        selection: Selection::default(),
        write: None,
        only_trees: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--write" => found.write = Some(words.next().context("--write needs a file")?.into()),
            "--trees" => found.only_trees = true,
            word if word.starts_with('-') => bail!("usage: fault_bench [--write FILE] [--trees] [WORD…]"),
            _ => found.selection.only.push(word),
        }
    }
    let whole = found.selection.only.is_empty() && !found.only_trees;
    ensure!(whole || found.write.is_none(), "--write keeps a whole run only");
    Ok(found)
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    let program = built("rdma-health")?;
    let folder = program.parent().context("the program lies in a folder")?;
    let mut outcomes = Vec::new();
    let mut report = |outcome: Outcome| {
        println!("{}", table::line(&outcome));
        outcomes.push(outcome);
    };
    let mut broken_off = Vec::new();
    if !arguments.only_trees {
        for scene in SCENES {
            if let Err(error) = live::run(scene, folder, &arguments.selection, &mut report) {
                println!("BENCH   {}: {error:#}", scene.name);
                broken_off.push(scene.name);
            }
        }
    }
    trees::run(&program, &arguments.selection, &mut report)?;
    let mut field = Vec::new();
    field_cases::run(&program, &arguments.selection, &mut |outcome| {
        println!("{}", outcome.line());
        field.push(outcome);
    })?;
    let totals = table::Totals::of(&outcomes);
    println!("\n{}\n{}", totals.line(), field_cases::totals(&field));
    if !broken_off.is_empty() {
        println!("not finished: {}", broken_off.join(", "));
    } else if let Some(path) = &arguments.write {
        table::write(path, &outcomes, &field)?;
    }
    let passed = broken_off.is_empty() && outcomes.iter().all(Outcome::passed);
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
