"""The policy `auto`: what it can go by, and the trials in which it finds out what serves best."""
