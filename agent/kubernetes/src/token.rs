//! The token of a service account, from the file that the kubelet renews.
//!
//! The Kubernetes client can read it, too, but in the agent's only thread, without a limit on time or size.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use hyper::header::HeaderValue;
use rdma_health_file::{Links, Worker};

use super::failure::Failure;

/// How long a token is used before the file is read again. The kubelet renews a token long before it expires.
const FRESH: Duration = Duration::from_secs(60);
/// Maximum size of a token in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// A file with a token.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    worker: Worker<Result<HeaderValue, String>>,
    /// The last token, and when the file was last read.
    last: Option<(HeaderValue, Instant)>,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            worker: Worker::retrying(),
            last: None,
        }
    }

    /// The value of the header `Authorization`. A file that cannot be read any more does not invalidate its last token.
    pub(super) async fn authorization(&mut self) -> Result<HeaderValue, Failure> {
        if let Some((token, at)) = &self.last
            && at.elapsed() < FRESH
        {
            return Ok(token.clone());
        }
        let path = self.path.clone();
        let read = self.worker.run(move || read(&path)).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        let token = match (read, &self.last) {
            (Ok(token), _) => token,
            (Err(_), Some((token, _))) => token.clone(),
            (Err(error), None) => {
                let path = self.path.display();
                return Err(Failure::Configuration(format!(
                    "cannot read the token in {path}: {error}"
                )));
            }
        };
        self.last = Some((token.clone(), Instant::now()));
        Ok(token)
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue, String> {
    let bytes = rdma_health_file::read(path, MAX_TOKEN, Links::Follow).map_err(|error| error.to_string())?;
    let token = bytes.trim_ascii();
    if token.is_empty() {
        return Err("the file is empty".into());
    }
    let mut header = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .map_err(|_| "the file contains characters that a token cannot have")?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_read_again_and_the_last_one_is_kept_if_the_file_is_unusable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let mut file = TokenFile::new(path.clone());
        let error = file.authorization().await.unwrap_err().to_string();
        assert!(
            error.contains(&*path.to_string_lossy()) && error.contains("No such file"),
            "{error}"
        );
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(file.authorization().await.unwrap(), "Bearer one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(
            file.authorization().await.unwrap(),
            "Bearer one",
            "not read at each request"
        );
        let expire = |file: &mut TokenFile| file.last.as_mut().unwrap().1 -= FRESH;
        expire(&mut file);
        assert_eq!(file.authorization().await.unwrap(), "Bearer two");
        std::fs::remove_file(&path).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        expire(&mut file);
        assert_eq!(file.authorization().await.unwrap(), "Bearer two");
        assert!(file.authorization().await.unwrap().is_sensitive());
    }
}
