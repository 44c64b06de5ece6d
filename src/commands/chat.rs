//! `compere chat`: a conversation in the terminal, straight through the engine.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use super::Failure;
use crate::app::{self, Speaker};
use crate::cli::ChatArgs;
use crate::config;
use crate::engine::{FinishReason, GenerateRequest, Sampling};
use crate::telemetry::{EngineStats, Metrics};
use crate::template::Message;
use crate::turn::chat::{ChatRequest, chat};
use crate::turn::completion::CompletionEvent;

pub(super) fn run(args: &ChatArgs) -> Result<(), Failure> {
    let config = config::load(&args.config)?;
    let speaker = app::speaker(&config, Arc::new(EngineStats::default()))?;
    if io::stdin().is_terminal() {
        println!("{} is listening; Ctrl-D ends.", speaker.model.id);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let metrics = Arc::new(Metrics::new());
    let mut messages = Vec::new();
    if let Some(system) = &args.system {
        messages.push(message("system", system));
    }
    loop {
        prompt()?;
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        messages.push(message("user", line.trim()));
        let answer = runtime.block_on(answer(args, &speaker, &metrics, &messages))?;
        messages.push(message("assistant", &answer));
    }
    speaker.engine.shutdown();
    Ok(())
}

async fn answer(
    args: &ChatArgs,
    speaker: &Speaker,
    metrics: &Arc<Metrics>,
    messages: &[Message],
) -> Result<String, Failure> {
    let request = ChatRequest {
        messages: messages.to_vec(),
        n: 1,
        options: GenerateRequest {
            max_tokens: Some(args.max_tokens),
            sampling: Sampling {
                temperature: args.temperature,
                ..Sampling::default()
            },
            ..GenerateRequest::default()
        },
    };
    let mut stream = chat(&speaker.model, metrics, request)?;
    let mut answer = String::new();
    while let Some(event) = stream.next().await {
        match event {
            CompletionEvent::Prompt { .. } => {}
            CompletionEvent::Text { text, .. } => {
                let mut out = io::stdout();
                out.write_all(text.as_bytes())?;
                out.flush()?;
                answer.push_str(&text);
            }
            CompletionEvent::Finished { finish, .. } => {
                writeln!(io::stdout())?;
                if let FinishReason::Error(reason) = finish.reason {
                    return Err(reason.into());
                }
            }
        }
    }
    Ok(answer)
}

fn prompt() -> io::Result<()> {
    if io::stdin().is_terminal() {
        print!("> ");
        io::stdout().flush()?;
    }
    Ok(())
}

fn message(role: &str, content: &str) -> Message {
    Message::new(role, content)
}
