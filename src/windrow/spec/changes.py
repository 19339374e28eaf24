"""Changes: what differs between a query of which there is state and the one that is to go on from it."""

import json
from collections.abc import Mapping
from typing import Any

from windrow.spec.query import Query

LONGEST = 120  # letters of a value that are shown


def query_changes(old: Query, new: Query) -> list[str]:
    """What may not differ and does, one text for each: "seed was 0 and is now 1"."""
    before, after = old.fixed(), new.fixed()
    found = changes(before, after)
    if before["on"] != after["on"] and not (old.named or new.named):  # predicates read better than their JSON
        found = [text for text in found if not text.startswith("on was ")]
        shown = ([str(predicate) for predicate in query.on] for query in (old, new))
        found += changes({"on": next(shown)}, {"on": next(shown)})
    return found


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two sets of named JSON values."""
    names = [*old, *(name for name in new if name not in old)]
    differing = [name for name in names if old.get(name) != new.get(name)]
    return [f"{name} was {_shown(old.get(name))} and is now {_shown(new.get(name))}" for name in differing]


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
