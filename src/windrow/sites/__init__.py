"""Streams born at several places, joined with few bytes between them: programs, plans, links, grounds."""

from windrow.sites.figures import Figures
from windrow.sites.links import Link, Links
from windrow.sites.planning import Planned, plan
from windrow.sites.plans import Branch, Leg, Plan
from windrow.sites.simulated import Simulation, simulate

__all__ = ["Branch", "Figures", "Leg", "Link", "Links", "Plan", "Planned", "Simulation", "plan", "simulate"]
