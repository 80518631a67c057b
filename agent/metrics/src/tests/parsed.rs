//! The text read again, as strictly as Prometheus does.

use std::collections::BTreeMap;

/// The text read again, as strictly as Prometheus does: head before series, families in one piece, no series twice.
/// By family: its type and its series with their values.
pub(super) fn parsed(text: &str) -> BTreeMap<String, (String, BTreeMap<String, f64>)> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, (String, BTreeMap<String, f64>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            current = head.split(' ').next().unwrap().to_owned();
            let new = families.insert(current.clone(), Default::default()).is_none();
            assert!(new, "{current} comes twice");
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert_eq!(name, current);
            families.get_mut(name).unwrap().0 = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffix = name
                .strip_prefix(current.as_str())
                .unwrap_or_else(|| panic!("{name} below {current}"));
            let (kind, all) = families.get_mut(&current).unwrap();
            assert!(suffix.is_empty() || kind == "histogram", "{name}");
            if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
                check_labels(labels);
            }
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(
                all.insert(series.to_owned(), value).is_none(),
                "{series} comes twice"
            );
        }
    }
    families
}

/// `{name="value",…}` with nothing unescaped inside.
fn check_labels(labels: &str) {
    let mut rest = labels.strip_prefix('{').unwrap();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{labels}"
        );
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (_, '\\') => assert!(matches!(chars.next().unwrap().1, '\\' | '"' | 'n'), "{labels}"),
                (at, '"') => break at,
                _ => {}
            }
        };
        match &after[end + 1..] {
            "}" => return,
            more => rest = more.strip_prefix(',').unwrap(),
        }
    }
}
