//! TLS for the server, from `tls_server_config`.

mod sans;

use std::{sync::Arc, time::SystemTime};

use serde::Deserialize;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, CipherSuite, NamedGroup, RootCertStore, ServerConfig, SupportedCipherSuite,
        SupportedProtocolVersion,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    },
};
use x509_cert::der::Decode;

/// The section, with the same keys as in other exporters.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tls {
    cert: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    client_ca_file: Option<String>,
    client_auth_type: Option<String>,
    client_allowed_sans: Vec<String>,
    min_version: Option<String>,
    max_version: Option<String>,
    cipher_suites: Vec<String>,
    prefer_server_cipher_suites: Option<bool>,
    curve_preferences: Vec<String>,
}

impl Tls {
    /// The files that it names, with their keys.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let files = [
            ("cert_file", &self.cert_file),
            ("key_file", &self.key_file),
            ("client_ca_file", &self.client_ca_file),
        ];
        files
            .into_iter()
            .filter_map(|(key, name)| Some((key, name.as_deref()?)))
    }

    /// The key of the certificate.
    pub(super) fn certificate_key(&self) -> &'static str {
        if self.cert.is_some() { "cert" } else { "cert_file" }
    }
}

/// The result of a section.
pub(super) struct Built {
    pub(super) acceptor: TlsAcceptor,
    pub(super) validity: Validity,
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From this time on.
    pub from: SystemTime,
    /// Until this time.
    pub until: SystemTime,
}

/// A key of the section, and the error in its value.
type Refusal = (&'static str, String);

/// Prepares TLS; `content` returns the content of a file that the section names.
///
/// # Errors
/// The key, and the error in its value or in its file.
pub(super) fn build(tls: &Tls, content: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Built, Refusal> {
    let pem = |inline: (&'static str, &Option<String>), file: (&'static str, &Option<String>)| match (
        inline.1, file.1,
    ) {
        (Some(_), Some(_)) => Err((file.0, format!("`{}` is set too; set only one of them", inline.0))),
        (Some(text), None) => Ok(Some((inline.0, text.clone().into_bytes()))),
        (None, Some(name)) => match content(name) {
            Ok(bytes) => Ok(Some((file.0, bytes))),
            Err(error) => Err((file.0, format!("{name}: {error}"))),
        },
        (None, None) => Ok(None),
    };
    let missing = |key: &'static str| move || (key, "is required for TLS and missing".to_owned());
    let (cert_key, cert) =
        pem(("cert", &tls.cert), ("cert_file", &tls.cert_file))?.ok_or_else(missing("cert_file"))?;
    let (key_key, key) =
        pem(("key", &tls.key), ("key_file", &tls.key_file))?.ok_or_else(missing("key_file"))?;
    let ca = pem(
        ("client_ca", &tls.client_ca),
        ("client_ca_file", &tls.client_ca_file),
    )?;

    let chain = certificates(&cert).map_err(|what| (cert_key, what))?;
    let validity = validity(&chain[0]).map_err(|what| (cert_key, what))?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| (key_key, "does not contain a private key in PEM format".to_owned()))?;

    let provider = Arc::new(provider(tls)?);
    let versions = versions(tls)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|_| {
            (
                "cipher_suites",
                "no cipher suite matches the TLS versions".to_owned(),
            )
        })?;
    let builder = match client_verifier(tls, ca, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => (key_key, "does not belong to the certificate".into()),
            error => (key_key, format!("is not usable: {error}")),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = tls.prefer_server_cipher_suites.unwrap_or(true);
    Ok(Built {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        validity,
    })
}

impl Tls {
    /// Whether the handshake fails for a client without a valid certificate.
    pub(super) fn demands_certificates(&self) -> bool {
        self.client_auth_type.as_deref() == Some("RequireAndVerifyClientCert")
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err("does not contain a certificate in PEM format".into()),
    }
}

/// Expiry time of a certificate.
fn validity(certificate: &CertificateDer<'_>) -> Result<Validity, String> {
    let certificate = x509_cert::Certificate::from_der(certificate)
        .map_err(|error| format!("contains a certificate that cannot be parsed: {error}"))?;
    let validity = certificate.tbs_certificate().validity();
    Ok(Validity {
        from: SystemTime::UNIX_EPOCH + validity.not_before.to_unix_duration(),
        until: SystemTime::UNIX_EPOCH + validity.not_after.to_unix_duration(),
    })
}

fn client_verifier(
    tls: &Tls,
    ca: Option<(&'static str, Vec<u8>)>,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn rustls::server::danger::ClientCertVerifier>>, Refusal> {
    const KEY: &str = "client_auth_type";
    const SANS: &str = "client_allowed_sans";
    if tls.client_allowed_sans.iter().any(String::is_empty) {
        return Err((SANS, "contains an empty name, which no certificate has".into()));
    }
    let needed = match tls.client_auth_type.as_deref() {
        None | Some("" | "NoClientCert") => {
            // Other exporters then serve all clients, which is not what the author of the file intended.
            const IDLE: &str = "has no effect without `client_auth_type: RequireAndVerifyClientCert`";
            return match ca {
                Some((key, _)) => Err((key, IDLE.into())),
                None if !tls.client_allowed_sans.is_empty() => Err((SANS, IDLE.into())),
                None => Ok(None),
            };
        }
        Some("RequireAndVerifyClientCert") => true,
        Some("VerifyClientCertIfGiven") => false,
        Some(other @ ("RequestClientCert" | "RequireAnyClientCert" | "RequireClientCert")) => {
            return Err((
                KEY,
                format!("{other} accepts any certificate; use RequireAndVerifyClientCert"),
            ));
        }
        Some(other) => {
            return Err((
                KEY,
                format!(
                    "unknown value {other:?}; expected NoClientCert, VerifyClientCertIfGiven or \
                    RequireAndVerifyClientCert"
                ),
            ));
        }
    };
    let (key, pem) = ca.ok_or((
        "client_ca_file",
        "is required to verify clients and missing".to_owned(),
    ))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&pem).map_err(|what| (key, what))? {
        roots
            .add(certificate)
            .map_err(|error| (key, format!("contains a certificate that is not usable: {error}")))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = if needed {
        verifier
    } else {
        verifier.allow_unauthenticated()
    };
    let verifier = verifier.build().map_err(|error| (key, error.to_string()))?;
    if tls.client_allowed_sans.is_empty() {
        return Ok(Some(verifier));
    }
    let allowed = tls.client_allowed_sans.iter().cloned().collect();
    Ok(Some(Arc::new(sans::Named { verifier, allowed })))
}

fn versions(tls: &Tls) -> Result<Vec<&'static SupportedProtocolVersion>, Refusal> {
    let number = |key: &'static str, text: &Option<String>, default| match text.as_deref() {
        None | Some("") => Ok(default),
        Some("TLS12") => Ok(12),
        Some("TLS13") => Ok(13),
        Some(old @ ("TLS10" | "TLS11")) => Err((
            key,
            format!("{old} is not secure and not supported; use TLS12 or TLS13"),
        )),
        Some(other) => Err((key, format!("unknown value {other:?}; expected TLS12 or TLS13"))),
    };
    let least = number("min_version", &tls.min_version, 12)?;
    let most = number("max_version", &tls.max_version, 13)?;
    if least > most {
        return Err(("max_version", "is less than `min_version`".into()));
    }
    let all = [(13, &TLS13), (12, &TLS12)];
    let wanted = all
        .into_iter()
        .filter(|(number, _)| (least..=most).contains(number));
    Ok(wanted.map(|(_, version)| version).collect())
}

/// The cryptography provider, with the configured suites and curves.
fn provider(tls: &Tls) -> Result<CryptoProvider, Refusal> {
    let mut provider = ring::default_provider();
    if !tls.cipher_suites.is_empty() {
        // As in other exporters, the list applies to TLS 1.2; all suites of TLS 1.3 are secure.
        let (modern, older): (Vec<SupportedCipherSuite>, Vec<_>) = provider
            .cipher_suites
            .into_iter()
            .partition(|suite| suite.version().version == rustls::ProtocolVersion::TLSv1_3);
        let mut chosen = modern;
        for name in &tls.cipher_suites {
            if chosen.iter().any(|suite| name_of(suite.suite()) == *name) {
                continue;
            }
            let found = older.iter().find(|suite| name_of(suite.suite()) == *name);
            let known = || {
                older
                    .iter()
                    .map(|suite| name_of(suite.suite()))
                    .collect::<Vec<_>>()
            };
            let suite = found.ok_or_else(|| {
                let known = known().join(", ");
                (
                    "cipher_suites",
                    format!("{name:?} is not supported; supported are {known}"),
                )
            })?;
            chosen.push(*suite);
        }
        provider.cipher_suites = chosen;
    }
    if !tls.curve_preferences.is_empty() {
        let mut chosen = Vec::new();
        for name in &tls.curve_preferences {
            let group = match name.as_str() {
                "CurveP256" => NamedGroup::secp256r1,
                "CurveP384" => NamedGroup::secp384r1,
                "X25519" => NamedGroup::X25519,
                _ => {
                    let what =
                        format!("{name:?} is not supported; supported are CurveP256, CurveP384 and X25519");
                    return Err(("curve_preferences", what));
                }
            };
            let found = provider.kx_groups.iter().find(|known| known.name() == group);
            chosen.extend(found.copied());
        }
        provider.kx_groups = chosen;
    }
    Ok(provider)
}

/// The suite's registered name: rustls uses the prefix `TLS13_` instead of the registry's `TLS_`.
fn name_of(suite: CipherSuite) -> String {
    suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}
