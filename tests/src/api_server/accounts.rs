//! Service accounts: what they may do, their tokens and their kubeconfigs.

use std::{fmt::Write as _, fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{ApiServer, NAMESPACE, openssl::openssl};

impl ApiServer {
    /// The service accounts of the agent and of the command that removes its traces.
    pub(super) fn prepare_rbac(&self) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.must("POST", "/api/v1/namespaces", Some(&namespace))?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "agent"}});
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        self.must("POST", &accounts, Some(&account))?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "remover"}});
        self.must("POST", &accounts, Some(&account))?;
        self.grant()
    }

    /// Gives both service accounts what the product's manifests grant, whatever they had.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn grant(&self) -> Result<()> {
        self.allow(
            "agent",
            &json!([
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
            ]),
        )?;
        self.allow(
            "remover",
            &json!([
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
            ]),
        )
    }

    /// Makes the rules of a service account of [`NAMESPACE`] these.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn allow(&self, account: &str, rules: &Value) -> Result<()> {
        const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";
        let name = format!("rdma-health-{account}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        });
        let path = format!("{GROUP}/clusterroles");
        if self.ask("POST", &path, Some(&role))?.status == 409 {
            self.must("PUT", &format!("{path}/{name}"), Some(&role))?;
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        });
        let answer = self.ask("POST", &format!("{GROUP}/clusterrolebindings"), Some(&binding))?;
        ensure!(matches!(answer.status, 201 | 409), "{}", answer.body);
        Ok(())
    }

    /// Whether a service account of [`NAMESPACE`] may do this to Nodes' status; the server needs a moment to apply new rules.
    ///
    /// # Errors
    /// Where the server gives no answer.
    pub fn allows_on_node_status(&self, account: &str, verb: &str) -> Result<bool> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{NAMESPACE}:{account}"),
                "resourceAttributes": {"verb": verb, "resource": "nodes", "subresource": "status"},
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.must("POST", path, Some(&review))?;
        answer["status"]["allowed"].as_bool().context("no answer")
    }

    /// A token of a service account of [`NAMESPACE`].
    ///
    /// # Errors
    /// Where the server issues none.
    pub fn token(&self, account: &str) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let issued = self.must("POST", &path, Some(&request))?;
        let token = issued["status"]["token"].as_str().context("no token")?;
        Ok(token.to_owned())
    }

    /// The same token as it would be if it had expired an hour ago: signed with the server's own key.
    ///
    /// # Errors
    /// If it is not a token, or openssl fails.
    pub fn expired(&self, token: &str) -> Result<String> {
        let mut parts = token.split('.');
        let (head, claims) = (parts.next(), parts.next());
        let (head, claims) = head.zip(claims).context("no token")?;
        let standard = claims.replace('-', "+").replace('_', "/");
        let padding = "=".repeat(standard.len().wrapping_neg() % 4);
        let decode = ["base64", "-d", "-A"];
        let decoded = openssl(&decode, format!("{standard}{padding}").as_bytes())?;
        let mut claims: Value = serde_json::from_slice(&decoded)?;
        for time in ["iat", "nbf", "exp"] {
            let was = claims[time].as_i64().context("a token without times")?;
            claims[time] = json!(was - 2 * 3600);
        }
        let encode = |bytes: &[u8]| -> Result<String> {
            let text = String::from_utf8(openssl(&["base64", "-A"], bytes)?)?;
            Ok(text.trim_end_matches('=').replace('+', "-").replace('/', "_"))
        };
        let signed = format!("{head}.{}", encode(claims.to_string().as_bytes())?);
        let key = self.directory.path().join("service-accounts.key");
        let key = key.to_str().context("an odd path")?;
        let signature = openssl(&["dgst", "-sha256", "-sign", key], signed.as_bytes())?;
        Ok(format!("{signed}.{}", encode(&signature)?))
    }

    /// Writes a kubeconfig whose token is read from a file in the same directory, as a pod's is. Returns both paths.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn kubeconfig(&self, name: &str, token: &str) -> Result<(PathBuf, PathBuf)> {
        let config = self.directory.path().join(format!("{name}.kubeconfig"));
        let token_file = self.directory.path().join(format!("{name}.token"));
        fs::write(&token_file, token)?;
        let mut text = String::from("apiVersion: v1\nkind: Config\ncurrent-context: test\n");
        let _ = write!(
            text,
            "clusters: [{{name: test, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n\
             users: [{{name: test, user: {{tokenFile: \"{}\"}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
            self.url(),
            self.certificate_authority().display(),
            token_file.display()
        );
        fs::write(&config, text)?;
        Ok((config, token_file))
    }
}
