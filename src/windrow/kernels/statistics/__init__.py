"""What statistics learn from arrivals: how often keys arrive, and which values."""
