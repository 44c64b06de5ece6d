//! Batches that cannot be computed are named.

use super::*;

fn plan_error(pieces: &[(usize, usize, &[u32])]) -> PlanError {
    let mut plan = AttentionPlan::default();
    for (position, rows, blocks) in pieces {
        plan.push(*position, *rows, blocks.iter().copied());
    }
    plan.finish(8, work(2)).unwrap_err()
}

#[test]
fn a_batch_that_cannot_be_computed_is_refused() {
    let missing = plan_error(&[(0, 1, &[0]), (30, 3, &[1])]);
    let want = PlanError::MissingBlocks {
        sequence: 1,
        blocks: 1,
        tokens: 33,
    };
    assert_eq!(missing, want);
    assert_eq!(
        plan_error(&[(0, 1, &[8])]),
        PlanError::UnknownBlock {
            sequence: 0,
            block: 8
        }
    );
    assert_eq!(
        plan_error(&[(0, 0, &[1])]),
        PlanError::NoRows { sequence: 0 }
    );
    assert_eq!(
        plan_error(&[(usize::MAX, 2, &[1])]).to_string(),
        format!(
            "sequence 0 has 1 blocks of 32 tokens for {} tokens",
            usize::MAX
        )
    );
}

#[test]
fn two_writers_of_one_block_are_refused_and_readers_are_not() {
    assert_eq!(
        plan_error(&[(0, 1, &[3]), (4, 1, &[3])]),
        PlanError::SharedWrite { block: 3 }
    );
    assert_eq!(
        plan_error(&[(0, 40, &[3, 3])]),
        PlanError::SharedWrite { block: 3 }
    );
    let mut plan = AttentionPlan::default();
    plan.push(32, 1, [3, 4].into_iter());
    plan.push(32, 1, [3, 5].into_iter());
    assert_eq!(plan.finish(8, work(2)), Ok(()));
}
