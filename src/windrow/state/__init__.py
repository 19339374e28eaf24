"""State: the memory of one shard, from Arrow columns to codes, slots, payloads and snapshots."""
