//! Which rows attend to which blocks: built once per batch, used by every layer.

use std::ops::Range;

use crate::kv::BLOCK_TOKENS;

/// Queries (rows times the query heads of one key head) that one tile aims for: their state stays in the first cache.
const TILE_QUERIES: usize = 48;
/// Tasks per thread from which on it matters little that threads get different numbers of them.
const TASKS_PER_THREAD: usize = 4;

/// Rows of all sequences, ordered so that sequences with equal leading blocks are neighbours.
#[derive(Debug, Default)]
pub struct AttentionPlan {
    sequences: Vec<Sequence>,
    tables: Vec<u32>,
    all: Cut,
    wanted: Cut,
    /// Where each row of the batch is in the plan.
    places: Vec<usize>,
    /// Place in the plan and index of each wanted row.
    order: Vec<(usize, usize)>,
    written: Vec<u32>,
}

/// Rows that are computed together, and how they are cut.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// In plan order.
    pub(crate) rows: Vec<Row>,
    /// The costly ones first.
    pub(crate) tiles: Vec<Tile>,
    /// Of the tasks that tiles times key heads make, in that order, how many are to be run whole; of the rest, each
    /// query head is a task.
    pub(crate) whole_tasks: usize,
}

/// What a plan is cut for.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Key heads.
    pub heads: usize,
    /// Query heads on each key head.
    pub group: usize,
    /// Threads that share the work.
    pub threads: usize,
}

/// Which rows of a batch attend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Every one; queries and outputs lie as in the batch.
    All,
    /// Those that [`AttentionPlan::want`] was told; queries and outputs lie in that order.
    Wanted,
}

#[derive(Clone, Copy, Debug)]
struct Sequence {
    row: usize,
    rows: usize,
    position: usize,
    table: usize,
    blocks: usize,
}

/// One row of a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Where its query and output lie.
    pub(crate) input: usize,
    pub(crate) position: usize,
    /// First entry of its block table.
    table: usize,
}

/// Neighbouring rows of a tile that attend to the same block.
pub(crate) struct Run {
    /// Index in the rows' block tables.
    pub(crate) index: usize,
    pub(crate) block: usize,
    /// Which rows of the tile.
    pub(crate) rows: Range<usize>,
}

/// Rows `first .. first + count` of the plan, processed together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) count: usize,
    cost: usize,
}

/// A batch that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A sequence has fewer blocks than its tokens need.
    MissingBlocks {
        /// Index of the sequence.
        sequence: usize,
        /// Blocks it has.
        blocks: usize,
        /// Tokens it needs them for.
        tokens: usize,
    },
    /// A block that the pool does not have.
    UnknownBlock {
        /// Index of the sequence.
        sequence: usize,
        /// The block.
        block: u32,
    },
    /// Two places of the batch would write into one block.
    SharedWrite {
        /// The block.
        block: u32,
    },
    /// A sequence without rows.
    NoRows {
        /// Index of the sequence.
        sequence: usize,
    },
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MissingBlocks {
                sequence,
                blocks,
                tokens,
            } => {
                write!(
                    f,
                    "sequence {sequence} has {blocks} blocks of {BLOCK_TOKENS} tokens for {tokens} tokens"
                )
            }
            Self::UnknownBlock { sequence, block } => {
                write!(f, "sequence {sequence} names the unknown block {block}")
            }
            Self::SharedWrite { block } => write!(f, "block {block} would be written twice"),
            Self::NoRows { sequence } => write!(f, "sequence {sequence} has no rows"),
        }
    }
}

impl std::error::Error for PlanError {}

impl AttentionPlan {
    /// Forgets the last batch and keeps the memory.
    pub fn clear(&mut self) {
        self.sequences.clear();
        self.tables.clear();
        self.all.clear();
        self.wanted.clear();
        self.written.clear();
    }

    /// Adds the next sequence: `rows` rows from `position` on, its block table from the start.
    pub fn push(&mut self, position: usize, rows: usize, blocks: impl Iterator<Item = u32>) {
        let table = self.tables.len();
        self.tables.extend(blocks);
        let row = self.sequences.last().map_or(0, |last| last.row + last.rows);
        self.sequences.push(Sequence {
            row,
            rows,
            position,
            table,
            blocks: self.tables.len() - table,
        });
    }

    /// Checks the batch against a pool of `pool_blocks` blocks and cuts it into tiles. No row is wanted yet.
    ///
    /// # Errors
    /// Names the sequence or block at fault; the plan is then of no use until [`AttentionPlan::clear`].
    pub fn finish(&mut self, pool_blocks: usize, work: Work) -> Result<(), PlanError> {
        self.check(pool_blocks)?;
        let tables = &self.tables;
        // Ends of equal tables are in batch order, so the plan depends on nothing but the batch.
        self.sequences.sort_unstable_by(|a, b| {
            let table = |s: &Sequence| &tables[s.table..s.table + s.blocks];
            table(a).cmp(table(b)).then(a.row.cmp(&b.row))
        });
        for sequence in &self.sequences {
            self.all.rows.extend((0..sequence.rows).map(|row| Row {
                input: sequence.row + row,
                position: sequence.position + row,
                table: sequence.table,
            }));
        }
        self.all.cut(work);
        Ok(())
    }

    /// Chooses the rows that [`Rows::Wanted`] stands for.
    ///
    /// # Panics
    /// When a row is not of the batch.
    pub fn want(&mut self, rows: &[usize], work: Work) {
        self.places.resize(self.all.rows.len(), 0);
        for (place, row) in self.all.rows.iter().enumerate() {
            self.places[row.input] = place;
        }
        self.order.clear();
        let places = rows.iter().enumerate();
        self.order
            .extend(places.map(|(index, &row)| (self.places[row], index)));
        self.order.sort_unstable();
        self.wanted.clear();
        let wanted = self.order.iter().map(|&(place, input)| Row {
            input,
            ..self.all.rows[place]
        });
        self.wanted.rows.extend(wanted);
        self.wanted.cut(work);
    }

    /// Rows of the batch.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.all.rows.len()
    }

    /// Most positions that any row attends to.
    #[must_use]
    pub fn positions(&self) -> usize {
        let positions = self.all.rows.iter().map(|row| row.position + 1);
        positions.max().unwrap_or(0)
    }

    pub(crate) fn cut(&self, rows: Rows) -> &Cut {
        match rows {
            Rows::All => &self.all,
            Rows::Wanted => &self.wanted,
        }
    }

    /// The block that holds `index * BLOCK_TOKENS` of the row's sequence, for indices up to the row's own block.
    pub(crate) fn block(&self, row: &Row, index: usize) -> usize {
        self.tables[row.table + index] as usize
    }

    /// The first run from row `first` of block `index` on, of rows that see `window` positions up to their own; blocks
    /// come in order, and in each its rows.
    pub(crate) fn run_from(
        &self,
        rows: &[Row],
        window: usize,
        index: usize,
        first: usize,
    ) -> Option<Run> {
        let (mut index, mut first) = (index, first);
        while rows.iter().any(|row| index <= row.position / BLOCK_TOKENS) {
            let block_of = |row: &Row| {
                let seen = row.first_seen(window) / BLOCK_TOKENS..=row.position / BLOCK_TOKENS;
                seen.contains(&index).then(|| self.block(row, index))
            };
            if let Some(start) = (first..rows.len()).find(|&row| block_of(&rows[row]).is_some()) {
                let block = block_of(&rows[start]);
                let alike = rows[start..]
                    .iter()
                    .take_while(|row| block_of(row) == block)
                    .count();
                return block.map(|block| Run {
                    index,
                    block,
                    rows: start..start + alike,
                });
            }
            (index, first) = (index + 1, 0);
        }
        None
    }

    fn check(&mut self, pool_blocks: usize) -> Result<(), PlanError> {
        for (index, sequence) in self.sequences.iter().enumerate() {
            if sequence.rows == 0 {
                return Err(PlanError::NoRows { sequence: index });
            }
            let tokens = sequence.position.saturating_add(sequence.rows);
            if tokens.div_ceil(BLOCK_TOKENS) > sequence.blocks {
                return Err(PlanError::MissingBlocks {
                    sequence: index,
                    blocks: sequence.blocks,
                    tokens,
                });
            }
            let table = &self.tables[sequence.table..sequence.table + sequence.blocks];
            if let Some(&block) = table.iter().find(|&&block| block as usize >= pool_blocks) {
                return Err(PlanError::UnknownBlock {
                    sequence: index,
                    block,
                });
            }
            let first = sequence.position / BLOCK_TOKENS;
            self.written
                .extend_from_slice(&table[first..tokens.div_ceil(BLOCK_TOKENS)]);
        }
        self.written.sort_unstable();
        match self.written.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(PlanError::SharedWrite { block: pair[0] }),
            None => Ok(()),
        }
    }
}

impl Work {
    /// Most queries that a tile has, whatever the batch.
    pub(crate) fn tile_queries(group: usize) -> usize {
        TILE_QUERIES.div_ceil(group) * group
    }
}

impl Row {
    /// The first position that it attends to.
    pub(crate) fn first_seen(&self, window: usize) -> usize {
        (self.position + 1).saturating_sub(window)
    }
}

impl Cut {
    fn clear(&mut self) {
        self.rows.clear();
        self.tiles.clear();
    }

    /// Long batches are cut into many tiles of as many queries as stay in the first cache. Short ones are cut so that
    /// threads get the same number of tasks; what is left over is cut further, by query heads.
    fn cut(&mut self, work: Work) {
        let Work {
            heads,
            group,
            threads,
        } = work;
        let rows = self.rows.len();
        let enough = threads * TASKS_PER_THREAD;
        let mut tiles = rows.div_ceil(TILE_QUERIES.div_ceil(group));
        while tiles * heads < enough && !(tiles * heads).is_multiple_of(threads) && tiles < rows {
            tiles += 1;
        }
        let size = rows.div_ceil(tiles.max(1)).max(1);
        for first in (0..rows).step_by(size) {
            let count = size.min(rows - first);
            let positions = self.rows[first..first + count]
                .iter()
                .map(|row| row.position + 1);
            self.tiles.push(Tile {
                first,
                count,
                cost: positions.sum(),
            });
        }
        self.tiles
            .sort_unstable_by_key(|tile| (std::cmp::Reverse(tile.cost), tile.first));
        let tasks = self.tiles.len() * heads;
        let left_over = if tasks < enough { tasks % threads } else { 0 };
        self.whole_tasks = tasks - left_over;
    }
}
