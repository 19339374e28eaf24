"""Streams born at several places, joined with few bytes between them: programs, plans, links, grounds."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windrow.sites.council import Replan
from windrow.sites.figures import Figures
from windrow.sites.links import Link, Links
from windrow.sites.planning import Planned, plan
from windrow.sites.plans import Branch, Leg, Plan
from windrow.sites.simulated import Simulation, simulate

if TYPE_CHECKING:
    from windrow.sites.ground.description import describe
    from windrow.sites.ground.handing import end, feed
    from windrow.sites.ground.results import results
    from windrow.sites.ground.serving import serve
    from windrow.sites.ground.status import status

__all__ = [
    "Branch", "Figures", "Leg", "Link", "Links", "Plan", "Planned", "Replan", "Simulation", "plan", "simulate",
    "describe", "end", "feed", "results", "serve", "status",
]  # fmt: skip

_GROUND = {"describe": "description", "end": "handing", "feed": "handing"}  # Flight is loaded when it is used
_GROUND |= {"results": "results", "serve": "serving", "status": "status"}


def __getattr__(name: str) -> Any:
    if name in _GROUND:
        return getattr(import_module(f"windrow.sites.ground.{_GROUND[name]}"), name)
    raise AttributeError(f"module 'windrow.sites' has no attribute {name!r}")
