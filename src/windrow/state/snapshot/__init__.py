"""A shard as bytes: what of its block is state, how it is written, and how it is built again from that."""
