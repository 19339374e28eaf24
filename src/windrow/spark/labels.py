"""Labels: the numbers by which Spark groups shards."""


def labels(shards: int) -> list[int]:
    """Shard numbers to group by: Spark's own hash spreads them evenly over as many partitions as there are shards."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < shards:
        found.setdefault(spark_hash(candidate) % shards, candidate)
        candidate += 1
    return [found[k] for k in range(shards)]


def spark_hash(number: int) -> int:
    """Spark's hash of a 32-bit integer (Murmur3 with seed 42), signed."""
    mask = 0xFFFFFFFF
    k = _rotl(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (_rotl(42 ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _rotl(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF
