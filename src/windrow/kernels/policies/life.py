"""LIFE: p * (e - now), how often partners arrive times the time that is left until the row expires at e.

The product is the tournament's (tournament.py): a leaf has p as its base and e as its end, and drifts with the clock.
"""

BASE = "counting"
DRIFTING = True
