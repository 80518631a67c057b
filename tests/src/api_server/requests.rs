//! Questions to the server, as `kubectl` and the kubelet ask them.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{ADMIN, ApiServer};

/// An answer of the server.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body, as JSON where it is that.
    pub body: Value,
}

impl ApiServer {
    /// Asks it as a user who may do anything, as `kubectl` would. `body` is sent as JSON, as a merge patch to PATCH.
    ///
    /// # Errors
    /// Where there is no answer within ten seconds.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let kind = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        self.ask_as(ADMIN, method, path, kind, body)
    }

    /// Asks it as the bearer of a token.
    ///
    /// # Errors
    /// Where there is no answer within ten seconds.
    pub fn ask_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "10", "--cacert"])
            .arg(self.certificate_authority())
            .args(["--request", method, "--header"])
            .arg(format!("Authorization: Bearer {token}"))
            .args(["--header", &format!("Content-Type: {kind}")])
            .args(["--write-out", "\n%{http_code}"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if body.is_some() {
            curl.args(["--data-binary", "@-"]);
        }
        let mut child = curl
            .arg(format!("{}{path}", self.url()))
            .spawn()
            .context("curl")?;
        if let (Some(body), Some(stdin)) = (body, child.stdin.as_mut()) {
            stdin.write_all(body.to_string().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let (body, status) = text.rsplit_once('\n').context("no status")?;
        let status = status.trim().parse()?;
        ensure!(
            status != 0,
            "no answer: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        Ok(Answer { status, body })
    }

    /// Asks and insists on a success.
    ///
    /// # Errors
    /// Where it answers otherwise.
    pub fn must(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let answer = self.ask(method, path, body)?;
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {path}: {} {}",
            answer.status,
            answer.body
        );
        Ok(answer.body)
    }

    /// Registers a Node, as a kubelet would.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn create_node(&self, name: &str) -> Result<Value> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        self.must("POST", "/api/v1/nodes", Some(&node))
    }

    /// A Node as it is.
    ///
    /// # Errors
    /// Where the server does not know it or does not answer.
    pub fn node(&self, name: &str) -> Result<Value> {
        self.must("GET", &format!("/api/v1/nodes/{name}"), None)
    }

    /// One condition of a Node; `None` where it has none of that type.
    ///
    /// # Errors
    /// As for [`ApiServer::node`].
    pub fn condition(&self, node: &str, kind: &str) -> Result<Option<Value>> {
        let node = self.node(node)?;
        let conditions = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        Ok(conditions.into_iter().find(|condition| condition["type"] == kind))
    }

    /// Events about a Node.
    ///
    /// # Errors
    /// Where the server does not answer.
    pub fn events(&self, node: &str) -> Result<Vec<Value>> {
        let path = format!(
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind=Node,involvedObject.name={node}"
        );
        let list = self.must("GET", &path, None)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}
