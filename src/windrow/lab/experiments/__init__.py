"""The papers' experiments, one file for each figure or table; a file that is put here is found by itself."""
