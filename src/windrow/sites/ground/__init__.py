"""The real ground: a process at each place, which talks to the others over Arrow Flight and forgets nothing."""
