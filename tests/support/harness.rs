//! A server whose harness lies in a folder of the test's, followed, over our own engine with a scripted model.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use compere::activate::Activator;
use compere::engine::Engine;
use compere::engine::paged::fake::{FakeControl, FakeRunner, Script};
use compere::engine::paged::runner::RunnerLimits;
use compere::engine::paged::{Config as EngineConfig, PagedEngine};
use compere::harness::registry::Following;
use compere::harness::{Config, HarnessHandle, HarnessRegistry};
use compere::http::{AdminConfig, Backend, Operations};
use compere::telemetry::{EngineStats, Metrics};
use compere::tools::{self, Tools};
use compere::turn::{self, ServedModel, Turns};
use serde_json::Value;
use tempfile::TempDir;

use super::client::{Client, Response};
use super::{MODEL, TestServer, model};

/// The server, its operators' listener and the folder that it follows.
pub(crate) struct LiveRoom {
    pub(crate) server: TestServer<PagedEngine>,
    pub(crate) control: FakeControl,
    pub(crate) stats: Arc<EngineStats>,
    pub(crate) handle: HarnessHandle,
    admin: SocketAddr,
    dir: TempDir,
    _following: Following,
}

impl LiveRoom {
    /// A model that answers prompts holding a cue with its text; the harness's one skill says `skill`.
    pub(crate) fn start(skill: &str, lines: &[(&str, &str)]) -> Self {
        Self::with(skill, lines, |_| {})
    }

    /// As [`LiveRoom::start`], with settings of the registry.
    pub(crate) fn with(
        skill: &str,
        lines: &[(&str, &str)],
        adjust: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            directory: dir.path().join("harness"),
            state: Some(dir.path().join("state")),
            debounce_ms: 10,
            poll_ms: 100,
            ..Config::default()
        };
        adjust(&mut config);
        let room = config.directory.join("live-room");
        for (path, text) in [
            (
                "harness.toml",
                "language = \"en\"\n[budgets]\nmax_tokens = 1000\n",
            ),
            ("prompts/persona.txt", "You are a cheerful host.\n"),
        ] {
            put(&room.join(path), text);
        }
        put(&room.join("skills/stock/SKILL.md"), &skill_file(skill));
        let (engine, control, stats) = engine(lines);
        let metrics = Arc::new(Metrics::new());
        metrics.watch_engine(Arc::clone(&stats)).unwrap();
        let (server, door) = TestServer::bound(Arc::new(engine), &metrics, |_| {});
        let template = model::template();
        let engine = Arc::clone(&server.engine) as Arc<dyn Engine>;
        let demands = Box::new(|_: &_| Vec::new());
        let served = ServedModel {
            id: MODEL.to_owned(),
            created: 1_700_000_000,
            engine: Arc::clone(&engine),
            template: Arc::clone(&template),
        };
        let calls = turn::calls(&served);
        let activator = Activator::new(engine, template, calls, demands);
        let starting = HarnessRegistry::start(&config, Arc::new(activator), Arc::clone(&metrics));
        let registry = server.runtime.block_on(starting).unwrap();
        let handle = registry.handle();
        let turns = turns(&served, &handle, &metrics);
        door.manage(Operations {
            harnesses: Some(handle.clone()),
            log_level: None,
        });
        door.open(Backend {
            model: served,
            turns,
        });
        let admin_config = AdminConfig {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            allow_remote: false,
        };
        let operators = server.runtime.block_on(door.admin(&admin_config));
        let operators = operators.unwrap().expect("an address is set");
        let admin = operators.address();
        server.runtime.spawn(operators.run());
        let following = server.runtime.block_on(async { registry.follow() });
        Self {
            server,
            control,
            stats,
            handle,
            admin,
            dir,
            _following: following,
        }
    }

    /// The harness's folder.
    pub(crate) fn room(&self) -> PathBuf {
        self.dir.path().join("harness/live-room")
    }

    /// Saves the skill as editors do: whole, by rename.
    pub(crate) fn save_skill(&self, text: &str) {
        let path = self.room().join("skills/stock/SKILL.md");
        let new = path.with_file_name(".SKILL.md.new");
        put(&new, text);
        fs::rename(new, path).unwrap();
    }

    /// An operator's request.
    pub(crate) fn admin(&self, method: &str, path: &str, body: &str) -> Response {
        let mut client = Client::connect(self.admin);
        let kind = match body {
            "" => "",
            _ => "content-type: application/json\r\n",
        };
        client.request(method, path, kind, body);
        client.response()
    }

    /// What operators see of the harness.
    pub(crate) fn status(&self) -> Value {
        let response = self.admin("GET", "/admin/harness/live-room", "");
        assert_eq!(response.status(), 200, "{}", response.body);
        response.json()
    }

    /// The version that answers.
    pub(crate) fn version(&self) -> String {
        self.handle.live(None).unwrap().version.to_string()
    }
}

impl Drop for LiveRoom {
    fn drop(&mut self) {
        // The engine waits for its thread, and that may wait at the gate.
        self.control.open();
    }
}

/// A SKILL.md whose body, part of every prompt, is `body`.
pub(crate) fn skill_file(body: &str) -> String {
    format!(
        "---\nname: stock\ndescription: Tells what is in stock.\nmetadata:\n  avatar/inline: \"true\"\n---\n{body}\n"
    )
}

fn put(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn engine(lines: &[(&str, &str)]) -> (PagedEngine, FakeControl, Arc<EngineStats>) {
    let tokenizer = Arc::clone(model::template().tokenizer());
    let opening = tokenizer.encode_markup("<|im_start|>assistant\n");
    let mut script = Script::new(Arc::clone(&tokenizer), opening, model::END);
    for (cue, text) in lines {
        script = script.when(cue, text);
    }
    let runner = FakeRunner::scripted(
        RunnerLimits {
            vocab: tokenizer.vocab_size(),
            max_context: 8192,
            block_tokens: 16,
            blocks: 4096,
        },
        script,
    );
    let control = runner.control();
    let stats = Arc::new(EngineStats::default());
    let engine = PagedEngine::start(
        Box::new(runner),
        tokenizer,
        Arc::clone(&stats),
        &EngineConfig::default(),
    );
    (engine.unwrap(), control, stats)
}

fn turns(served: &ServedModel, handle: &HarnessHandle, metrics: &Arc<Metrics>) -> Turns {
    Turns::new(
        served.clone(),
        handle.clone(),
        Tools::new(&tools::Config::default(), BTreeMap::new()).unwrap(),
        turn::Config::default(),
        Arc::clone(metrics),
    )
}
