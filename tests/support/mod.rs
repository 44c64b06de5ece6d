//! What the tests share: a real server on a port of its own, a raw client, a scripted engine.

pub(crate) mod client;
pub(crate) mod engine;
pub(crate) mod harness;
pub(crate) mod model;
pub(crate) mod paged;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compere::engine::Engine;
use compere::http::{Backend, Config, Door, Server};
use compere::shutdown::{Phase, Shutdown};
use compere::telemetry::Metrics;
use compere::tools::{self, Tools};
use compere::turn::{self, ServedModel, Turns};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use client::{Client, Response, SseReader};
use engine::ScriptedEngine;

/// How long a test waits for what must happen before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The model that test servers serve.
pub(crate) const MODEL: &str = "test/tiny";

/// A server with an engine of type `E`; it ends when dropped.
pub(crate) struct TestServer<E = ScriptedEngine> {
    pub(crate) engine: Arc<E>,
    pub(crate) shutdown: Shutdown,
    address: SocketAddr,
    running: Option<JoinHandle<()>>,
    runtime: Runtime,
}

impl TestServer<ScriptedEngine> {
    /// A server with a scripted engine and default settings.
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// As [`TestServer::start`], with settings of its own.
    pub(crate) fn with(adjust: impl FnOnce(&mut Config)) -> Self {
        let template = model::template();
        let engine = Arc::new(ScriptedEngine::new(Arc::clone(template.tokenizer())));
        Self::over(engine, &Arc::new(Metrics::new()), adjust)
    }

    /// As [`TestServer::start`], with settings of its turns.
    pub(crate) fn turning(adjust: impl FnOnce(&mut turn::Config)) -> Self {
        let template = model::template();
        let engine = Arc::new(ScriptedEngine::new(Arc::clone(template.tokenizer())));
        let mut config = turn::Config::default();
        adjust(&mut config);
        Self::open(engine, &Arc::new(Metrics::new()), |_| {}, config)
    }
}

impl<E: Engine + 'static> TestServer<E> {
    /// A server over any engine.
    pub(crate) fn over(
        engine: Arc<E>,
        metrics: &Arc<Metrics>,
        adjust: impl FnOnce(&mut Config),
    ) -> Self {
        Self::open(engine, metrics, adjust, turn::Config::default())
    }

    fn open(
        engine: Arc<E>,
        metrics: &Arc<Metrics>,
        adjust: impl FnOnce(&mut Config),
        turn: turn::Config,
    ) -> Self {
        let (server, door) = Self::bound(engine, metrics, adjust);
        let model = ServedModel {
            id: MODEL.to_owned(),
            created: 1_700_000_000,
            engine: Arc::clone(&server.engine) as Arc<dyn Engine>,
            template: model::template(),
        };
        let turns = Turns::new(
            model.clone(),
            turn::built_in(Some("You are a cheerful host.")).unwrap(),
            Tools::new(&tools::Config::default(), BTreeMap::new()).unwrap(),
            turn,
            Arc::clone(metrics),
        );
        door.open(Backend { model, turns });
        server
    }

    /// A server whose door is still closed.
    pub(crate) fn bound(
        engine: Arc<E>,
        metrics: &Arc<Metrics>,
        adjust: impl FnOnce(&mut Config),
    ) -> (Self, Door) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..Config::default()
        };
        adjust(&mut config);
        let shutdown = Shutdown::new();
        let binding = Server::bind(
            config,
            turn::Config::default(),
            shutdown.clone(),
            Arc::clone(metrics),
        );
        let server = runtime.block_on(binding).unwrap();
        let (address, door) = (server.address(), server.door());
        let running = Some(runtime.spawn(server.run()));
        let server = Self {
            engine,
            shutdown,
            address,
            running,
            runtime,
        };
        (server, door)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        let mut client = self.client();
        client.request("GET", path, "", "");
        client.response()
    }

    pub(crate) fn post(&self, path: &str, body: impl ToString) -> Response {
        let mut client = self.client();
        client.post(path, &body.to_string());
        client.response()
    }

    pub(crate) fn stream(&self, path: &str, body: impl ToString) -> SseReader {
        let mut client = self.client();
        client.post(path, &body.to_string());
        client.events()
    }

    /// Asserts that every accepted turn is in flight or has one outcome, from the metrics alone; gives those accepted.
    #[track_caller]
    pub(crate) fn conserved(&self) -> f64 {
        let text = self.get("/metrics").body;
        let sum = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum()
        };
        let accepted = sum("avatar_turns_accepted_total");
        let known = sum("avatar_turns_total{") + sum("avatar_turns_in_flight");
        assert_eq!(known, accepted, "{text}");
        accepted
    }

    /// The value of a metric without labels, or with exactly these.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.get("/metrics").body;
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        values.next().map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until the server has stopped by itself.
    pub(crate) fn stopped(&mut self) {
        let running = self.running.take().expect("it is waited for once");
        let ended = async { tokio::time::timeout(PATIENCE, running).await };
        self.runtime
            .block_on(ended)
            .expect("it stops")
            .expect("it does not panic");
        assert_eq!(self.shutdown.phase(), Phase::Stopped);
    }
}

/// Waits until `condition` holds; fails the test when it never does.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
