"""Hashing: 64-bit codes of keys, and random numbers that are a function of a seed and a counter.

Everything here is a pure function of its arguments on every machine: codes are stored in snapshots, and the
replay of a batch must draw the same random numbers. Words are read byte by byte in little-endian order (the
compiler joins the eight reads into one), so neither alignment nor byte order of the machine matters.

A code is either *exact* or a *hash*. `mix64` is a bijection of 64-bit words, so the code of a 64-bit value is
exact: two values are equal if and only if their codes are. `hash_bytes` and `hash_words` are hashes; they are
made for speed and spread, not against an attacker who chooses the keys.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from windrow.kernels.jit import entry, inline

Words = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: the step of the splitmix64 sequence
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0xD6E8FEB86659FD93)  # an odd word with evenly spread bits: the multiplier per eight bytes
_NAN = np.uint64(0x7FF8000000000000)  # the one NaN that every NaN becomes
_LOW_HALF = np.uint64(0xFFFFFFFF)


@entry
def mix64(word: Any) -> Any:
    """The word with its bits mixed: a bijection, in which every bit touches every other (as in
    splitmix64)."""
    word = np.uint64(word)
    word = (word ^ (word >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return word ^ (word >> np.uint64(31))


@entry
def high64(a: Any, b: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two words, put together from four 32-bit products."""
    a = np.uint64(a)
    b = np.uint64(b)
    half = np.uint64(32)
    a_low, a_high = a & _LOW_HALF, a >> half
    b_low, b_high = b & _LOW_HALF, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> half) + (carry >> half)


@entry
def random64(seed: Any, counter: Any) -> Any:
    """The counter-th random word of a seed: no state but the counter, which the caller keeps and advances."""
    start = mix64(np.uint64(seed) + GOLDEN)
    return mix64(start + (np.uint64(counter) + np.uint64(1)) * GOLDEN)


@entry
def random_below(seed: Any, counter: Any, n: Any) -> Any:
    """The counter-th random integer in [0, n) of a seed, for n >= 1.

    The random word is scaled, floor(word * n / 2**64). No draw is ever rejected, so that one number costs
    exactly one counter; the price is that some results are likelier than others by a factor of at most 1 + n
    / 2**64.
    """
    return np.int64(high64(random64(seed, counter), n))


@inline
def row_word(seed: Any, seq: int) -> Any:
    """A word that decides about a row, from the seed and its sequence number."""
    return mix64(np.uint64(seq) + mix64(np.uint64(seed) ^ np.uint64(0xA5A5A5A5A5A5A5A5)))


@inline
def in_sample(word: Any, share: float) -> bool:
    """Whether a row belongs to a sample of some share; smaller samples lie inside larger ones."""
    return bool(np.float64(word >> np.uint64(11)) < share * 9007199254740992.0)


@entry
def mix_words(words: Words, out: Words) -> None:
    """Exact codes of 64-bit values: out[i] = mix64(words[i])."""
    for i in range(words.size):
        out[i] = mix64(words[i])


@entry
def mix_floats(floats: NDArray[np.float64], words: Words, out: Words) -> None:
    """Exact codes of floats under Spark's equality: -0.0 is 0.0 and every NaN is one value.

    `words` holds the same memory as `floats`, seen as bits.
    """
    for i in range(floats.size):
        value = floats[i]
        word = words[i]
        if value == 0.0:
            word = np.uint64(0)
        elif value != value:
            word = _NAN
        out[i] = mix64(word)


@entry
def hash_words(words: Words, width: int, out: Words) -> None:
    """Hashes of rows of `width` 64-bit words each, lying one after the other in `words`."""
    for i in range(out.size):
        state = np.uint64(width) * GOLDEN
        for j in range(i * width, (i + 1) * width):
            state = _absorb(state, words[j])
        out[i] = mix64(state)


@entry
def hash_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], out: Words) -> None:
    """Hashes of byte strings: row i is data[offsets[i]:offsets[i + 1]], offsets of 32 or 64 bits.

    Eight bytes a step; the last step reads the last eight bytes again where the length is no multiple of
    eight, which is unambiguous because the length starts the state.
    """
    eight = np.uint64(8)
    for i in range(out.size):
        # Unsigned positions: a signed index would cost a test for negative ones at every read.
        at = np.uint64(offsets[i])
        end = np.uint64(offsets[i + 1])
        length = end - at
        state = length * GOLDEN
        if length >= eight:
            last = end - eight
            while at < last:
                state = _absorb(state, _word(data, at))
                at += eight
            state = _absorb(state, _word(data, last))
        elif length > np.uint64(0):
            state = _absorb(state, _short_word(data, at, length))
        out[i] = mix64(state)


@entry
def combine(codes: Words, more: Words) -> None:
    """Codes of a longer key: each code takes in the code of the key's next column, in place and by order."""
    for i in range(codes.size):
        codes[i] = mix64(codes[i] * GOLDEN + more[i])


@entry
def _absorb(state: Any, word: Any) -> Any:
    """The state after one more word: a bijection of either argument while the other is held."""
    state = (state ^ word) * _STEP
    return state ^ (state >> np.uint64(32))


@entry
def _word(data: NDArray[np.uint8], at: Any) -> Any:
    """The eight bytes from a position on, as a little-endian word."""
    return _half(data, at) | (_half(data, at + np.uint64(4)) << np.uint64(32))


@entry
def _half(data: NDArray[np.uint8], at: Any) -> Any:
    """The four bytes from a position on, as a little-endian word."""
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + np.uint64(1)]) << np.uint64(8))
        | (np.uint64(data[at + np.uint64(2)]) << np.uint64(16))
        | (np.uint64(data[at + np.uint64(3)]) << np.uint64(24))
    )


@entry
def _short_word(data: NDArray[np.uint8], at: Any, length: Any) -> Any:
    """The 1 to 7 bytes from a position on as one word: another word for other bytes of equal length."""
    four = np.uint64(4)
    if length >= four:
        return _half(data, at) | (_half(data, at + length - four) << np.uint64(32))
    middle = at + (length >> np.uint64(1))
    last = at + length - np.uint64(1)
    return np.uint64(data[at]) | (np.uint64(data[middle]) << np.uint64(8)) | (np.uint64(data[last]) << np.uint64(16))
