"""FIFO: of a pool, the oldest resident is shed, which is what the hooks do by themselves."""

BASE = "policy"
