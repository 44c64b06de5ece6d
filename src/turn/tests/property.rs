//! Whatever engine and reader do, a turn ends once and is counted once.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Reader {
    Reads,
    Drops(usize),
    Cancels(usize),
}

fn beats() -> impl Strategy<Value = Vec<Beat>> {
    let beat = prop_oneof![
        4 => proptest::sample::select(&["It is warm. ", "好的，", "👏", "3.", "5 kg. ", "！", " "][..]).prop_map(text),
        1 => (1..3000_u64).prop_map(wait),
        1 => Just(Beat::End(FinishReason::Stop)),
        1 => Just(Beat::End(FinishReason::Length)),
        1 => Just(Beat::End(FinishReason::Error("broken".to_owned()))),
        1 => Just(Beat::Hang),
    ];
    proptest::collection::vec(beat, 0..30)
}

fn reader() -> impl Strategy<Value = Reader> {
    prop_oneof![
        2 => Just(Reader::Reads),
        1 => (0..4_usize).prop_map(Reader::Drops),
        1 => (0..4_usize).prop_map(Reader::Cancels),
    ]
}

/// Follows one turn and checks what its reader may rely on.
async fn follow(turns: Turns, mut stream: TurnStream, reader: Reader) {
    let mut events = Vec::new();
    loop {
        match reader {
            Reader::Drops(after) if events.len() == after => return,
            Reader::Cancels(after) if events.len() == after => {
                let _ = turns.cancel(stream.response_id(), None);
            }
            _ => {}
        }
        let Some(event) = stream.next().await else {
            break;
        };
        events.push(event);
    }
    let terminal =
        |event: &TurnEvent| matches!(event, TurnEvent::Completed(_) | TurnEvent::Failed(_));
    let queued = usize::from(matches!(events[0], TurnEvent::Queued { .. }));
    let begins = matches!(events[queued], TurnEvent::Started { .. });
    assert!(begins || (queued == 1 && terminal(&events[queued])));
    assert_eq!(events.iter().filter(|event| terminal(event)).count(), 1);
    assert!(terminal(&events[events.len() - 1]));
    let segments = events.iter().filter_map(|event| match event {
        TurnEvent::Segment(segment) => Some(segment),
        _ => None,
    });
    for (seq, segment) in segments.enumerate() {
        assert_eq!(segment.seq, seq);
        assert!(!segment.tts_text.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_turn_ends_once_whatever_engine_and_reader_do(
        runs in proptest::collection::vec((beats(), reader()), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scripts = runs.iter().map(|(beats, _)| Ok(beats.clone())).collect();
            let stage = stage(scripts);
            let mut readers = Vec::new();
            for (_, reader) in &runs {
                let stream = stage.turns.respond(request()).unwrap();
                readers.push(tokio::spawn(follow(stage.turns.clone(), stream, *reader)));
            }
            stage.assert_conserved();
            for reader in readers {
                reader.await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
            stage.assert_conserved();
            assert_eq!(stage.samples()["avatar_turns_in_flight"], 0.0);
            assert_eq!(stage.turns.in_flight(), 0);
            assert_eq!(stage.engine.running(), 0);
        });
    }
}
