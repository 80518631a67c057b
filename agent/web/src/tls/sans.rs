//! Restricts clients by name: `client_allowed_sans`.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_cert::{
    der::Decode,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// Accepts clients that another verifier accepts and whose certificate has one of these names. The comparison is exact:
/// as in other exporters, wildcards have no meaning.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) allowed: BTreeSet<String>,
}

impl ClientCertVerifier for Named {
    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        if names(end_entity).iter().any(|name| self.allowed.contains(name)) {
            return Ok(verified);
        }
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The subject alternative names of a certificate; empty if they cannot be parsed.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = x509_cert::Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some((_, SubjectAltName(all)))) = certificate.tbs_certificate().get_extension() else {
        return Vec::new();
    };
    all.iter().filter_map(text).collect()
}

fn text(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name)
        | GeneralName::Rfc822Name(name)
        | GeneralName::UniformResourceIdentifier(name) => Some(name.as_str().to_owned()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let four = <[u8; 4]>::try_from(bytes).map(|four| IpAddr::V4(Ipv4Addr::from(four)));
            let six = || <[u8; 16]>::try_from(bytes).map(|six| IpAddr::V6(Ipv6Addr::from(six)));
            Some(four.or_else(|_| six()).ok()?.to_string())
        }
        _ => None,
    }
}
