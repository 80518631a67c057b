//! Ports and their links.

mod down_reason;
mod expected_up;
mod port_down;
mod subnet_manager;

pub use self::{port_down::PORT_DOWN, subnet_manager::NO_SUBNET_MANAGER};
