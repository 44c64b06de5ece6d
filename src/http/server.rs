//! Listens, serves each connection under its limits, and stops in order: refuse, finish, end, close.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderMap;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::connections::{BusyBody, Connection, Connections};
use super::error::{ApiError, Code};
use super::ids::{REQUEST_ID, RequestId};
use super::stall::StallGuard;
use super::{AdminConfig, Backend, Config, ConfigError, Operations, Shared, admin, socket};
use crate::shutdown::{Phase, Shutdown};
use crate::telemetry::Metrics;
use crate::turn;

/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;
/// Time for terminal events to be written, and again for connections to close.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Most connections that are being told that there is no room; more are closed without a word.
const REFUSALS: usize = 64;
/// Most time for telling that.
const REFUSAL: Duration = Duration::from_secs(1);
/// Pause after a failed accept: the usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A setting cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A bound HTTP server. Until its [`Door`] is opened it answers health checks and refuses the rest as loading.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    face: Face,
}

/// Which routes a listener serves, and until when.
#[derive(Clone, Copy)]
enum Face {
    /// Everybody's, until nothing is being answered any more: it leads the way down.
    Service,
    /// The operators', until the process has stopped.
    Admin,
}

impl Face {
    fn routes(self, shared: Arc<Shared>) -> Router {
        match self {
            Self::Service => super::routes(shared),
            Self::Admin => admin::routes(shared),
        }
    }

    async fn over(self, shared: &Shared, connections: &Connections) {
        match self {
            Self::Service => drain(shared, connections).await,
            Self::Admin => shared.shutdown.reached(Phase::Stopped).await,
        }
    }
}

/// Lets requests in once the model is loaded.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

impl Door {
    /// From now on turns are answered by `backend`. Only the first call counts.
    pub fn open(&self, backend: Backend) {
        self.0.open(backend);
    }

    /// From now on operators work on `operations`. Only the first call counts.
    pub fn manage(&self, operations: Operations) {
        self.0.manage(operations);
    }

    /// Listens for operators, where the settings name an address.
    ///
    /// # Errors
    /// A setting that cannot work, or an address that cannot be listened on.
    pub async fn admin(&self, config: &AdminConfig) -> Result<Option<Server>, ServerError> {
        config.validate()?;
        let Some(address) = config.listen else {
            return Ok(None);
        };
        let server = Server::listen(address, Arc::clone(&self.0), Face::Admin);
        server.await.map(Some)
    }
}

impl Server {
    /// Checks the settings and listens. `turn` are the settings of the turns that [`Door::open`] brings.
    ///
    /// # Errors
    /// A setting that cannot work, or an address that cannot be listened on.
    pub async fn bind(
        config: Config,
        turn: turn::Config,
        shutdown: Shutdown,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ServerError> {
        config.validate()?;
        let address = config.listen;
        let shared = Arc::new(Shared::new(config, turn, shutdown, metrics));
        Self::listen(address, shared, Face::Service).await
    }

    async fn listen(
        address: SocketAddr,
        shared: Arc<Shared>,
        face: Face,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            shared,
            face,
        })
    }

    /// Where it listens; the port is the real one.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What lets requests in.
    #[must_use]
    pub fn door(&self) -> Door {
        Door(Arc::clone(&self.shared))
    }

    /// Serves until the process has stopped: see [`Phase`]. A drain keeps listening, so that health checks and new
    /// requests get a clear 503 until the last turn has ended.
    pub async fn run(self) {
        let limits = self.shared.config.limits.clone();
        let connections = Connections::new(limits.connections);
        let router = self.face.routes(Arc::clone(&self.shared));
        let mut tasks = JoinSet::new();
        let mut drained = pin!(self.face.over(&self.shared, &connections));
        loop {
            tokio::select! {
                () = &mut drained => break,
                Some(_) = tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => match connections.admit().await {
                        Some(connection) => {
                            let seat = Seat { connection: Arc::new(connection), router: router.clone() };
                            tasks.spawn(seat.serve(stream, Arc::clone(&self.shared)));
                        }
                        None if tasks.len() < limits.connections + REFUSALS => {
                            tasks.spawn(refuse(stream));
                        }
                        None => drop(stream),
                    },
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection failed");
                        connections.evict();
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
        drop(self.listener);
        self.shared.shutdown.advance(Phase::Stopped);
        while tasks.join_next().await.is_some() {}
    }
}

/// Completes when nothing is being answered any more, or had its time to end.
async fn drain(shared: &Shared, connections: &Connections) {
    let shutdown = &shared.shutdown;
    shutdown.reached(Phase::Draining).await;
    tokio::select! {
        () = connections.quiet() => {}
        () = shutdown.reached(Phase::Ending) => {}
        () = sleep(shared.config.drain()) => {}
    }
    shutdown.advance(Phase::Ending);
    // Whoever still does not read its last event is cut off.
    let _ = timeout(LAST_WORDS, connections.quiet()).await;
}

/// One connection and what answers it.
struct Seat {
    connection: Arc<Connection>,
    router: Router,
}

impl Seat {
    async fn serve(self, stream: TcpStream, shared: Arc<Shared>) {
        let limits = &shared.config.limits;
        // Events are small and each is wanted at once.
        let _ = stream.set_nodelay(true);
        let stall = Duration::from_millis(limits.write_stall_ms);
        let (incoming, outgoing) = stream.into_split();
        let incoming = socket::Incoming::new(incoming);
        let both = tokio::io::join(incoming.clone(), outgoing);
        let io = TokioIo::new(StallGuard::new(both, stall));
        let connection = Arc::clone(&self.connection);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let busy = connection.begin();
            let router = self.router.clone();
            async move {
                let response = router.oneshot(request.map(Body::new)).await?;
                Ok::<_, Infallible>(response.map(|body| BusyBody { body, _busy: busy }))
            }
        });
        let serving = http1::Builder::new()
            // Without a timer the header timeout does nothing.
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(limits.header_read_ms))
            .max_buf_size(HEAD_BYTES)
            .serve_connection(io, service);
        let mut serving = pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = self.connection.evicted() => Ok(()),
            () = incoming.left(|| self.connection.is_busy()) => Ok(()),
            () = shared.shutdown.reached(Phase::Stopped) => {
                serving.as_mut().graceful_shutdown();
                timeout(LAST_WORDS, serving).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

/// Tells a client that there is no room, and waits a little for it to hear that: closing at once would break the
/// connection under an answer that is still on its way.
async fn refuse(mut stream: TcpStream) {
    let id = RequestId::of(&HeaderMap::new());
    let error = ApiError::new(Code::TooManyConnections, "all connections are busy");
    let body = error.body(id.as_str()).to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\n{REQUEST_ID}: {}\r\ncontent-length: {}\r\n\r\n{body}",
        id.as_str(),
        body.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // Whether it heard or not, there is nothing else to do.
    let _ = timeout(REFUSAL, told).await;
}
