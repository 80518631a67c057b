//! Tests with real connections and generated certificates.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Output},
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
    date_time_ymd, string::Ia5String,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use rdma_health_yaml::{Follower, Pace};

use super::*;
use crate::{Answer, Asked, Metrics, Page, Server};

struct Agent;

impl Handler for Agent {
    const REALM: &'static str = "test";
    const PAGES: &'static [Page] = &[
        Page::closed("/metrics"),
        Page::open("/healthz"),
        Page::closed("/"),
        Page::closed("/proof/"),
        Page::open("/open/"),
    ];

    async fn answer(&self, path: &'static str, asked: &Asked<'_>) -> Answer {
        match path {
            "/proof/" | "/open/" => {
                let proof = if asked.is_proven { "proven" } else { "unknown" };
                Answer::text(StatusCode::OK, &format!("{proof} {}", asked.below))
            }
            _ => Answer::text(StatusCode::OK, "rdma_devices 2"),
        }
    }
}

/// A directory with a certificate authority, `server.crt`, `client.crt` and their keys.
struct Place {
    directory: TempDir,
    authority: Issuer<'static, KeyPair>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let place = Self {
            directory,
            authority: Issuer::new(params, key),
        };
        place.write("ca.crt", &certificate.pem());
        place.issue("server", 2040, ExtendedKeyUsagePurpose::ServerAuth);
        place.issue("client", 2040, ExtendedKeyUsagePurpose::ClientAuth);
        place
    }

    /// A certificate that is valid until a year, and its key.
    fn issue(&self, name: &str, until: i32, usage: ExtendedKeyUsagePurpose) {
        self.issue_to(name, &["localhost"], until, usage);
    }

    /// The same with these names.
    fn issue_to(&self, name: &str, names: &[&str], until: i32, usage: ExtendedKeyUsagePurpose) {
        let (odd, plain): (Vec<&str>, Vec<&str>) = names
            .iter()
            .copied()
            .partition(|name: &&str| name.contains(['/', '@']));
        let plain: Vec<String> = plain.into_iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(plain).unwrap();
        for name in odd {
            let text = Ia5String::try_from(name).unwrap();
            params.subject_alt_names.push(if name.contains('/') {
                SanType::URI(text)
            } else {
                SanType::Rfc822Name(text)
            });
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        self.write(&format!("{name}.key"), &key.serialize_pem());
        self.write(&format!("{name}.crt"), &certificate.pem());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn configure(&self, text: &str) -> PathBuf {
        self.write("web.yml", text);
        self.path("web.yml")
    }

    /// The error in a web configuration, without the name of the directory.
    fn error(&self, text: &str) -> String {
        let error = load(&self.configure(text)).err().expect(text);
        let directory = format!("{}/", self.directory.path().display());
        error.to_string().replace(&directory, "")
    }
}

const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

fn mutual() -> String {
    format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n")
}

struct Running {
    address: SocketAddr,
    changes: mpsc::UnboundedReceiver<Result<Arc<Web>, Error>>,
    _stop: oneshot::Sender<()>,
}

async fn serve(place: &Place, text: &str) -> Running {
    let (sources, web) = load(&place.configure(text)).unwrap();
    let (sender, receiver) = watch::channel(Arc::new(web));
    let (report, changes) = mpsc::unbounded_channel();
    let quick = Pace {
        look: Duration::from_millis(200),
        rest: Duration::from_millis(20),
    };
    let metrics = Arc::new(Metrics::new(&rdma_health_instrument::Registry::new()));
    let (request, requests) = watch::channel(());
    let (follower, counted) = (Follower::new(quick, requests), Arc::clone(&metrics));
    tokio::spawn(async move {
        let report = move |change| drop(report.send(change));
        follow::run(sources, sender, follower, &counted.reloads, report).await;
        drop(request);
    });
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), metrics)
        .await
        .unwrap();
    let server = server.secured(receiver);
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.run(Agent, async move { drop(stopped.await) }));
    Running {
        address,
        changes,
        _stop: stop,
    }
}

impl Running {
    /// The output of curl: status, head and body, or its error.
    async fn curl(&self, place: &Place, scheme: &str, path: &str, more: &[&str]) -> Result<String, String> {
        let mut curl = Command::new("curl");
        let port = self.address.port();
        curl.args([
            "--silent",
            "--show-error",
            "--include",
            "--max-time",
            "20",
            "--cacert",
            "ca.crt",
        ])
        .args(["--resolve", &format!("localhost:{port}:127.0.0.1")])
        .args(more)
        .arg(format!("{scheme}://localhost:{port}{path}"))
        .current_dir(place.directory.path())
        .env_remove("https_proxy");
        let run = tokio::task::spawn_blocking(move || curl.output());
        let Output {
            status,
            stdout,
            stderr,
        } = run.await.unwrap().expect("curl is installed");
        if status.success() {
            Ok(String::from_utf8(stdout).unwrap())
        } else {
            Err(String::from_utf8(stderr).unwrap())
        }
    }

    async fn change(&mut self) -> Result<Arc<Web>, String> {
        let change = timeout(Duration::from_secs(20), self.changes.recv());
        change.await.unwrap().unwrap().map_err(|error| error.to_string())
    }
}

const CLIENT: [&str; 4] = ["--cert", "client.crt", "--key", "client.key"];

#[tokio::test]
async fn metrics_need_tls() {
    let place = Place::new();
    let server = serve(&place, TLS).await;
    let answer = server.curl(&place, "https", "/metrics", &[]).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("rdma_devices 2\n"),
        "{answer}"
    );
    let plain = server.curl(&place, "http", "/metrics", &[]).await;
    assert!(plain.is_err(), "{plain:?}");
    let old = server
        .curl(&place, "https", "/metrics", &["--tls-max", "1.1"])
        .await;
    assert!(old.is_err(), "{old:?}");
}

#[tokio::test]
async fn a_client_without_a_certificate_of_the_authority_reads_nothing() {
    let place = Place::new();
    let server = serve(&place, &mutual()).await;
    let answer = server.curl(&place, "https", "/metrics", &CLIENT).await.unwrap();
    assert!(answer.ends_with("rdma_devices 2\n"), "{answer}");
    let missing = server.curl(&place, "https", "/metrics", &[]).await;
    assert!(missing.is_err(), "{missing:?}");
    let stranger = Place::new();
    std::fs::copy(stranger.path("client.crt"), place.path("other.crt")).unwrap();
    std::fs::copy(stranger.path("client.key"), place.path("other.key")).unwrap();
    let other = ["--cert", "other.crt", "--key", "other.key"];
    let strange = server.curl(&place, "https", "/metrics", &other).await;
    assert!(strange.is_err(), "{strange:?}");
    // A certificate for servers is not valid for clients.
    let server_as_client = ["--cert", "server.crt", "--key", "server.key"];
    let wrong = server.curl(&place, "https", "/metrics", &server_as_client).await;
    assert!(wrong.is_err(), "{wrong:?}");
}

#[tokio::test]
async fn only_the_named_clients_of_the_authority_may_read() {
    let place = Place::new();
    let sans = |names: &[&str]| format!("{}  client_allowed_sans: {names:?}\n", mutual());
    let names = [
        "localhost",
        "spiffe://cluster/prometheus",
        "10.1.2.3",
        "fd00::1",
        "scraper@example.com",
    ];
    place.issue_to("client", &names, 2040, ExtendedKeyUsagePurpose::ClientAuth);
    for name in names {
        let server = serve(&place, &sans(&["other", name])).await;
        let answer = server.curl(&place, "https", "/metrics", &CLIENT).await;
        assert!(
            answer
                .as_ref()
                .is_ok_and(|answer| answer.ends_with("rdma_devices 2\n")),
            "{name}: {answer:?}"
        );
    }
    // A part of a name, a pattern and the common name do not count.
    let server = serve(&place, &sans(&["local", "*", "client", "10.1.2.30"])).await;
    let answer = server.curl(&place, "https", "/metrics", &CLIENT).await;
    assert!(answer.is_err(), "{answer:?}");
    // A certificate of another authority with the right name.
    let stranger = Place::new();
    let server = serve(&stranger, &sans(&["localhost"])).await;
    std::fs::copy(stranger.path("ca.crt"), place.path("ca.crt")).unwrap();
    let answer = server.curl(&place, "https", "/metrics", &CLIENT).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn pages_need_a_password_but_the_kubelets_do_not() {
    let place = Place::new();
    let hash = bcrypt::hash("right", 4).unwrap();
    let headers = "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n";
    let server = serve(
        &place,
        &format!("{TLS}{headers}basic_auth_users:\n  alice: {hash}\n"),
    )
    .await;
    for _ in 0..2 {
        let answer = server
            .curl(&place, "https", "/metrics", &["--user", "alice:right"])
            .await
            .unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("rdma_devices 2\n"),
            "{answer}"
        );
        assert!(answer.contains("x-frame-options: deny"), "{answer}");
    }
    for path in ["/metrics", "/", "/nowhere"] {
        for user in [&["--user", "alice:wrong"][..], &["--user", "bob:right"], &[]] {
            let answer = server.curl(&place, "https", path, user).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
            assert!(
                answer.contains("www-authenticate: Basic") && !answer.contains("rdma_"),
                "{answer}"
            );
        }
    }
    let answer = server.curl(&place, "https", "/healthz", &[]).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The pages below a path get the rest of it, and whether the client proved who it is.
#[tokio::test]
async fn only_a_password_or_a_required_certificate_proves_a_client() {
    let place = Place::new();
    let get = async |text: &str, path: &str, more: &[&str]| {
        let server = serve(&place, text).await;
        let scheme = if text.is_empty() { "http" } else { "https" };
        let answer = server.curl(&place, scheme, path, more).await.unwrap();
        answer.lines().last().unwrap().to_owned()
    };
    let hash = bcrypt::hash("right", 4).unwrap();
    let users = format!("{TLS}basic_auth_users:\n  alice: {hash}\n");
    let alice = ["--user", "alice:right"];
    assert_eq!(get("", "/proof/a/b?c", &[]).await, "unknown a/b");
    assert_eq!(
        get("", "/proof/a", &alice).await,
        "unknown a",
        "no password is checked"
    );
    assert_eq!(get(TLS, "/proof/a", &[]).await, "unknown a");
    assert_eq!(get(&users, "/proof/a", &alice).await, "proven a");
    assert_eq!(
        get(&users, "/open/a", &alice).await,
        "unknown a",
        "no password is checked"
    );
    assert_eq!(get(&mutual(), "/proof/a", &CLIENT).await, "proven a");
    let optional = mutual().replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven");
    assert_eq!(get(&optional, "/proof/a", &CLIENT).await, "unknown a");
    assert_eq!(get("", "/proof/", &[]).await, "page not found; see / for a list");
}

#[tokio::test]
async fn renewed_files_are_applied_and_invalid_ones_leave_the_old_active() {
    let place = Place::new();
    let text = mutual();
    let mut server = serve(&place, &text).await;
    let reads = async |server: &Running| {
        let answer = server.curl(&place, "https", "/metrics", &CLIENT).await;
        assert!(
            answer
                .as_ref()
                .is_ok_and(|answer| answer.ends_with("rdma_devices 2\n")),
            "{answer:?}"
        );
    };
    reads(&server).await;

    place.write("server.crt", "nonsense");
    let error = server.change().await.unwrap_err();
    assert!(
        error.contains("web.yml:2: `tls_server_config.cert_file`: does not contain a certificate"),
        "{error}"
    );
    reads(&server).await;

    std::fs::remove_file(place.path("server.crt")).unwrap();
    let error = server.change().await.unwrap_err();
    assert!(error.contains("server.crt: No such file or directory"), "{error}");
    reads(&server).await;

    // Certificate and key are two writes; the state between them is rejected or not seen.
    place.issue("server", 2024, ExtendedKeyUsagePurpose::ServerAuth);
    let expired = loop {
        let error = server.change().await.unwrap_err();
        if error.contains("expired") {
            break error;
        }
    };
    assert!(
        expired.ends_with("the certificate expired on 2024-01-01T00:00:00Z"),
        "{expired}"
    );
    reads(&server).await;

    place.configure("tls_server_config: [");
    let error = server.change().await.unwrap_err();
    assert!(error.contains("web.yml:1: "), "{error}");
    reads(&server).await;

    // A valid file with another protection.
    place.issue("server", 2041, ExtendedKeyUsagePurpose::ServerAuth);
    let hash = bcrypt::hash("right", 4).unwrap();
    place.configure(&format!("{TLS}basic_auth_users: {{alice: {hash}}}\n"));
    let taken = loop {
        if let Ok(web) = server.change().await {
            break web;
        }
    };
    let until = humantime::parse_rfc3339("2041-01-01T00:00:00Z").unwrap();
    assert_eq!(taken.validity().map(|validity| validity.until), Some(until));
    let answer = server.curl(&place, "https", "/metrics", &[]).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[tokio::test]
async fn a_change_of_access_closes_open_connections() {
    let hash = bcrypt::hash("right", 4).unwrap();
    let users = format!("basic_auth_users: {{alice: {hash}}}\n");
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    let rest = async |stream: &mut TcpStream| {
        let mut answer = Vec::new();
        timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
            .await
            .expect("the connection stays open")
            .unwrap();
        String::from_utf8(answer).unwrap()
    };
    for (before, after) in [("", TLS), ("", &users), (&users, TLS)] {
        let place = Place::new();
        let mut server = serve(&place, before).await;
        let connect = || TcpStream::connect(server.address);
        // The server accepts them in this order, so both before the change.
        let (mut slow, mut idle) = (connect().await.unwrap(), connect().await.unwrap());
        let (head, tail) = request.split_at(20);
        slow.write_all(head).await.unwrap();
        idle.write_all(request).await.unwrap();
        let mut answer = [0; 12];
        idle.read_exact(&mut answer).await.unwrap();
        let allowed = if before.is_empty() { "200" } else { "401" };
        assert_eq!(answer, format!("HTTP/1.1 {allowed}").as_bytes());

        place.configure(after);
        // The server may read the file while it is incomplete.
        while server.change().await.is_err() {}
        // The pending request was served, and there are no more responses.
        rest(&mut idle).await;
        slow.write_all(tail).await.unwrap();
        let answer = rest(&mut slow).await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("connect again\n"),
            "{before:?}: {answer}"
        );
        assert!(!answer.contains("rdma_devices"), "{answer}");
    }
}

#[test]
fn errors_name_line_and_key() {
    let place = Place::new();
    for (text, expected) in [
        (
            "tls_server_config:\n",
            "web.yml:1: `tls_server_config.cert_file`: is required",
        ),
        (
            "tls_server_config: {key_file: server.key}\n",
            "web.yml:1: `tls_server_config.cert_file`: is required",
        ),
        (
            "\ntls_server_config:\n  cert_fil: x\n",
            "web.yml:3: unknown key `cert_fil`; did you mean `cert_file`?",
        ),
        ("rate_limit: {burst: 1}\n", "web.yml:1: unknown key `rate_limit`"),
        (
            "tls_server_config:\n  cert_file: server.crt\n  key_file: client.key\n",
            "web.yml:3: `tls_server_config.key_file`: does not belong to the certificate",
        ),
        (
            "tls_server_config:\n  cert_file: server.crt\n  key_file: no.key\n",
            "web.yml:3: `tls_server_config.key_file`: no.key: No such file",
        ),
        (
            &format!("{TLS}  client_ca_file: ca.crt\n"),
            "web.yml:4: `tls_server_config.client_ca_file`: has no effect",
        ),
        (
            &format!("{TLS}  client_auth_type: RequireAnyClientCert\n"),
            "web.yml:4: `tls_server_config.client_auth_type`: RequireAnyClientCert accepts any",
        ),
        (
            &format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n"),
            "web.yml:1: `tls_server_config.client_ca_file`: is required",
        ),
        (
            &format!("{TLS}  client_allowed_sans: [x]\n"),
            "web.yml:4: `tls_server_config.client_allowed_sans`: has no effect without",
        ),
        (
            &format!("{}  client_allowed_sans: ['']\n", mutual()),
            "web.yml:6: `tls_server_config.client_allowed_sans`: contains an empty name",
        ),
        (
            &format!("{TLS}  min_version: TLS10\n"),
            "web.yml:4: `tls_server_config.min_version`: TLS10 is not secure",
        ),
        (
            &format!("{TLS}  min_version: TLS13\n  max_version: TLS12\n"),
            "web.yml:5: `tls_server_config.max_version`: is less",
        ),
        (
            &format!("{TLS}  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n"),
            "web.yml:4: `tls_server_config.cipher_suites`: \"TLS_RSA_WITH_RC4_128_SHA\" is not supported",
        ),
        (
            &format!("{TLS}  curve_preferences: [CurveP521]\n"),
            "web.yml:4: `tls_server_config.curve_preferences`",
        ),
        (
            "basic_auth_users:\n  alice: plain\n",
            "web.yml:2: `basic_auth_users.alice`: the value is not a bcrypt hash",
        ),
        (
            "http_server_config:\n  headers:\n    Server: x\n",
            "web.yml:3: `http_server_config.headers.Server`: cannot be set",
        ),
    ] {
        let error = place.error(text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
    }
    let absent = load(&place.path("none.yml")).err().unwrap().to_string();
    assert!(
        absent.ends_with("none.yml: No such file or directory (os error 2)"),
        "{absent}"
    );
}

#[test]
fn every_supported_value_is_accepted() {
    let place = Place::new();
    let text = format!(
        "{}  min_version: TLS12\n  max_version: TLS13\n  prefer_server_cipher_suites: true\n  cipher_suites:\n  - \
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n  curve_preferences: [X25519, CurveP256]\n",
        mutual()
    );
    for text in [text.as_str(), "", "# nothing\n", "basic_auth_users:\n"] {
        load(&place.configure(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    place.issue("server", 2021, ExtendedKeyUsagePurpose::ServerAuth);
    let (_, web) = load(&place.configure(TLS)).unwrap();
    assert!(
        web.expired()
            .is_some_and(|error| error.to_string().contains("expired on 2021-01-01"))
    );
}

#[tokio::test]
async fn a_fifo_in_place_of_the_certificate_is_refused_and_a_later_certificate_is_applied() {
    let place = Place::new();
    let mut server = serve(&place, TLS).await;
    let certificate = place.directory.path().join("server.crt");
    let good = std::fs::read(&certificate).unwrap();
    std::fs::remove_file(&certificate).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&certificate)
            .status()
            .unwrap()
            .success()
    );
    loop {
        let error = server.change().await.err().unwrap();
        // The moment without a file may be noticed first.
        if error.contains("not a regular file") {
            break;
        }
        assert!(error.contains("No such file"), "{error}");
    }
    assert!(
        server
            .curl(&place, "https", "/", &[])
            .await
            .unwrap()
            .contains("200 OK")
    );
    std::fs::remove_file(&certificate).unwrap();
    std::fs::write(&certificate, good).unwrap();
    while server.change().await.is_err() {}
}
