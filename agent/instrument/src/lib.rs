//! Metric families: each is declared once, where it is counted, and the catalogue and the registry are made of that.
//!
//! A crate declares its families with [`families!`] and registers them with methods of [`Family`]. It depends on no other
//! crate for this: the program passes the same registry to every crate, and lists the families of all of them.

#![forbid(unsafe_code)]

mod family;
mod register;
mod reload;

pub use family::{Entry, Family, Group, Kind, count};
pub use prometheus::Registry;
pub use reload::{ReloadFamilies, Reloads};
