//! Structures of C in netlink messages.

use serde_json::{Map, Value};

/// The fields that are used of a structure of C: name, offset in bytes, content. A field beyond the end is left out: an older kernel has
/// a shorter structure.
pub(super) type Layout = &'static [(&'static str, usize, Field)];

/// The content of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    /// An unsigned number of so many bytes: 1, 2, 4 or 8.
    Number(usize),
    /// So many numbers of so many bytes.
    Numbers(usize, usize),
    /// A MAC address.
    Mac,
    /// A number of 8 bytes that is a GUID.
    Guid,
}

/// The fields of a structure, as far as it reaches.
pub(super) fn fields(bytes: &[u8], layout: Layout) -> Map<String, Value> {
    let field = |&(name, offset, field): &(&str, usize, Field)| {
        let rest = bytes.get(offset..)?;
        let value = match field {
            Field::Number(size) => Value::from(unsigned(rest.get(..size)?)?),
            Field::Numbers(count, size) => {
                let numbers = rest.get(..count * size)?.chunks(size);
                numbers.map(unsigned).collect::<Option<Vec<u64>>>()?.into()
            }
            Field::Mac => {
                let digits: Vec<_> = rest.get(..6)?.iter().map(|byte| format!("{byte:02x}")).collect();
                digits.join(":").into()
            }
            Field::Guid => {
                let guid = unsigned(rest.get(..8)?)?;
                let parts = [48, 32, 16, 0].map(|shift| format!("{:04x}", guid >> shift & 0xffff));
                parts.join(":").into()
            }
        };
        Some((name.to_owned(), value))
    };
    layout.iter().filter_map(field).collect()
}

/// A number in the order of bytes of this machine.
pub(super) fn unsigned(bytes: &[u8]) -> Option<u64> {
    Some(match bytes.len() {
        1 => bytes[0].into(),
        2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
        4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        8 => u64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}
