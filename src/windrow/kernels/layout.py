"""How one shard's memory is laid out: one block of 64-bit words, which every kernel works on.

Everything that a block holds is declared here, once (see records.py). What snapshots keep, what moves to a block of
another plan and which query has it follows from these lines, and so does docs/state.md. One block instead of many
arrays keeps calls cheap and makes a snapshot a copy. It begins with the head (single words), then come tables whose
size the query fixes, then the parts that grow (state/parts.py lists them):

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

from typing import NamedTuple

from windrow.kernels.records import Record, optional, real, word
from windrow.kernels.release.layout import Cover as Cover
from windrow.kernels.release.layout import Edge as Edge
from windrow.kernels.release.layout import Evidence as Evidence
from windrow.kernels.release.layout import Ordered as Ordered
from windrow.kernels.release.layout import Promise as Promise
from windrow.kernels.release.layout import Watched as Watched

NONE = -1
LOW = -(2**63)  # no time: every other int64 can be one (see distances.py); numpy and pandas call it NaT
LATEST = 2**63 - 1
ENDLESS = -1  # all bits: a distance that no two times have (see distances.py)
HIGH = 2**62  # more than any number of rows, bytes or arrivals, and so small that these can be added to it


class Head(Record):
    """The single words of a block."""

    # what changes with every row
    seq = word("the next sequence number", saved=True, moved="always")
    matched = word("matches found", saved=True, moved="always")
    random = word("random numbers drawn", saved=True, moved="always")
    clock = word("the latest time that came", saved=True, moved="always")
    watermark = word("no row before it is waited for", saved=True, moved="always")
    cursor = word("the next row of the batch")
    arrivals = word("rows that came, taken or not", saved=True, moved="always")
    peak_rows = word("the most residents", saved=True, moved="always")
    peak_bytes = word("the most bytes charged", saved=True, moved="always")
    free = word("the first free slot below the top")
    free_count = word("free slots below the top")
    top = word("the first slot that was never used")
    routed = word("arrivals when probe orders were last chosen", saved=True)
    gone = word("the last slot of a row that was shed and is asked for")
    gone_count = word("such slots")
    weight = real("what an arrival adds to counts", saved=True, moved="learned")
    value = real("the value of all matches", saved=True, moved="always")
    ranking = word("whether tournaments are kept (policies/ranked.py)", saved=True)
    begun = word("whether the policy has begun, and has room for what it keeps (policies/exact.py)", saved=True)
    marked = word("the first row that the arriving one matched (policies/greedy_dual.py)")
    trial = word("the initial credit under trial (tuner.py)", saved=True, moved="same")
    trial_left = word("arrivals until that ends", saved=True, moved="same")
    trial_start = word("matches when it began", saved=True, moved="same")
    trial_span = word("arrivals that it takes", saved=True, moved="same")
    initial = word("the initial credit that is used", saved=True, moved="same")
    choice = word("what the rule AUTO goes by (state/auto/trials.py)", saved=True, moved="learned")
    half_life = word("the half-life that AUTO has chosen", saved=True, moved="learned")
    mix = real("what all arrivals weigh beside recent ones (AUTO)", saved=True, moved="learned")
    mix_until = real("the weight at which that is raised", saved=True, moved="learned")
    # prospects (policies/prospects.py)
    judging = word("whether rows are ranked by them", saved=True, moved="learned")
    looks = word("how often residents were looked at", saved=True, moved="learned")
    looked = word("arrivals when they last were", saved=True, moved="learned")
    look_next = word("arrivals when they will be", saved=True, moved="learned")
    looked_clock = word("the latest time then", saved=True, moved="learned")
    faded = real("when what is known of them was last halved", saved=True, moved="learned")
    # switches
    by_row = word("whether each resident is a leaf of its own")
    statistic = word("who counts arrivals")
    keep_idle = word("whether keys without residents are kept for their counts")
    emit = word("whether matches are emitted, or only counted")
    fail_when_full = word("whether nothing may be shed")
    has_value = word("whether matches have a value")
    value_sum = word("whether it is the sum of what rows add, or the product")
    seed = word("of random numbers and samples")
    key_bytes = word("charged for a key")
    idle_limit = word("keys without residents, at most")
    drifting = word("whether priorities change with the clock")
    keep_gone = word("whether slots of all rows that are shed are kept until they are asked for")
    learned_ahead = word("whether the arriving group is counted already")
    pending = word("rows of the arriving group that leave when it ends")
    group = word("rows of one instant that arrive together, at most")
    need = word("places that were lacking")
    own_clock = word("whether times of rows move the watermark, or only who raises it, and full memory")
    credit_start = word("where a credit starts")
    credit_gain = word("what a match adds to it")
    collected = word("arrivals when residents were last judged (release/collect.py)", saved=True)
    spared = word("residents that were left then", saved=True)
    pace = word("how many arrivals come before the next time, in quarters of these", saved=True)
    rounds = word("collections until all residents are judged, not only those that time says something of", saved=True)
    every = word("how many of them lie between two such", saved=True)
    bare_cost = word("charged for a resident without payload")
    adapted = word("arrivals when it was last decided which promises are used", saved=True)
    monitored = word("whether promises that are broken rest until they are learnt again")
    releasing = word("whether anything is released, or only watched")
    covers_hold = word("whether covers follow from promises that are used", saved=True)
    spares = real("the share of residents that are not released, to see what comes", saved=True, moved="always")
    spared_rows = word("how many of them there are", saved=True, moved="always")
    blinded = word("such residents that had to make room, and see no more", saved=True, moved="always")
    missed = real("matches missed for certain (release/sparing.py)", saved=True, moved="always")
    came_place = word("the place of `came` among what keys keep")
    clusters_in_time = word("whether the least time of a key's rows is kept")
    # rows that are demoted (release/demoting.py)
    down = word("the last slot of a row that was demoted and is not yet taken to disk")
    down_count = word("such slots")
    group_seq = word("the sequence number of the first row of the present group")
    called = word("keys under which rows that were demoted are looked for (release/filter.py)")
    filter_used = word("places of the filter that are used", saved=True)
    cold_bytes = word("charged for the filter, and for demoted rows that are not yet on disk")
    growth = real("how much more an arrival weighs than the one before it", moved="learned")
    sample_share = real("the share of rows that an estimate of recall stores", saved=True)
    sample_weight = real("what each of them stands for", saved=True)
    drop = real("the share of rows that a sampler leaves out")
    credit_share = real("the percentile of credits at which they start")
    age_limit = real("the age up to which rows pay, if it is given (AGE)")
    noted = real("the share of rows that are asked for when they are shed")
    # sizes
    streams = word()
    pools = word()
    dirs = word()
    links = word()
    vals = word()
    preds = word()
    indexes = word()
    hists = word()
    sketch_depth = word()
    sketch_width = word()
    oracle_rows = word()
    slot_cap = word()
    slot_words = word()
    key_cap = word()
    key_words = word()
    table_size = word()
    leaves = word()
    node_words = word()
    block_cap = word()
    ordered = word()
    befores = word()
    promises = word()
    filter_words = word()
    called_cap = word()
    # where in a slot the fields begin that not every query has
    vals_off = word()
    rank_off = word()
    gain_off = word()
    score_off = word()
    place_off = word()
    heap_off = word()
    status_off = word()
    befores_off = word()
    # where the tables and parts begin (state/parts.py)
    streams_at = word()
    pools_at = word()
    held_at = word()
    dirs_at = word()
    classes_at = word()
    position_at = word()
    order_at = word()
    access_at = word()
    checks_at = word()
    preds_at = word()
    tally_at = word()
    hist_of_at = word()
    hists_at = word()
    means_at = word()
    life_at = word()
    sample_at = word()
    indexes_at = word()
    sketch_at = word()
    oracle_at = word()
    oracle_start_at = word()
    credit_at = word()
    levels_at = word()
    trials_at = word()
    ages_at = word()
    prospects_at = word()
    slots_at = word()
    dense_at = word()
    tables_at = word()
    keys_at = word()
    nodes_at = word()
    orders_at = word()
    blocks_at = word()
    edges_at = word()
    evidence_at = word()
    covers_at = word()
    befores_at = word()
    ordered_at = word()
    steps_at = word()
    promises_at = word()
    watched_at = word()
    missed_at = word()
    filter_at = word()
    called_at = word()


class Stream(Record):
    """A stream's line: counters, then its window and pool."""

    expired = word("residents that left because their window has passed", saved=True, moved="always")
    released = word("residents that a constraint proved useless", saved=True, moved="always")
    shed = word("rows that left for lack of memory", saved=True, moved="always")
    sampled = word("those of them that a sampler left out", saved=True, moved="always")
    rows = word("residents")
    bytes = word("charged for them")
    oldest = word("the first slot of the age list", names="slot")
    newest = word("its last", names="slot")
    hint = word("where the last row went into the age list", names="slot")
    demoted = word("those of the released that went to disk", saved=True, moved="always")
    last_time = word("the latest time that came", saved=True, moved="always")
    rank = word("rows that came", saved=True, moved="always")
    looked_rank = word("the same at the last look at residents (policies/prospects.py)", saved=True, moved="always")
    seen = real("a fading count of arrivals (sampler.py)", saved=True, moved="always")
    seen_first = word("the first time that it knows", saved=True, moved="always")
    seen_last = word("the last", saved=True, moved="always")
    reach = word("the largest distance of a resident's time from a later row's")
    since = word("the least time of a resident that matches")
    near = word("the least distance")
    last_rows = word("the last rows that match, 0 if the window is in time")
    lateness = word("how late its rows may be")
    patience = word("how long others wait for it")
    pool = word("which holds its residents")
    offset = word("its place among the streams of its pool")
    dead = word("rows that had lost their last partner (release/rules.py)", saved=True, moved="always")
    complete = word("rows whose matches were all found", saved=True, moved="always")
    first_edge = word("its edges in the join graph, from here")
    after_edge = word("to here")
    first_cover = word("its covers, from here")
    after_cover = word("to here")
    is_leaf = word("whether it has no child streams")
    is_judged = word("whether anything can be found out about its residents")
    turn = word("the stream that is judged at this place, children before their parents")
    remembers = word("whether rows that fail a filter are kept, to tell parents that come later")


class Pool(Record):
    """A pool's line: what is used of which cap, and the root of its tournament."""

    used_rows = word()
    used_bytes = word()
    cap_rows = word()
    cap_bytes = word()
    width = word("its streams")
    root = word("the node with all used leaves below it")
    span = word("the leaves below it")
    keys = word("keys that it is charged for: the most that it has in a directory, where there are several (keys.py)")


class Directory(Record):
    """A directory's line: which of its key records are in use."""

    free = word("the first free record below the top")
    top = word("the first record that was never used")
    live = word("keys")
    idle = word("those of them that have no residents")


class Slot(Record):
    """A resident, or a free place. Its links follow, one for each directory, then its numbers."""

    time = word("its time", saved=True, moved="always")
    seq = word("its sequence number", saved=True, moved="always")
    row = word("its row of payload; NONE in a free place", moved="always")
    cost = word("what it is charged, and in the low bits its stream", saved=True)
    older = word("its neighbour in the age list; in a free place the next", names="slot")
    newer = word("its other neighbour", names="slot")
    rank = word("its number among the rows of its stream", saved=True, where=Head.rank_off, when="counts_rows")
    gain = real("what it adds to an output value", saved=True, where=Head.gain_off, when="valued")
    score = real("its priority, or credit", saved=True, where=Head.score_off, when="scored")
    place = word("its place in the dense list (RAND)", where=Head.place_off, when="dense")
    status = word("Unknown, Yes or No (release/rules.py)", saved=True, where=Head.status_off, when="releases")
    # in the heap of its key (heap.py), where credits move with the key
    child = word("its first child", where=Head.heap_off, when="credits_by_key", names="slot")
    heap_next = word("its next sibling", where=Head.heap_off, step=1, when="credits_by_key", names="slot")
    heap_prev = word(
        "its previous sibling, or its parent", where=Head.heap_off, step=2, when="credits_by_key", names="slot"
    )
    # the same words where each row has a credit of its own; they mean something while a row arrives, and no longer
    mark = word("the arrival that last matched it", where=Head.heap_off, when="credits_by_row")
    mark_next = word("the next row that it matched", where=Head.heap_off, step=1, when="credits_by_row")
    owed = word("what that will add to its credit", where=Head.heap_off, step=2, when="credits_by_row")


# Fields that not every query has, by the word of the head that says where: when they are there, and how many words.
OPTIONAL = optional(Slot)


class Link(Record):
    """A slot's link into a directory."""

    key = word("its key's number", names="key")
    older = word("its neighbour in the key's chain", names="slot")
    newer = word("its other neighbour", names="slot")


class Key(Record):
    """A key's record. A chain for each stream follows, then what not every policy keeps (`KEPT_OF_KEYS`)."""

    code = word("its code; of a free record the next")


class Chain(Record):
    """The residents of one stream with one key, and how often the key arrives there.

    With credits by key `freq` counts what residents have gained.
    """

    head = word("the oldest", names="slot")
    tail = word("the newest", names="slot")
    count = word("how many; NONE on the first stream of a free record")
    freq = real("arrivals", saved=True)


def chain_word(stream: int, word: int) -> int:
    """Which word of a key's record is a word of its chain of a stream."""
    return Key.size + stream * Chain.size + word


class Kept(NamedTuple):
    """What keys keep beyond that, a word for each stream: when (a property of plans), whether snapshots keep it, and
    whether it names a slot: as that + 1, for what a key keeps is 0 at first."""

    name: str
    when: str
    about: str
    saved: bool = True
    kind: type = float
    names: str = ""


# In this order: policies count on their own words, which come first, being where they are (statistics/counts.py).
KEPT_OF_KEYS = (
    Kept("worth", "valued", "arrivals weighted by output value"),
    Kept("filed", "credits_by_key", "the gains that are filed (levels.py)"),
    Kept("root", "credits_by_key", "the root of the heap of credits, as slot + 1", saved=False, names="slot"),
    Kept("brief", "recent", "recent arrivals (policies/auto.py)"),
    Kept("brief_worth", "recent_worths", "and their output value"),
    Kept("came", "releases", "when rows of the key came (release/evidence.py), 0 for never", kind=int),
    Kept("came_time", "clusters_in_time", "the least time of one of them", kind=int),
)


class Node(Record):
    """A node of a tournament: the leaf that wins below it and what it wins with; drifting trees have all words."""

    win = word("the leaf")
    base = real("its base")
    tie = word("its tie")
    ends = real("when it ends", saved=True)
    turn = real("when it begins to fall", saved=True)
    fail = real("until when that stays true")


class Credit(Record):
    """A pool's line of credits: what its levels count, the highest credit given, admissions since they were chosen."""

    low = word(saved=True)
    shift = word(saved=True)
    top = word(saved=True)
    seen = word(saved=True)


class Index(Record):
    """An ordered index's line."""

    stream = word()
    column = word()
    is_float = word()
    used = word("blocks")


class Predicate(Record):
    """A predicate's line."""

    kind = word()
    left = word()
    right = word()
    left_col = word()
    right_col = word()
    is_float = word()
    width = word()
    limit = real()
    dims = word()


class Histogram(Record):
    """A histogram's line; a Fenwick tree follows."""

    low = real("its low end", saved=True)
    step = real("width of a bin", saved=True)
    total = real("what was counted", saved=True)
    is_float = word("whether it holds floats")


RECORDS = (
    Head, Stream, Pool, Directory, Slot, Link, Key, Chain, Node, Credit, Index, Predicate, Histogram,
    Edge, Evidence, Cover, Ordered, Promise, Watched,
)  # fmt: skip
HEAD_SIZE, STREAM_SIZE, POOL_SIZE, DIR_SIZE, INDEX_SIZE = (r.size for r in (Head, Stream, Pool, Directory, Index))
LINK0, LINK_WORDS, PER_STREAM, CREDIT_SIZE, PRED_SIZE = (r.size for r in (Slot, Link, Chain, Credit, Predicate))
KEY_REACH = 1 + PER_STREAM + Chain.tail  # the last word of a key of two streams that a probe reads
STILL_WORDS = Node.ends  # words of a node whose priority stays what it is
NODE_COPIED = Node.fail  # the words of a node that come from the leaf that wins
FREQ = Chain.freq
H_TREE = Histogram.size
# what comes along to a block of another plan
HEAD_ALWAYS, HEAD_SAME, HEAD_LEARNED = (Head.moved(when) for when in ("always", "same", "learned"))
STREAM_ALWAYS, SLOT_ALWAYS = Stream.moved("always"), Slot.moved("always")
EXPIRED, RELEASED, SHED, SAMPLED = Stream.expired, Stream.released, Stream.shed, Stream.sampled  # reasons (reasons.py)
EDGE_SIZE, EVIDENCE_SIZE, COVER_SIZE, ORDERED_SIZE = (r.size for r in (Edge, Evidence, Cover, Ordered))
PROMISE_SIZE, WATCHED_SIZE = Promise.size, Watched.size
STEPS = 128  # of an ordered column, of two words each: arrivals or time, and the largest until then
# what is known of a resident (release/rules.py): from NO on it is No, and VOID if a filter refuses it (sparing.py)
AWAY, UNKNOWN, YES, NO, SPARED, VOID, VOID_SPARED = range(-1, 6)
FORGOTTEN = -1  # what a key knows of a stream's rows once they were deleted (release/evidence.py)
BARE = -2  # the row of payload of a resident without
BY_UNIQUE, BY_INTEGRITY, BY_CLUSTER, BY_ORDER = range(4)
NO_KEY = 0x6A09E667F3BCC908  # the code of rows without a key: as good as any, for such rows are never matched by it
STREAM_BITS = 8  # the low bits of a slot's cost name the stream
STREAM_MASK = (1 << STREAM_BITS) - 1
# what the rule AUTO goes by: recent arrivals instead of all, those of all streams instead of the partners', all
# arrivals beside the recent ones (with BRIEF)
BRIEF, POOLED, MIXED = 1, 2, 4
CHOICE_WORDS = 8  # their combinations
# where a credit starts, and what a match adds to it
START_SHARE, START_TUNED, START_ZERO, START_TOP = range(4)
GAIN_ONE, GAIN_RANK, GAIN_NONE, GAIN_TOP = range(4)
LEVEL_GROUP = 32
LEVELS = LEVEL_GROUP * LEVEL_GROUP
LEVEL_WORDS = LEVEL_GROUP + LEVELS  # counts of groups of levels, then of levels
TRIALS = 13  # initial credits that the tuner knows: the shares 1 - 2 ** -k
# a stream's line of ages: the age up to which its rows pay, matches by age, departures by age
A_LIMIT, A_MATCHES, AGE_BINS = 0, 1, 64
A_GONE, AGE_SIZE = A_MATCHES + AGE_BINS, A_MATCHES + 2 * AGE_BINS
# a stream's line of prospects: what was met and held by class and age, what that is worth, the usual count
PROSPECT_CLASSES, PROSPECT_AGES = 4, 11
PR_MET, PR_HELD, PR_WORTH, PR_USUAL = (k * PROSPECT_CLASSES * PROSPECT_AGES for k in range(4))
PR_SIZE = PR_USUAL + 1
# a block of an ordered index: count, numbers, slots
BLOCK = 128
FILLED = BLOCK * 3 // 4  # what two neighbours hold at least together, so that a block just split is not merged at once
B_COUNT, B_NUMBER, B_SLOT, BLOCK_WORDS = 0, 1, 1 + BLOCK, 1 + 2 * BLOCK
# kinds of predicates, and ways to reach their rows
P_EQUAL, P_BAND, P_DISTANCE, P_LT, P_LE, P_GT, P_GE, P_NE = range(8)
SCAN, HASH, RANGE = range(3)
ACCESS_SIZE = 3  # kind, which, binder
INDEX_STRIDE = 1024  # an access by range names (index, predicate) in one number
BINS = 1024
HIST_SIZE = H_TREE + BINS + 1
LIFE_BINS = 128

# an arriving row's record in a batch: then codes (one per link), then numbers
R_TICK, R_TIME, R_STREAM, R_LIVE, R_ROW, R_COST, R_GAIN, R_SLOT, R_CODES = range(9)

PROBE_ONLY = 2  # in R_LIVE: the row probes but is not stored
REFUSED = -1  # in R_LIVE: a filter refuses the row, and it has a number all the same
DELETES = -2  # R_LIVE at or below: the row deletes the resident that has its number in column DELETES - R_LIVE
LEAVING = -2  # R_SLOT at or below: the row is stored (in slot LEAVING - R_SLOT) until its group ends
UNBIASED = -1.0  # in DROP: the share is found from what is seen

# statistics
STAT_NONE, STAT_ORACLE, STAT_RUNNING, STAT_SKETCH = range(4)
# what a driver says when it comes back
DONE, GROW_SLOTS, GROW_KEYS, GROW_BLOCKS, PRUNE, FULL, PAUSE, DRAIN, BEGIN, RECALL, GROW_FILTER = range(11)
# what is known of a row that was shed: its number, and the next number when it left; why is SHED or SAMPLED
G_STREAM, G_ROW, G_SEQ, G_CLOCK, G_WHY, G_NUMBER, GONE_SIZE = range(7)

# what is known of a row that was demoted: as of one that was shed, and what it needs to be a resident again; then codes
# (one per link), then numbers
D_STREAM, D_ROW, D_TIME, D_SEQ, D_GONE, D_RANK, D_COST, D_GAIN, D_CODES = range(9)
CALLED_SIZE = 3  # of a key under which demoted rows are looked for: stream, directory or NONE, code
CACHED = 1 << 12  # places of a key table: with fewer, all of the state stays in the processor's cache by itself
GROUP_LIMIT = 4096  # rows of one instant that arrive together, at most; fewer in small budgets (Plan.group)
OUT_PAUSE = 1 << 20  # matches after which a driver comes back
GROUPS = 32  # random groups of stored rows from which the interval of recall is estimated
