//! Where operators reach the server.

use std::net::SocketAddr;

use serde::Deserialize;

use crate::http::config::ConfigError;

/// The operators' listener; there is none where no address is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address and port, apart from the service's; port 0 lets the system choose.
    pub listen: Option<SocketAddr>,
    /// Allows an address that other machines reach. Requests carry no keys, so whoever reaches it changes what is live.
    pub allow_remote: bool,
}

impl AdminConfig {
    /// Checks what serde cannot.
    ///
    /// # Errors
    /// An address that other machines reach and that is not allowed to be one.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self.listen {
            Some(address) if !address.ip().is_loopback() && !self.allow_remote => {
                Err(ConfigError {
                    key: "admin.listen",
                    reason: format!(
                        "{address} is reachable from other machines and requests carry no keys; \
                         set admin.allow_remote = true if everyone there may change what is live"
                    ),
                })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_come_from_this_machine_unless_others_are_meant() {
        AdminConfig::default().validate().unwrap();
        for (listen, alone) in [
            ("127.0.0.1:0", true),
            ("[::1]:9", true),
            ("0.0.0.0:9", false),
        ] {
            let mut config: AdminConfig = toml::from_str(&format!("listen = {listen:?}")).unwrap();
            assert_eq!(config.validate().is_ok(), alone, "{listen}");
            config.allow_remote = true;
            config.validate().unwrap();
        }
    }
}
