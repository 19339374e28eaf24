"""No policy: an exact join, or one that stops when its memory is full. Nothing is kept, learned or ranked."""

BASE = "policy"
