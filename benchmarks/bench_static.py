"""The optimal truncated join against the published dynamic programme, both in kernels, on the same histograms.

50,000 rows a side, 1,000 keys, 5,000 rows kept, Zipf sizes of skew z; the sides are correlated (the same keys are
frequent on both) or not. Contestants take turns, and their matches are asserted to be the same. Further below: hard
shapes, where bounds are loose, and budgets by side, where the answer may be a bracket.
"""

import argparse

import numpy as np
from harness import Contestant, race, save, show

from windrow.offline.truncation import adg, optimal, plain
from windrow.offline.truncation_sides import ndg, optimal_sides

ROWS, KEYS, KEEP = 50_000, 1_000, 5_000
SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
TARGET_SPEED, TARGET_ADG = 50, 0.995


def zipf(rng: np.random.Generator, z: float, shuffled: bool) -> np.ndarray:
    share = 1 / np.arange(1, KEYS + 1) ** z
    return rng.multinomial(ROWS, rng.permutation(share / share.sum()) if shuffled else share / share.sum())


def hard(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    pairs = np.divmod(np.arange(1024), 32)
    near = rng.integers(45, 56, (2, KEYS))
    squares = 2 * np.arange(1, 151)
    return {
        "K(2, n), n up to 200": (np.full(KEYS, 2), rng.integers(1, 200, KEYS)),
        "all K(m, n) up to 32": (pairs[0] + 1, pairs[1] + 1),
        "nearly equal, about K(50, 50)": (near[0], near[1]),
        "even squares": (squares, squares),
    }


def compared(name: str, m: np.ndarray, n: np.ndarray, keep: int, rounds: int) -> dict[str, object]:
    works = {"plain": plain, "optimal": optimal, "adg": adg}
    timings = race({k: Contestant(lambda _, f=f: f(m, n, keep)) for k, f in works.items()}, rounds)
    found = {k: t.result.matches for k, t in timings.items()}
    assert found["plain"] == found["optimal"] >= found["adg"], f"{name}: {found}"
    seconds = {k: t.median for k, t in timings.items()}
    return {
        "name": name, "keep": keep, "matches": found["optimal"], "seconds": seconds,
        "times_plain": seconds["plain"] / seconds["optimal"], "adg_share": found["adg"] / found["optimal"],
    }  # fmt: skip


def by_side(name: str, m: np.ndarray, n: np.ndarray) -> dict[str, object]:
    best = optimal_sides(m, n, KEEP // 2, KEEP // 2)
    greedy = ndg(m, n, KEEP // 2, KEEP // 2)
    gap = 0.0 if best.proved else best.bound / best.matches - 1
    return {"name": name, "proved": best.proved, "gap": gap, "ndg_share": greedy.matches / best.matches}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(1)
    pairs = {
        f"z = {z:g}, {'' if correlated else 'un'}correlated": (zipf(rng, z, False), zipf(rng, z, not correlated))
        for correlated in (False, True)
        for z in SKEWS
    }
    zipfs = [compared(name, m, n, KEEP, rounds) for name, (m, n) in pairs.items()]
    hards = [compared(name, m, n, KEEP + 1, rounds) for name, (m, n) in hard(rng).items()]
    for title, lines in (("Zipf sizes", zipfs), ("hard shapes", hards)):
        show(
            f"{title}: optimal against the published programme",
            ("", "plain ms", "optimal ms", "times as fast", "ADG / optimal"),
            [
                (
                    x["name"],
                    *(1e3 * x["seconds"][w] for w in ("plain", "optimal")),
                    x["times_plain"],
                    f"{x['adg_share']:.5f}",
                )
                for x in lines
            ],
        )
    sides = [by_side(name, m, n) for name, (m, n) in pairs.items() if name[4] in "0123" and name[5] == ","]
    show(
        f"budgets by side, {KEEP // 2:,} each",
        ("", "proved", "at most below the best", "NDG / found"),
        [(x["name"], str(x["proved"]), f"{x['gap']:.3%}", f"{x['ndg_share']:.4f}") for x in sides],
    )
    slowest, worst = min(x["times_plain"] for x in zipfs), min(x["adg_share"] for x in zipfs)
    print(f"\nleast {slowest:.0f} times as fast (aim {TARGET_SPEED}); ADG at least {worst:.4f} (aim {TARGET_ADG})")
    print(f"wrote {save('static', {'zipf': zipfs, 'hard': hards, 'sides': sides})}")


if __name__ == "__main__":
    main()
