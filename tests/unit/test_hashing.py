"""Can catch: a kernel that differs from its formula, reads past its bytes, loses keys, or draws unevenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.kernels import hashing

WORD = 2**64 - 1
GOLDEN = int(hashing.GOLDEN)
words = st.integers(0, WORD)


# The slow, obvious twins: Python's integers, cut to 64 bits.


def mix(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def absorb(state, word):
    state = ((state ^ word) * 0xD6E8FEB86659FD93) & WORD
    return state ^ (state >> 32)


def hash_of(text):
    state = (len(text) * GOLDEN) & WORD
    if len(text) >= 8:
        steps = [*range(0, len(text) - 8, 8), len(text) - 8]
        parts = [int.from_bytes(text[i : i + 8], "little") for i in steps]
    elif len(text) >= 4:
        parts = [int.from_bytes(text[:4] + text[-4:], "little")]
    elif text:
        parts = [int.from_bytes([text[0], text[len(text) // 2], text[-1]], "little")]
    else:
        parts = []
    for part in parts:
        state = absorb(state, part)
    return mix(state)


def array(values):
    return np.array(values, dtype=np.uint64)


def hashes(texts, item=np.int32, around=b""):
    ends = np.cumsum([len(around), *map(len, texts)]).astype(item)
    data = np.frombuffer(around + b"".join(texts) + around, dtype=np.uint8)
    out = np.empty(len(texts), dtype=np.uint64)
    hashing.hash_bytes(data, ends, out)
    return out.tolist()


@given(words)
def test_mix64_is_its_formula(word):
    assert int(hashing.mix64(np.uint64(word))) == mix(word)


def test_mix64_is_splitmix64():
    # The first three outputs of the splitmix64 generator with seed 1234567, as published with it.
    state = [(1234567 + i * GOLDEN) & WORD for i in (1, 2, 3)]
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(hashing.mix64(np.uint64(s))) for s in state] == expected


def unmix(word):
    """The inverse of mix64: that it has one is what makes codes exact."""
    word = word ^ (word >> 31) ^ (word >> 62)
    word = (word * pow(0x94D049BB133111EB, -1, 2**64)) & WORD
    word = word ^ (word >> 27) ^ (word >> 54)
    word = (word * pow(0xBF58476D1CE4E5B9, -1, 2**64)) & WORD
    return word ^ (word >> 30) ^ (word >> 60)


@given(words)
def test_mix64_has_an_inverse(word):
    assert unmix(int(hashing.mix64(np.uint64(word)))) == word


@given(st.lists(words, max_size=20))
def test_mix_words(values):
    out = np.empty(len(values), dtype=np.uint64)
    hashing.mix_words(array(values), out)
    assert out.tolist() == [mix(v) for v in values]


@given(st.lists(words, max_size=20))
def test_mix_floats_joins_zeros_and_nans_and_nothing_else(values):
    values = [*values, 0, 1 << 63, 0x7FF8000000000001, 0xFFF0000000000123]
    bits = array(values)
    floats = bits.view(np.float64)
    out = np.empty(len(values), dtype=np.uint64)
    hashing.mix_floats(floats, bits, out)
    nan = 0x7FF8000000000000
    plain = [0 if f == 0 else nan if np.isnan(f) else v for f, v in zip(floats, values, strict=True)]
    assert out.tolist() == [mix(v) for v in plain]


@given(st.lists(st.binary(max_size=40)), st.sampled_from([np.int32, np.int64]), st.binary(max_size=9))
def test_hash_bytes_is_its_formula_whatever_the_offsets_and_the_bytes_around(texts, item, around):
    assert hashes(texts, item, around) == [hash_of(text) for text in texts]


def test_hash_bytes_tells_all_short_texts_apart():
    pairs = {bytes([a, b]) for a in range(64) for b in range(64)}
    texts = sorted(pairs | {bytes([a]) * n for a in range(256) for n in range(20)})
    assert len(set(hashes(texts))) == len(texts)


def test_hash_bytes_changes_with_every_bit():
    base = bytes(range(27))
    seen = {hash_of(base)}
    for bit in range(8 * len(base)):
        flipped = bytearray(base)
        flipped[bit // 8] ^= 1 << (bit % 8)
        seen.update(hashes([bytes(flipped)]))
    assert len(seen) == 8 * len(base) + 1


@pytest.mark.parametrize("shift", [0, 48])
def test_hashes_of_numbered_texts_spread_over_low_and_high_bits(shift):
    # A hash table takes either end of the code; 2**16 cells and as many texts leave 1/e of the cells empty.
    codes = array(hashes([f"user-{i}".encode() for i in range(2**16)]))
    cells = np.unique((codes >> np.uint64(shift)) & np.uint64(0xFFFF)).size
    assert abs(cells / 2**16 - (1 - np.exp(-1))) < 0.01


@given(st.lists(words, min_size=8, max_size=8), st.sampled_from([1, 2, 4]))
def test_hash_words_is_its_formula(values, width):
    out = np.empty(len(values) // width, dtype=np.uint64)
    hashing.hash_words(array(values), width, out)
    for i, code in enumerate(out.tolist()):
        state = (width * GOLDEN) & WORD
        for word in values[i * width : (i + 1) * width]:
            state = absorb(state, word)
        assert code == mix(state)


@given(words, words)
def test_combine_is_its_formula_and_knows_the_order(a, b):
    codes = array([a, b])
    hashing.combine(codes, array([b, a]))
    assert codes.tolist() == [mix((a * GOLDEN + b) & WORD), mix((b * GOLDEN + a) & WORD)]
    assert (codes[0] == codes[1]) == (a == b)


@given(words, words)
def test_high64_is_the_upper_half_of_the_product(a, b):
    assert int(hashing.high64(np.uint64(a), np.uint64(b))) == (a * b) >> 64


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_random_below_is_a_function_of_seed_and_counter(seed, counter, n):
    start = mix((seed + GOLDEN) & WORD)
    word = mix((start + (counter + 1) * GOLDEN) & WORD)
    assert hashing.random_below(seed, counter, n) == (word * n) >> 64


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_random_below_is_even(n):
    draws = np.bincount([hashing.random_below(42, i, n) for i in range(20_000)], minlength=n)
    assert draws.size == n
    # Chi-square with n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1); five deviations are a failure.
    chi_square = float(((draws - 20_000 / n) ** 2 / (20_000 / n)).sum())
    assert chi_square <= n - 1 + 5 * np.sqrt(2 * n)


def test_random_below_differs_between_seeds():
    a, b = ([hashing.random_below(seed, i, 1000) for i in range(200)] for seed in (1, 2))
    assert sum(x == y for x, y in zip(a, b, strict=True)) < 10
