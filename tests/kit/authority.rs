//! Certificates for servers of the tests, by an authority of their own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// A server's certificate and its key, as PEM files.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An authority of the test's own, as a company has one for its inner machines.
pub struct Authority {
    directory: TempDir,
}

impl Authority {
    pub fn set_up() -> Self {
        let authority = Self { directory: TempDir::with_prefix("offhook-tls-").expect("a temporary directory") };
        let (key, own) = (authority.file("ca.key"), authority.certificate());
        openssl(&["-subj", "/CN=Authority of a test"], &key, &own);
        authority
    }

    /// For `SSL_CERT_FILE`.
    pub fn certificate(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// One for a server of this name, in OpenSSL's words: `IP:127.0.0.1`, `DNS:voice.example.com`.
    pub fn vouch_for(&self, name: &str) -> Certificate {
        let (key, certificate) = (self.file("server.key"), self.file("server.pem"));
        let (ca, ca_key) = (self.certificate(), self.file("ca.key"));
        let name = format!("subjectAltName={name}");
        let by = ["-CA", text(&ca), "-CAkey", text(&ca_key)];
        let of = ["-subj", "/CN=A server of a test", "-addext", &name, "-addext", "basicConstraints=critical,CA:FALSE"];
        openssl(&[&by[..], &of].concat(), &key, &certificate);
        Certificate { certificate, key }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary directory with an ordinary name")
}

/// Makes a key and a certificate for it.
fn openssl(what: &[&str], key: &Path, certificate: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(what)
        .args(["-keyout", text(key), "-out", text(certificate)])
        .output()
        .expect("openssl is here: run `make setup`");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
