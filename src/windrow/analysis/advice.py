"""Advice: which policy to take, as the trials say, and which figures of the streams explain it."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.analysis.locality import Locality
from windrow.analysis.pairs import Clustering, Pair
from windrow.analysis.trials import Trial, Trials
from windrow.policies import Policy
from windrow.statistics import Decayed

ALIKE = 0.01  # a simpler candidate that keeps so little less than the best is as good


@dataclass(frozen=True)
class Advice:
    """What to do, in words and as a policy; `options` say the same to `windrow join`. None where nothing matches."""

    text: str
    policy: Policy | None
    options: str | None


def advice(tried: Trials, clusters: Clustering, streams: tuple[Locality, ...], pair: Pair) -> Advice:
    """The simplest candidate that is as good as the best, with the reason."""
    winner = tried.winner
    if winner is None:
        text = f"In windows of {pair.window:,} rows nothing matches: no policy can be better than another."
        return Advice(f"{text} Try a larger window.", None, None)
    chosen = next(trial for trial in tried.all if trial.matched >= (1 - ALIKE) * winner.matched)
    reason = _reason(chosen, tried, clusters, streams)
    text = f"Use {_told(chosen, pair)}: {_measured(chosen, winner, tried)}. {reason}."
    return Advice(text, chosen.policy, _options(chosen.policy))


def _half_life(policy: Policy) -> int | None:
    statistics = getattr(policy, "statistics", None)
    return statistics.half_life if isinstance(statistics, Decayed) else None


def _options(policy: Policy) -> str:
    half_life = _half_life(policy)
    return f"--policy {policy.name}" + (f" --statistics decayed:half_life={half_life}" if half_life else "")


def _told(chosen: Trial, pair: Pair) -> str:
    half_life = _half_life(chosen.policy)
    if half_life is None:
        return {"prob": "prob with running counts"}.get(chosen.policy.name, chosen.policy.name)
    part = round(pair.arrivals / half_life)
    share = "all" if part <= 1 else f"1/{part}"
    return f"prob with decayed counts and a half-life of {half_life:,} arrivals ({share} of what comes during a window)"


def _measured(chosen: Trial, winner: Trial, tried: Trials) -> str:
    """What the trials say, with the best of the other kinds beside it."""
    best: dict[str, Trial] = {}
    for trial in sorted(tried.all, key=lambda trial: -trial.matched):
        best.setdefault(_kind(trial), trial)
    others = [trial for kind, trial in best.items() if kind != _kind(chosen)]
    beside = f" (less than 1% short of the best: {winner.label})" if chosen is not winner else ""
    return (
        f"in the first {tried.arrivals:,} rows, with a memory of {tried.memory:,} rows (20% of what is needed), it "
        f"kept {chosen.recall:.1%} of the matches{beside}, {', '.join(f'{t.label} {t.recall:.1%}' for t in others)}"
    )


def _kind(trial: Trial) -> str:
    """Candidates that differ in their half-life only are of one kind."""
    return "prob, decayed" if _half_life(trial.policy) else trial.label


def _reason(chosen: Trial, tried: Trials, clusters: Clustering, streams: tuple[Locality, ...]) -> str:
    """The figures that go with it."""
    told = []
    if clusters.j is not None:
        told.append(f"matches come {clusters.j:.2f} times as often as popularity alone would bring them (J)")
    stack = streams[0].stack
    if stack.found is not None and stack.permuted is not None:
        told.append(
            f"half of the keys that come again do so within {stack.found.median:,.0f} other keys, "
            f"{stack.permuted.median:,.0f} in a random order"
        )
    told.append(f"popularity falls as rank^-{streams[0].popularity.slope:.2f}")
    return f"{_meaning(chosen, tried)}: {'; '.join(told)}"


def _meaning(chosen: Trial, tried: Trials) -> str:
    """What the choice says about the streams."""
    if _half_life(chosen.policy) or chosen.policy.name == "gdj":
        return "Who came lately tells more than who came often"
    if chosen.policy.name != "prob":
        return "Counting keys does not pay here"
    recent = max(trial.matched for trial in tried.all if _half_life(trial.policy))
    more = recent < (1 - ALIKE) * chosen.matched
    return f"Who came often tells {'more than' if more else 'as much as'} who came lately"
