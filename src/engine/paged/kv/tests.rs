//! What is shared, what is not, and what is given up first.

use super::*;

fn kv(blocks: usize) -> Kv {
    Kv::new(blocks, 4)
}

fn tokens(text: &str) -> Vec<TokenId> {
    text.bytes().map(TokenId::from).collect()
}

fn empty() -> BlockTable {
    BlockTable::new(KeySpace::default().root())
}

/// A table whose whole text is computed.
fn computed(kv: &mut Kv, text: &str) -> BlockTable {
    let mut table = empty();
    assert!(kv.reserve(&mut table, text.len()));
    kv.commit(&mut table, &tokens(text), text.len());
    table
}

fn found(kv: &Kv, text: &str) -> usize {
    kv.cached(KeySpace::default(), &tokens(text)).blocks
}

#[test]
fn only_full_blocks_with_the_same_prefix_are_found() {
    let mut kv = kv(8);
    let table = computed(&mut kv, "aaaabbbbcc");
    assert_eq!(found(&kv, "aaaabbbbcccc"), 2);
    assert_eq!(found(&kv, "aaaabbb"), 1);
    assert_eq!(found(&kv, "aaaxbbbb"), 0);
    assert_eq!(
        found(&kv, "bbbb"),
        0,
        "the same tokens at another place are other KV"
    );
    kv.release(table);
    assert_eq!(found(&kv, "aaaabbbb"), 2, "also when nobody uses them");
    kv.check(std::iter::empty());
}

#[test]
fn spaces_are_apart() {
    let mut kv = kv(8);
    let _base = computed(&mut kv, "aaaabbbb");
    let adapter = KeySpace::of_adapter(0);
    assert_eq!(kv.cached(adapter, &tokens("aaaabbbb")), Cached::default());
    let mut table = BlockTable::new(adapter.root());
    assert_eq!(kv.adopt(&mut table, &tokens("aaaabbbb")), 0);
}

/// Blocks whose hashes collide hold different tokens.
#[test]
fn equal_hashes_share_nothing() {
    let mut kv = kv(8);
    kv.cache = PrefixCache::with_hash(8, 4, |_, _| 7);
    let first = computed(&mut kv, "aaaabbbb");
    assert_eq!(found(&kv, "aaaabbbb"), 1, "the first one is kept");
    assert_eq!(found(&kv, "xxxxbbbb"), 0);
    assert_eq!(
        found(&kv, "aaaaaaaa"),
        1,
        "the same tokens after another prefix"
    );
    let second = computed(&mut kv, "xxxxaaaa");
    assert_eq!(kv.referenced(), 4);
    kv.check([&first, &second].into_iter());
    kv.release(first);
    kv.release(second);
    kv.check(std::iter::empty());
    assert_eq!(kv.available(), 8);
}

#[test]
fn a_reused_block_does_not_continue_its_old_chain() {
    let mut kv = kv(2);
    let table = computed(&mut kv, "aaaabbbb");
    kv.release(table);
    // Takes the block of the tail; then the head's.
    let table = computed(&mut kv, "xxxx");
    assert_eq!(found(&kv, "aaaabbbb"), 1);
    kv.release(table);
    let table = computed(&mut kv, "yyyyzzzz");
    assert_eq!(found(&kv, "aaaabbbb"), 0);
    assert_eq!(found(&kv, "yyyyzzzz"), 2);
    assert_eq!(found(&kv, "yyyybbbb"), 1);
    kv.check(std::iter::once(&table));
}

#[test]
fn the_longest_unused_is_given_up_first_and_tails_before_heads() {
    let mut kv = kv(4);
    let first = computed(&mut kv, "aaaabbbb");
    let second = computed(&mut kv, "ccccdddd");
    kv.release(second);
    kv.release(first);
    let mut other = empty();
    for (blocks, expected) in [(1, [2, 1]), (2, [2, 0]), (3, [1, 0]), (4, [0, 0])] {
        assert!(kv.reserve(&mut other, blocks * 4));
        assert_eq!([found(&kv, "aaaabbbb"), found(&kv, "ccccdddd")], expected);
    }
    assert!(!kv.reserve(&mut other, 17), "nothing is left");
    assert_eq!(other.blocks().len(), 4, "and nothing was taken");
}

#[test]
fn what_a_table_uses_is_never_given_up() {
    let mut kv = kv(4);
    let first = computed(&mut kv, "aaaabbbb");
    kv.release(first);
    let mut table = empty();
    assert_eq!(kv.adopt(&mut table, &tokens("aaaabbbbc")), 8);
    let mut other = empty();
    assert!(!kv.reserve(&mut other, 12));
    assert!(kv.reserve(&mut other, 8));
    assert_eq!(found(&kv, "aaaabbbb"), 2);
    kv.check([&table, &other].into_iter());
}

#[test]
fn two_that_compute_the_same_end_with_one_copy() {
    let mut kv = kv(8);
    let (mut first, mut second) = (empty(), empty());
    assert!(kv.reserve(&mut first, 10) && kv.reserve(&mut second, 10));
    assert_eq!(kv.referenced(), 6);
    kv.commit(&mut first, &tokens("aaaabbbbcc"), 10);
    kv.commit(&mut second, &tokens("aaaabbbbdd"), 10);
    assert_eq!(first.blocks()[..2], second.blocks()[..2]);
    assert_ne!(first.blocks()[2], second.blocks()[2]);
    assert_eq!(kv.referenced(), 4);
    assert_eq!(kv.private(&first, &[]), 1);
    kv.check([&first, &second].into_iter());
}

#[test]
fn a_half_filled_block_gives_way_to_a_cached_full_one() {
    let mut kv = kv(8);
    let mut slow = empty();
    assert!(kv.reserve(&mut slow, 9));
    kv.commit(&mut slow, &tokens("aaaabbbbc"), 6);
    let fast = computed(&mut kv, "aaaabbbb");
    assert_eq!(kv.adopt(&mut slow, &tokens("aaaabbbbc")), 2);
    assert_eq!(slow.stored(), 8);
    assert_eq!(slow.blocks()[..2], fast.blocks()[..]);
    assert_eq!(slow.blocks().len(), 3, "its room is kept");
    kv.check([&slow, &fast].into_iter());
}

#[test]
fn discarded_content_is_forgotten_unless_others_use_it() {
    let mut kv = kv(8);
    let kept = computed(&mut kv, "aaaa");
    let mut bad = empty();
    kv.adopt(&mut bad, &tokens("aaaa"));
    assert!(kv.reserve(&mut bad, 8));
    kv.commit(&mut bad, &tokens("aaaabbbb"), 8);
    assert_eq!(found(&kv, "aaaabbbb"), 2);
    kv.discard(bad);
    assert_eq!(found(&kv, "aaaabbbb"), 1);
    kv.check(std::iter::once(&kept));
}

#[test]
fn cached_blocks_that_nobody_uses_are_told_apart() {
    let mut kv = kv(8);
    let table = computed(&mut kv, "aaaabbbb");
    let all = |blocks, idle| Cached { blocks, idle };
    assert_eq!(
        kv.cached(KeySpace::default(), &tokens("aaaabbbb")),
        all(2, 0)
    );
    kv.release(table);
    assert_eq!(
        kv.cached(KeySpace::default(), &tokens("aaaabbbb")),
        all(2, 2)
    );
    assert_eq!(kv.available(), 8);
}
