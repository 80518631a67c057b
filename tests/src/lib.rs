//! What spans the crates of this workspace and what their tests share.
//!
//! - [`tree`]: a captured node as one text file that unpacks to a directory.
//! - [`capture`]: makes such a file from the machine it runs on.

pub mod capture;
pub mod tree;
