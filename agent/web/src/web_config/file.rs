//! The file's format, and the protection that it defines.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::SystemTime,
};

use hyper::header::{HeaderName, HeaderValue};
use rdma_health_file::{Links, Unanswered};
use rdma_health_yaml::{Error, explain, line_of};
use serde::{Deserialize, Deserializer};

use super::{Web, users::Users};
use crate::tls::{self, Tls};

/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The headers that the file format allows.
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
    // A section without a value is an error, because it would silently give no protection.
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
    /// Accepted but without effect: the server supports only HTTP/1.1.
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

/// The contents of the file and of the files that it names.
#[derive(Clone, PartialEq, Eq)]
pub struct Sources {
    path: PathBuf,
    text: Result<Vec<u8>, String>,
    named: BTreeMap<PathBuf, Result<Vec<u8>, String>>,
}

impl Sources {
    /// Reads all files; [`build`](Self::build) reports the ones that cannot be read.
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

    /// The path of the web configuration itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is known if the file system does not respond.
    pub(super) fn unreadable(path: &Path, error: Unanswered) -> Self {
        Self {
            path: path.to_owned(),
            text: Err(format!("cannot read it or a file that it names: {error}")),
            named: BTreeMap::new(),
        }
    }

    /// The paths of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let files = std::iter::once(&self.path).chain(self.named.keys());
        files.map(PathBuf::as_path)
    }

    /// Builds the protection.
    ///
    /// # Errors
    /// The error, with file, line and key.
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
            web.proves_clients = tls.demands_certificates();
            web.validity = Some(built.validity);
            if built.validity.until < SystemTime::now() {
                let until = humantime::format_rfc3339_seconds(built.validity.until);
                let what = format!("the certificate expired on {until}");
                web.expired = Some(refuse((tls.certificate_key(), what)));
            }
        }
        web.users = Users::new(form.basic_auth_users)
            .map_err(|(user, what)| self.error(&format!("basic_auth_users.{user}"), &what))?;
        for (name, value) in &form.http_server_config.headers {
            let key = format!("http_server_config.headers.{name}");
            if !HEADERS.contains(&name.as_str()) {
                let what = format!("cannot be set; supported are {}", HEADERS.join(", "));
                return Err(self.error(&key, &what));
            }
            if value.is_empty() {
                continue;
            }
            let header = HeaderName::from_bytes(name.as_bytes()).ok();
            let value = HeaderValue::from_str(value).ok();
            let Some(header) = header.zip(value) else {
                return Err(self.error(&key, "contains characters that a header cannot have"));
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
            Err(error) => Err(explain(&error, text, &[]).in_file(&self.path)),
        }
    }

    /// The path of a file. As in other exporters, relative paths start at the directory of the web configuration.
    fn place(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }

    fn error(&self, key: &str, what: &str) -> Error {
        let text = self.text.as_ref().ok();
        let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let section = key.split('.').next().unwrap_or(key);
        let line = text.and_then(|text| line_of(text, key).or_else(|| line_of(text, section)));
        Error::new(format!("`{key}`: {what}"))
            .at(line)
            .in_file(&self.path)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    rdma_health_file::read(path, MAX_FILE, Links::Follow).map_err(|error| error.to_string())
}
