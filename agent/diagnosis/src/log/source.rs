//! Whether what was given as a log is source code or a patch: its texts of errors did not happen.

use super::origin;

/// The fewest lines of code that make a text source code.
const LINES: u32 = 2;

/// What the lines so far show.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// A patch begins a part, or a file.
    is_patch: bool,
    /// A program wrote a line when it ran.
    ran: bool,
    /// Number of lines that are not empty.
    lines: u32,
    /// Number of those that are code.
    code: u32,
    /// Number of those that are code if others are.
    like_code: u32,
}

impl Source {
    /// Adds a line.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.ran || bytes.trim_ascii().is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        if is_patch(&text) {
            self.is_patch = true;
            return;
        }
        self.ran = origin::has(&text);
        self.lines = self.lines.saturating_add(1);
        if is_code(&text) {
            self.code = self.code.saturating_add(1);
        } else if is_like_code(&text) {
            self.like_code = self.like_code.saturating_add(1);
        }
    }

    /// Whether it is a patch, or most lines are code, and no program wrote any of them when it ran.
    pub(super) fn is_source(&self) -> bool {
        let all = self.code.saturating_add(self.like_code);
        !self.ran && (self.is_patch || self.code >= LINES && all.saturating_mul(2) > self.lines)
    }
}

/// Whether a line begins a part of a patch, or its next file: `@@ -81,7 +81,13 @@ void efa_show_help()`.
fn is_patch(text: &str) -> bool {
    let is_part = || {
        let inner = text.strip_prefix("@@ -")?.split_once(" @@")?.0;
        let (old, new) = inner.split_once(" +")?;
        let is_range = |range: &str| range.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
        Some(is_range(old) && is_range(new))
    };
    text.starts_with("diff --git ") || is_part() == Some(true)
}

/// Whether a line is one of C and its relatives: a statement, a label, a text between quotes, an entry of a table, a comment.
fn is_code(text: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "case ",
        "return ",
        "if (",
        "} else",
        "#define ",
        "#include ",
        "static ",
        "/* ",
        "// ",
    ];
    const WHOLE: [&str; 5] = ["{", "}", "};", "},", "break;"];
    let trimmed = text.trim();
    let ends = |ends: &[&str]| ends.iter().any(|end| trimmed.ends_with(end));
    // A pair of JSON has a colon after its name.
    let is_text =
        trimmed.starts_with('"') && ends(&["\"", "\";", "\",", "\")", "\");"]) && !trimmed.contains("\": ");
    let is_entry = trimmed.starts_with('[') && trimmed.contains("= \"") && trimmed.contains(']');
    let is_statement = BEGINNINGS.iter().any(|begin| trimmed.starts_with(begin))
        && ends(&[";", ":", "{", "*/", "\\", ")", "\""]);
    let is_call = ends(&[");", "\";"]) && trimmed.contains('(');
    is_text || is_entry || is_statement || is_call || WHOLE.contains(&trimmed)
}

/// Whether a line may be one of C next to others: a statement, the beginning of a block, a line of a long comment or of a list of arguments.
fn is_like_code(text: &str) -> bool {
    let trimmed = text.trim();
    let is_argument =
        || text.starts_with(['\t', ' ']) && trimmed.ends_with(',') && !trimmed.contains(['"', ':']);
    trimmed.ends_with([';', '{'])
        || ["* ", "*/", "#"].iter().any(|begin| trimmed.starts_with(begin))
        || is_argument()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_source(text: &str) -> bool {
        let mut source = Source::default();
        for line in text.lines() {
            source.add(line.as_bytes());
        }
        source.is_source()
    }

    #[test]
    fn code_and_patches_are_source_and_what_programs_wrote_is_not() {
        for text in [
            "\t[FI_EFA_LOCAL_ERROR_UNRESP_REMOTE] = \"Unresponsive receiver. \"\n\t\t\"The peer does not answer.\",",
            "@@ -81,7 +81,13 @@ void efa_show_help(enum efa_errno err)\n \t\thelp = \"This error is detected locally. \"",
            "diff --git a/net.cc b/net.cc\n+  WARN(\"ibv_create_qp failed\");",
            "#include <uct/ib.h>\n\nstatic int create(struct dev *dev,\n                  int port)\n{\n    dev->flags |= DEVICE_FAILED;\n    \
             ucs_error(\"failed to find a gid\");\n    goto out;\n}",
            "\tcase IBV_WC_RETRY_EXC_ERR:\n\t\treturn \"transport retry counter exceeded\";",
        ] {
            assert!(is_source(text), "{text}");
        }
        for text in [
            "n1:812:901 [0] NCCL WARN Call to ibv_create_qp failed\n{",
            "{\n\"message\": \"ibv_create_qp failed\",\n\"level\": \"error\",\n}",
            "ibv_create_qp failed: Cannot allocate memory\nrdma_connect failed;",
            "+ ib_write_bw -d mlx5_0\nFailed to create QP.",
            "2026-11-22 10:11:12 at mlx5_0 (return 12);\ncase 3: failed;\nreturn -12;",
        ] {
            assert!(!is_source(text), "{text}");
        }
    }
}
