"""Quality: what an approximate result has lost against the exact one.

`measures` holds the set measures, `distance` those that need a distance between rows, `distortion` those of how keys
spread; `compared` takes the first two at once. Below them, `multiset` counts the rows of two tables side by side, and
`transport` solves the assignment problems behind the distances.
"""
