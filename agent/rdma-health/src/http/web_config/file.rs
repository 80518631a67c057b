//! The file's form, and what becomes of it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};

use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer};

use super::{Web, users::Users};
use crate::{
    config::{self, Error},
    http::tls::{self, Tls},
};

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The headers that may be set: those that the form has.
const HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Form {
    // A section without a value asks for nothing that could be given: it is refused.
    #[serde(deserialize_with = "given")]
    tls_server_config: Option<Tls>,
    #[serde(deserialize_with = "or_default")]
    http_server_config: Http,
    #[serde(deserialize_with = "or_default")]
    basic_auth_users: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Http {
    /// Accepted and without effect: HTTP/1.1 alone is spoken.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    headers: BTreeMap<String, String>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tls>, D::Error> {
    Tls::deserialize(deserializer).map(Some)
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The file and the files that it names, as they were read.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sources {
    path: PathBuf,
    text: Result<Vec<u8>, String>,
    named: BTreeMap<PathBuf, Result<Vec<u8>, String>>,
}

impl Sources {
    /// Reads them all; what cannot be read is told by [`build`](Self::build).
    pub(super) fn read(path: &Path) -> Self {
        let mut sources = Self {
            path: path.to_owned(),
            text: read(path),
            named: BTreeMap::new(),
        };
        if let Ok(form) = sources.form() {
            let tls = form.tls_server_config.unwrap_or_default();
            for (_, name) in tls.files() {
                let file = sources.place(name);
                let content = read(&file);
                sources.named.insert(file, content);
            }
        }
        sources
    }

    /// The web configuration itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directories that these files are in.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        let files = std::iter::once(&self.path).chain(self.named.keys());
        files.map(|file| match file.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        })
    }

    /// Makes the protection of it.
    ///
    /// # Errors
    /// What is wrong, with file, line and key.
    pub(super) fn build(&self) -> Result<Web, Error> {
        let form = self.form()?;
        let mut web = Web::default();
        if let Some(tls) = &form.tls_server_config {
            let content = |name: &str| match self.named.get(&self.place(name)) {
                Some(Ok(content)) => Ok(content.clone()),
                Some(Err(error)) => Err(error.clone()),
                None => Err("was not read".into()),
            };
            let refuse = |(key, what): (&str, String)| self.error(&format!("tls_server_config.{key}"), &what);
            let built = tls::build(tls, content).map_err(refuse)?;
            web.tls = Some(built.acceptor);
            web.expires = Some(built.expires);
            if built.expires < SystemTime::now() {
                let until = humantime::format_rfc3339_seconds(built.expires);
                let what = format!("the certificate expired on {until}");
                web.expired = Some(refuse((tls.certificate_key(), what)));
            }
        }
        web.users = Users::new(form.basic_auth_users)
            .map_err(|(user, what)| self.error(&format!("basic_auth_users.{user}"), &what))?;
        for (name, value) in &form.http_server_config.headers {
            let key = format!("http_server_config.headers.{name}");
            if !HEADERS.contains(&name.as_str()) {
                let what = format!("cannot be set; these can: {}", HEADERS.join(", "));
                return Err(self.error(&key, &what));
            }
            if value.is_empty() {
                continue;
            }
            let header = HeaderName::from_bytes(name.as_bytes()).ok();
            let value = HeaderValue::from_str(value).ok();
            let Some(header) = header.zip(value) else {
                return Err(self.error(&key, "holds characters that a header cannot"));
            };
            web.headers.push(header);
        }
        Ok(web)
    }

    fn form(&self) -> Result<Form, Error> {
        let whole = |what: &str| Error::new(what).in_file(&self.path);
        let bytes = self.text.as_ref().map_err(|error| whole(error))?;
        let text = std::str::from_utf8(bytes).map_err(|_| whole("not UTF-8 text"))?;
        match serde_saphyr::from_str::<Option<Form>>(text) {
            Ok(form) => Ok(form.unwrap_or_default()),
            Err(error) => Err(config::explain(&error, text).in_file(&self.path)),
        }
    }

    /// Where a file is: relative names begin at the directory of the web configuration, as in other exporters.
    fn place(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }

    fn error(&self, key: &str, what: &str) -> Error {
        let text = self.text.as_ref().ok();
        let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let section = key.split('.').next().unwrap_or(key);
        let line =
            text.and_then(|text| config::line_of(text, key).or_else(|| config::line_of(text, section)));
        Error::new(format!("`{key}`: {what}"))
            .at(line)
            .in_file(&self.path)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut content));
    match read {
        Ok(length) if length as u64 > MAX_FILE => Err(format!("longer than {} KiB", MAX_FILE >> 10)),
        Ok(_) => Ok(content),
        Err(error) => Err(error.to_string()),
    }
}
