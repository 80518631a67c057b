//! Keys, certificates and signatures, by the program openssl.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::HOST;

/// Makes a key.
pub(super) fn make_key(file: &Path) -> Result<()> {
    let made = Command::new("openssl")
        .args(["genrsa", "-out"])
        .arg(file)
        .arg("2048")
        .stderr(Stdio::null())
        .status()
        .context("openssl, to make a key")?;
    ensure!(made.success(), "openssl made no key");
    Ok(())
}

/// Makes an authority and a certificate of the server, which clients accept on this machine, in a node and in a pod.
pub(super) fn certify(directory: &Path) -> Result<()> {
    let names = format!(
        "subjectAltName=IP:10.96.0.1,IP:{HOST},IP:127.0.0.1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    );
    fs::write(directory.join("server.cnf"), names)?;
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=test
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=kube-apiserver
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile server.cnf";
    let made = Command::new("bash")
        .args(["-ec", script])
        .current_dir(directory)
        .output()?;
    ensure!(
        made.status.success(),
        "openssl: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    Ok(())
}

/// What openssl answers to this input.
pub(super) fn openssl(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("openssl")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "openssl {arguments:?} failed");
    Ok(output.stdout)
}
