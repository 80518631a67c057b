//! Places the functions that an agent calls next to each other in the release program.
//!
//! Most of the program is for other commands. Linux maps 64 KiB and more around each page that is used, so functions that lie among
//! those keep nearly all of it in memory. `layout/agent.ld` lists the functions; `layout/record` writes it.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=layout/agent.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Other linkers may not know how to insert a section into their own layout, and other targets were not measured.
    let other_linker = env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("fuse-ld="));
    let wanted = is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var_os("CARGO_FEATURE_AGENT").is_some()
        && !other_linker;
    if let (true, Ok(directory)) = (wanted, env::var("CARGO_MANIFEST_DIR")) {
        println!("cargo::rustc-link-arg-bin=rdma-health=-Wl,-T,{directory}/layout/agent.ld");
    }
}
