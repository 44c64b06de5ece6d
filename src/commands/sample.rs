//! One comment sent to our own server over HTTP, and its answer printed as it streams: what `make run` shows.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::Failure;
use crate::app::Ready;

/// Sends the comment and prints segments and timings; a failure is printed and harms nothing.
pub(super) async fn show(ready: &Ready, comment: &str) {
    let body = request(comment);
    println!("\nA viewer comments: {comment}\n");
    if let Err(error) = answer(ready, &body).await {
        println!("the sample comment got no answer: {error}");
    }
    println!("\nTry it yourself:\n");
    println!(
        "  curl -N http://{}/v1/avatar/respond -H 'content-type: application/json' -d '{}'\n",
        ready.address,
        body.to_string().replace('\'', "'\\''")
    );
    println!(
        "  curl http://{}/metrics | grep avatar_response_latency_seconds",
        ready.address
    );
    println!("\nServing until Ctrl-C.");
}

fn request(comment: &str) -> Value {
    json!({
        "room_id": "demo",
        "stream": true,
        "comments": [{"comment_id": "c1", "nickname": "Mia", "text": comment}],
        "context": {
            "product_id": "trail-jacket",
            "facts": {
                "name": "Trail Jacket",
                "waterproof": "yes, to 10,000 mm",
                "weight": "380 g",
                "price": "$89"
            },
            "promotions": ["today only: $79 instead of $89"]
        }
    })
}

async fn answer(ready: &Ready, body: &Value) -> Result<(), Failure> {
    let body = body.to_string();
    let head = format!(
        "POST /v1/avatar/respond HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        ready.address,
        body.len()
    );
    let mut stream = TcpStream::connect(ready.address).await?;
    let start = Instant::now();
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut lines = BufReader::new(stream).lines();
    let status = lines.next_line().await?.unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(format!("the server answered {status}").into());
    }
    let mut event = String::new();
    while let Some(line) = lines.next_line().await? {
        if let Some(name) = line.strip_prefix("event:") {
            name.trim().clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data:") {
            print_event(&event, &serde_json::from_str(data.trim())?, start);
        }
    }
    Ok(())
}

fn print_event(event: &str, data: &Value, start: Instant) {
    let at = start.elapsed().as_millis();
    match event {
        "segment" => println!(
            "  {at:>5} ms  {}",
            data["tts_text"].as_str().unwrap_or_default()
        ),
        "response.completed" => {
            let (timings, usage) = (&data["timings"], &data["usage"]);
            println!(
                "\n  first segment after {} ms, whole answer after {} ms; {} prompt tokens ({} cached), {} generated",
                timings["first_segment_ms"],
                timings["total_ms"],
                usage["prompt"],
                usage["cached"],
                usage["completion"]
            );
        }
        "response.failed" => println!(
            "  {at:>5} ms  failed: {}",
            data["message"].as_str().unwrap_or_default()
        ),
        _ => {}
    }
}
