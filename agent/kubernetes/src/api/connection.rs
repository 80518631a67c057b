//! A connection to the API server, and the credentials for it.

use std::{fs::OpenOptions, path::PathBuf};

use kube::{
    Client,
    config::{Config, KubeConfigOptions, Kubeconfig},
};
use rdma_health_file::{Links, Worker};
use tokio::runtime::Handle;

use super::{CONNECT, answer::chain};
use crate::{failure::Failure, token::TokenFile};

/// The address of the API server, and the credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig. Without one, the pod's service account is used; outside of a pod, the same as `kubectl` uses.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig instead of its current one.
    pub context: Option<String>,
}

/// A client, and the token that its requests need.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) token: Option<TokenFile>,
    /// The address of the server.
    pub(crate) server: String,
}

/// [`connect`] in a separate thread: it reads files, and a file system that hangs must not block the agent.
pub(super) async fn open(
    worker: &mut Worker<Result<Connection, Failure>>,
    access: &Access,
) -> Result<Connection, Failure> {
    let (access, runtime) = (access.clone(), Handle::current());
    let connected = worker.run(move || runtime.block_on(connect(access))).await;
    connected.unwrap_or_else(|error| {
        let what = format!("cannot read the kubeconfig or the service account: {error}");
        Err(Failure::Configuration(what))
    })
}

pub(crate) async fn connect(access: Access) -> Result<Connection, Failure> {
    let refuse = |error: &dyn std::error::Error| Failure::Configuration(chain(error));
    let chosen = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &access.kubeconfig {
        Some(path) => {
            // The library would wait for ever for a FIFO.
            rdma_health_file::open(OpenOptions::new().read(true), path, Links::Follow)
                .map_err(|error| Failure::Configuration(format!("{}: {error}", path.display())))?;
            let file = Kubeconfig::read_from(path).map_err(|error| refuse(&error))?;
            Config::from_custom_kubeconfig(file, &chosen)
                .await
                .map_err(|error| Failure::Configuration(format!("{}: {}", path.display(), chain(&error))))?
        }
        // In a pod, ignore a kubeconfig of the image or of the mounted host.
        None if access.context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            Config::incluster().map_err(|error| refuse(&error))?
        }
        None => Config::from_kubeconfig(&chosen).await.map_err(|error| {
            Failure::Configuration(format!("{}; pass --kubeconfig or set KUBECONFIG", chain(&error)))
        })?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None; // DEADLINE covers the whole request
    // Only the schedule decides when to retry.
    config.default_retry = false;
    let server = address(&config.cluster_url);
    // The order of precedence of the library: it uses the file only without these.
    let auth = &mut config.auth_info;
    let inline = auth.auth_provider.is_some() || auth.token.is_some() || auth.username.is_some();
    let token = auth.token_file.take().filter(|_| !inline);
    Ok(Connection {
        client: Client::try_from(config).map_err(|error| refuse(&error))?,
        token: token.map(|path| TokenFile::new(path.into())),
        server,
    })
}

/// Scheme, host and port, and nothing that may be a secret.
fn address(url: &hyper::Uri) -> String {
    let (scheme, host) = (
        url.scheme_str().unwrap_or("https"),
        url.host().unwrap_or_default(),
    );
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}")
}
