//! TLS towards whatever offhook connects to.
//!
//! The authorities of this machine are read once for all connections, and again when a configuration is loaded: some 150
//! certificates are not parsed for each call, on a thread that carries others. Connections to one service also share its
//! session tickets, which make the next handshake shorter.

use arc_swap::ArcSwap;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use std::sync::{Arc, LazyLock};
use tokio_tungstenite::Connector;
use tracing::warn;

static TRUST: LazyLock<Trust> = LazyLock::new(Trust::new);

struct Trust(ArcSwap<ClientConfig>);

impl Trust {
    fn new() -> Self {
        Self(ArcSwap::new(read()))
    }

    fn config(&self) -> Arc<ClientConfig> {
        self.0.load_full()
    }

    fn read_anew(&self) {
        self.0.store(read());
    }
}

/// For a connection without HTTP's own clients.
pub fn connector() -> Connector {
    Connector::Rustls(TRUST.config())
}

/// For a client of HTTP.
pub(super) fn of_http() -> ClientConfig {
    let mut config = ClientConfig::clone(&TRUST.config());
    config.alpn_protocols = vec!["http/1.1".into()];
    config
}

/// Finds authorities that an admin has added or named since. Connections that stand are not touched.
pub fn read_authorities_anew() {
    TRUST.read_anew();
}

fn read() -> Arc<ClientConfig> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        warn!(%error, "some authorities of this machine cannot be read");
    }
    let mut authorities = RootCertStore::empty();
    let (added, not_understood) = authorities.add_parsable_certificates(found.certs);
    if not_understood > 0 {
        warn!(not_understood, "certificates of authorities are not understood, and left out");
    }
    if added == 0 {
        warn!(
            "this machine has no certificate of an authority, so no connection by TLS will be trusted; install ca-certificates, \
             or name a file of authorities in SSL_CERT_FILE"
        );
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
        .with_root_certificates(authorities)
        .with_no_client_auth();
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_not_read_for_each_connection_but_with_each_configuration() {
        let trust = Trust::new();
        let before = trust.config();
        assert!(Arc::ptr_eq(&before, &trust.config()));
        trust.read_anew();
        assert!(!Arc::ptr_eq(&before, &trust.config()));
    }
}
