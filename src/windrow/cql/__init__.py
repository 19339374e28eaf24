"""Query text: `windrow.cql(text)` reads it, `explain` says what it does, and `run` runs it over whole tables.

The room is called as the function that it is for, so the module itself can be called: `windrow.cql("Select ...")`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from windrow.cql.program import Cql
from windrow.cql.results import CqlResult

__all__ = ["Cql", "CqlResult"]


class _CallableModule(ModuleType):
    def __call__(self, text: str) -> Cql:
        return Cql(text)


sys.modules[__name__].__class__ = _CallableModule
