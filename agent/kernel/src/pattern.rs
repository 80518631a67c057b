//! Patterns for device names.

/// Whether `name` matches `pattern`, in which `*` matches any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|n| rest.is_char_boundary(n) && matches(after, &rest[n..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("mlx5_0", "mlx5_0", true),
            ("mlx5_0", "mlx5_01", false),
            ("mlx5_*", "mlx5_12", true),
            ("*_bond_*", "mlx5_bond_0", true),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
