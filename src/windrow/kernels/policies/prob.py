"""PROB: p, how often partners arrive (weighted by the output value to expect, where there is one).

The formula is that of all policies that count (counting.py), and priorities do not move with the clock.
"""

BASE = "counting"
