"""Records of a join that releases by constraints: promises, the join graph, evidence (see kernels/layout.py)."""

from windrow.kernels.records import Record, word


class Edge(Record):
    """A neighbour of a stream in the join graph, seen from the stream (see release/rules.py)."""

    stream = word("the stream")
    other = word("its neighbour")
    directory = word("where partners are found, NONE if nowhere")
    link = word("the stream's link there")
    plain = word("whether equal keys alone make partners")
    child = word("the promise that a row of the stream has at most one partner there, or NONE")
    parent = word("the promise that the neighbour's rows have at most one partner here, or NONE")
    is_exempt = word("whether such a parent finds out by itself that its child does not come")
    first_evidence = word("evidence that no more partners come, from here")
    after_evidence = word("to here")


class Promise(Record):
    """A constraint, declared or found by watching (see release/watch.py)."""

    kind = word("Unique, Integrity, Clustered or Ordered")
    stream = word("whose rows it speaks of; of Integrity the parent")
    other = word("of Integrity the child")
    place = word("of Integrity the word of a slot, of Ordered its line")
    in_time = word("whether k is a time")
    plain = word("whether equal keys alone make the partners it speaks of")
    k = word("arrivals, or a length of time", saved=True)
    is_used = word("whether rows are released by it", saved=True)
    seen = word("the largest distance since it was last looked at", saved=True)
    before = word("the largest of the time before that", saved=True)
    measured = word("distances measured", saved=True)
    violations = word("distances beyond k, while it was used", saved=True)
    since = word("arrivals, of the stream that k counts, when it was last broken", saved=True)
    released = word("rows that were found useless by it, alone or with others", saved=True)
    # of Unique, whether rows that a filter refuses are worth keeping for parents that come later (release/keeping.py)
    kept = word("rows that a filter refused, since that was last decided", saved=True)
    told = word("bytes of parents that met one of them, and were not stored", saved=True)
    is_quiet = word("whether they are let go at once", saved=True)
    asked = word("arrivals of the stream when counting began", saved=True)
    asked_clock = word("the latest time then", saved=True)


class Watched(Record):
    """The promises that rows of a stream tell something about by their key in a directory."""

    unique = word("the promise, or NONE")
    clustered = word("the promise, or NONE")
    first_integrity = word("of those whose children come there, from here")
    after_integrity = word("to here")


class Evidence(Record):
    """What may show that no more partners of a row come on an edge (see release/evidence.py)."""

    promise = word("the constraint")
    which = word("the word of a slot, the line of an ordered column, or the directory of a clustered one")
    column = word("the number of the row that is compared with an ordered column")


class Cover(Record):
    """Edges of a stream whose neighbours reach every stream, by a bit for each, maybe with the stream's own help."""

    edges = word()
    own = word()


class Ordered(Record):
    """A column that comes nearly in order: what it has left behind for good, and steps that wait to become that."""

    promise = word("the constraint")
    stream = word()
    column = word("the number of its rows")
    low = word("no row that is still to come lies below it", saved=True)
    top = word("the largest that has come", saved=True)
    top_time = word("the latest time that has come", saved=True)
    used = word("steps", saved=True)
    forgotten = word("the newest step that was forgotten, or LOW", saved=True)
