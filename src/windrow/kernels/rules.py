"""The numbers by which kernels know the policies.

They are written into snapshots, so a number is never given to another policy.
"""

RAND, FIFO, PROB, LIFE, LIFE_EXPECTED, GIVEN, GREEDY_DUAL, AGE, AUTO = range(9)
