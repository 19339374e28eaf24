"""How one shard's memory is laid out: one block of 64-bit words, which every kernel works on.

Kernels get the block twice, as integers `w` and as floats `x` (two views of the same bytes). One block instead of
many arrays keeps calls cheap and makes a snapshot a copy. It begins with single words (named below), then come
tables whose size the query fixes, then the parts that grow:

    slots    one record per resident or free place: time, sequence number, payload row, cost and stream, its
             neighbours in the age list, and per directory its key and its neighbours in the key's chain
    keys     per directory: a table of key numbers by hash, and one record per key: code, then per stream
             head, tail and length of the chain and how often the key arrives
    trees    per pool: a tournament over leaves (see tournament.py)
    blocks   per ordered index: sorted blocks of numbers (see ordered.py)

Two kinds of lists run through the slots, both doubly linked and sorted by (time, sequence number):

    age      all residents of a stream, oldest first   -> expiry, FIFO, scans
    chain    residents of one stream with one key      -> probes, the oldest row of a key

Invariant: a slot is in its stream's age list exactly when it is in one chain per directory, in one leaf of a
tournament (or the dense list of RAND) and in every ordered index of its stream.
"""

from itertools import count

NONE = -1
LOW = -(2**63)  # no time: every other int64 can be one (see apart.py); numpy and pandas call it NaT
LATEST = 2**63 - 1
ENDLESS = -1  # all bits: a distance that no two times have (see apart.py)
HIGH = 2**62  # more than any number of rows, bytes or arrivals, and so small that these can be added to it

# single words
_next = count()
# what changes with every row
SEQ, MATCHED, RANDOM, CLOCK, WATERMARK, CURSOR, ARRIVALS = (next(_next) for _ in range(7))
PEAK_ROWS, PEAK_BYTES, FREE, FREE_COUNT, TOP, ROUTED, GONE, GONE_COUNT = (next(_next) for _ in range(8))
WEIGHT, VALUE = (next(_next) for _ in range(2))  # floats
# whether tournaments are kept (see policies/ranked.py), and whether arrivals are counted (see policies/counting.py)
RANKING, LEARNING = (next(_next) for _ in range(2))
MARKED, TRIAL, TRIAL_LEFT, TRIAL_START, TRIAL_SPAN, INITIAL = (next(_next) for _ in range(6))  # of credits
CHOICE, HALF_LIFE = (next(_next) for _ in range(2))  # of the rule AUTO, see state/auto/trials.py
MIX, MIX_UNTIL = (next(_next) for _ in range(2))  # floats
# switches
BY_ROW, STATISTIC, KEEP_IDLE, EMIT, FAIL_WHEN_FULL, HAS_VALUE, VALUE_SUM = (next(_next) for _ in range(7))
SEED, KEY_BYTES, IDLE_LIMIT, DRIFTING, KEEP_GONE, LEARNED_AHEAD, PENDING = (next(_next) for _ in range(7))
GROUP, NEED = (next(_next) for _ in range(2))  # rows of one instant that arrive together, and places that were lacking
OWN_CLOCK = next(_next)  # whether the times of rows move the watermark, or only who raises it, and full memory
CREDIT_START, CREDIT_GAIN = (next(_next) for _ in range(2))
GROWTH, SAMPLE_SHARE, SAMPLE_WEIGHT, DROP, CREDIT_SHARE, AGE_LIMIT, NOTED = (next(_next) for _ in range(7))  # floats
# sizes
STREAMS, POOLS, DIRS, LINKS, VALS, PREDS, INDEXES, HISTS, SKETCH_DEPTH, SKETCH_WIDTH, ORACLE_ROWS = (
    next(_next) for _ in range(11)
)
SLOT_CAP, SLOT_WORDS, KEY_CAP, KEY_WORDS, TABLE_SIZE, LEAVES, NODE_WORDS, BLOCK_CAP = (next(_next) for _ in range(8))
# where in a slot the fields begin that not every query has
VALS_OFF, RANK_OFF, GAIN_OFF, SCORE_OFF, PLACE_OFF, HEAP_OFF = (next(_next) for _ in range(6))
# where the tables and parts begin
STREAMS_AT, POOLS_AT, DIRS_AT, CLASSES_AT, POSITION_AT, ORDER_AT, ACCESS_AT, CHECKS_AT = (next(_next) for _ in range(8))
PREDS_AT, TALLY_AT, HIST_OF_AT, HISTS_AT, MEANS_AT, LIFE_AT, SAMPLE_AT, INDEXES_AT = (next(_next) for _ in range(8))
SKETCH_AT, ORACLE_AT, ORACLE_START_AT = (next(_next) for _ in range(3))
CREDIT_AT, LEVELS_AT, TRIALS_AT, AGES_AT = (next(_next) for _ in range(4))
SLOTS_AT, DENSE_AT, TABLES_AT, KEYS_AT, NODES_AT, ORDERS_AT, BLOCKS_AT = (next(_next) for _ in range(7))
HEAD_SIZE = next(_next)

# a stream's line: counters, then its window and pool
(
    EXPIRED, RELEASED, SHED, SAMPLED, ROWS, BYTES, OLDEST, NEWEST, HINT, LAST_TIME, RANK, SEEN, SEEN_FIRST, SEEN_LAST,
    REACH, SINCE, NEAR, LAST_ROWS, LATENESS, PATIENCE, POOL, OFFSET, STREAM_SIZE,
) = range(23)  # fmt: skip
# a pool's line
USED_ROWS, USED_BYTES, CAP_ROWS, CAP_BYTES, WIDTH, ROOT, SPAN, POOL_SIZE = range(8)
# a directory's line
KEY_FREE, KEY_TOP, KEY_LIVE, KEY_IDLE, DIR_SIZE = range(5)
# a slot's record; a link's three words
TIME, ARRIVED, ROW, COST, OLDER, NEWER, LINK0 = range(7)
KEY, LINK_OLDER, LINK_NEWER, LINK_WORDS = range(4)
STREAM_BITS = 8  # the low bits of COST name the stream
STREAM_MASK = (1 << STREAM_BITS) - 1
# a key's record: the code, four words per stream, then (with output values) one worth per stream; with credits by key
# FREQ counts what residents have gained, and behind come per stream the count that is filed, and the heap's root + 1
# with AUTO the counts are twice there, of all arrivals and of recent ones (see policies/auto.py)
CODE = 0
HEAD, TAIL, COUNT, FREQ, PER_STREAM = 1, 2, 3, 4, 4
# a node's record in a tournament: the leaf that wins below it and what it wins with; drifting trees have all six words
WIN, BASE, TIE, ENDS, TURN, FAIL = range(6)
STILL_WORDS = 3
# what the rule AUTO goes by: recent arrivals instead of all, those of all streams instead of the partners', all
# arrivals beside the recent ones (with BRIEF)
BRIEF, POOLED, MIXED = 1, 2, 4
CHOICE_WORDS = 8  # their combinations
# where a credit starts, and what a match adds to it
START_SHARE, START_TUNED, START_ZERO, START_TOP = range(4)
GAIN_ONE, GAIN_RANK, GAIN_NONE, GAIN_TOP = range(4)
# a pool's line of credits: what its levels count, the highest credit given, admissions since the levels were chosen
C_LOW, C_SHIFT, C_TOP, C_SEEN, CREDIT_SIZE = range(5)
LEVEL_GROUP = 32
LEVELS = LEVEL_GROUP * LEVEL_GROUP
LEVEL_WORDS = LEVEL_GROUP + LEVELS  # counts of groups of levels, then of levels
TRIALS = 13  # initial credits that the tuner knows: the shares 1 - 2 ** -k
# in a slot with credits: child, next and previous row in the heap of a key, or when each row has a leaf of its own
# the arrival that last matched it, the next row that it matched, and what that will add
CHILD, HEAP_NEXT, HEAP_PREV, HEAP_WORDS = range(4)
MARK, MARK_NEXT, OWED = range(3)
# a stream's line of ages: the age up to which its rows pay, matches by age, departures by age
A_LIMIT, A_MATCHES, AGE_BINS = 0, 1, 64
A_GONE, AGE_SIZE = A_MATCHES + AGE_BINS, A_MATCHES + 2 * AGE_BINS
# an ordered index's line; a block's record: count, numbers, slots
X_STREAM, X_COLUMN, X_FLOAT, X_USED, INDEX_SIZE = range(5)
BLOCK = 128
FILLED = BLOCK * 3 // 4  # what two neighbours hold at least together, so that a block just split is not merged at once
B_COUNT, B_NUMBER, B_SLOT, BLOCK_WORDS = 0, 1, 1 + BLOCK, 1 + 2 * BLOCK
# a predicate's line
P_KIND, P_LEFT, P_RIGHT, P_LEFT_COL, P_RIGHT_COL, P_FLOAT, P_WIDTH, P_LIMIT, P_DIMS, PRED_SIZE = range(10)
P_EQUAL, P_BAND, P_DISTANCE, P_LT, P_LE, P_GT, P_GE, P_NE = range(8)
SCAN, HASH, RANGE = range(3)
ACCESS_SIZE = 3  # kind, which, binder
INDEX_STRIDE = 1024  # an access by range names (index, predicate) in one number
# a histogram's line: low end, width of a bin, total, whether it holds floats, then a Fenwick tree
H_LOW, H_STEP, H_TOTAL, H_FLOAT, H_TREE = range(5)
BINS = 1024
HIST_SIZE = H_TREE + BINS + 1
LIFE_BINS = 128

# an arriving row's record in a batch: then codes (one per link), then numbers
R_TICK, R_TIME, R_STREAM, R_LIVE, R_ROW, R_COST, R_GAIN, R_SLOT, R_CODES = range(9)

PROBE_ONLY = 2  # in R_LIVE: the row probes but is not stored
LEAVING = -2  # R_SLOT at or below: the row is stored (in slot LEAVING - R_SLOT) until its group ends
UNBIASED = -1.0  # in DROP: the share is found from what is seen

# statistics
STAT_NONE, STAT_ORACLE, STAT_RUNNING, STAT_SKETCH = range(4)
# what a driver says when it comes back
DONE, GROW_SLOTS, GROW_KEYS, GROW_BLOCKS, PRUNE, FULL, PAUSE, DRAIN, LEARN = range(9)
# what is known of a row that was shed: its number, and the next number when it left; why is SHED or SAMPLED
G_STREAM, G_ROW, G_SEQ, G_CLOCK, G_WHY, G_NUMBER, GONE_SIZE = range(7)

CACHED = 1 << 12  # places of a key table: with fewer, all of the state stays in the processor's cache by itself
GROUP_LIMIT = 4096  # rows of one instant that arrive together, at most; fewer in small budgets (Plan.group)
OUT_PAUSE = 1 << 20  # matches after which a driver comes back
GROUPS = 32  # random groups of stored rows from which the interval of recall is estimated
