"""Lab: streams made to measure, and what is run on them."""
