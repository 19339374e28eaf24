"""Streams born at several places, joined with few bytes between them: programs, plans, links, grounds."""

from windrow.sites.links import Link, Links
from windrow.sites.plans import Branch, Leg, Plan
from windrow.sites.simulated import Simulation, simulate

__all__ = ["Branch", "Leg", "Link", "Links", "Plan", "Simulation", "simulate"]
