//! Which URLs may be called, and which addresses their hosts may have. Every hop asks here, and the client connects to
//! exactly the addresses that were judged: what a name resolves to later plays no part.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;
use crate::tools::{SetupError, ToolError};

/// Hosts that may be called.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard {
    /// Default ports, public addresses.
    hosts: BTreeSet<String>,
    /// Exactly these, whatever their address.
    sockets: BTreeSet<(String, u16)>,
}

/// How a URL may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// At a public address only.
    Public,
    /// At any address.
    Any,
}

impl Guard {
    pub(super) fn new(allowed: &[String]) -> Result<Self, SetupError> {
        let mut guard = Self::default();
        for entry in allowed {
            let wrong = || {
                SetupError::new(
                    "allow_hosts",
                    format!("{entry:?} must be a host or host:port, without scheme and path"),
                )
            };
            let odd =
                |c: char| matches!(c, '/' | '@' | '?' | '#' | '*' | '\\') || c.is_whitespace();
            if entry.is_empty() || entry.contains(odd) {
                return Err(wrong());
            }
            let host_of = |text: &str| {
                let url = Url::parse(&format!("http://{text}/")).ok()?;
                url.host_str().map(str::to_owned)
            };
            let port = entry
                .rsplit_once(':')
                .filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
            match port {
                Some((host, port)) => {
                    let port = port.parse().map_err(|_| wrong())?;
                    guard
                        .sockets
                        .insert((host_of(host).ok_or_else(wrong)?, port));
                }
                None => {
                    guard.hosts.insert(host_of(entry).ok_or_else(wrong)?);
                }
            }
        }
        Ok(guard)
    }

    /// How `url` may be called.
    pub(super) fn route(&self, url: &Url) -> Result<Route, ToolError> {
        let refused = |reason: String| Err(ToolError::new("refused", reason));
        if !matches!(url.scheme(), "http" | "https") {
            return refused(format!("{}: URLs must be http or https", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("the URL holds a user name or password".to_owned());
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return refused("the URL has no host".to_owned());
        };
        if self.sockets.contains(&(host.to_owned(), port)) {
            return Ok(Route::Any);
        }
        if !self.hosts.contains(host) || url.port().is_some() {
            return refused(format!("{host}:{port} is not on the list of allowed hosts"));
        }
        // The client resolves names, not addresses.
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
        match literal {
            Ok(address) if !is_public(address) => {
                refused(format!("{address} is not a public address"))
            }
            _ => Ok(Route::Public),
        }
    }
}

/// Resolves names to public addresses or not at all.
pub(super) struct Resolver {
    pub(super) route: Route,
    pub(super) names: Arc<dyn Names>,
}

/// Where names come from.
pub(super) trait Names: Send + Sync {
    /// The addresses of `host`.
    fn look_up(
        &self,
        host: String,
    ) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;
}

/// The system's resolver.
pub(super) struct System;

impl Names for System {
    fn look_up(
        &self,
        host: String,
    ) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|socket| socket.ip()).collect())
        })
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let found = self.names.look_up(host.clone());
        let route = self.route;
        Box::pin(async move {
            let found = found.await?;
            // One private address among public ones is an attempt, not a choice.
            let private = found.iter().find(|address| !is_public(**address));
            if route == Route::Public
                && let Some(private) = private
            {
                return Err(
                    format!("{host} leads to {private}, which is not a public address").into(),
                );
            }
            let sockets: Vec<SocketAddr> = found
                .into_iter()
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            let addresses: Addrs = Box::new(sockets.into_iter());
            Ok(addresses)
        })
    }
}
