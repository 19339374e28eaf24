"""The picture of an analysis: popularity, hit rates, gaps and ages, each against what a random order would show."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from windrow.analysis import Analysis
from windrow.lab import pictures

_COLOURS = {"left": "#0072b2", "right": "#d55e00"}
_INK, _SOFT = "#222222", "#8a8a8a"


def draw(found: Analysis, path: Path, title: str) -> None:
    """Draw an analysis as four panels."""
    pictures.check(path)
    figure = pictures.canvas(9.0, 7.6)
    (first, second), (third, fourth) = figure.subplots(2, 2)
    _popularity(first, found)
    _hits(second, found)
    _gaps(third, found)
    _ages(fourth, found)
    for axes in (first, second, third, fourth):
        axes.set_xscale("log")
        axes.grid(color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK, labelsize=8)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=_INK)
    figure.supxlabel(fill(found.advice.text, 150), x=0.01, ha="left", fontsize=7.5, color=_SOFT)
    pictures.write(figure, path)


def _entitle(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=9.5, color=_INK)
    axes.set_xlabel(x, fontsize=8.5, color=_INK)
    axes.set_ylabel(y, fontsize=8.5, color=_INK)


def _popularity(axes: Any, found: Analysis) -> None:
    for stream in found.streams:
        popular = stream.popularity
        ranks = np.arange(1, popular.keys + 1)
        error = f" ± {popular.error:.3f}" if popular.error is not None else ""
        label = f"{stream.name}: slope {popular.slope:.3f}{error}"
        axes.plot(ranks, popular.frequencies, color=_COLOURS[stream.name], linewidth=1.5, label=label)
        line = np.exp(np.log(popular.frequencies).mean() + popular.slope * np.log(ranks).mean())
        axes.plot(ranks, line * ranks**-popular.slope, color=_COLOURS[stream.name], linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    _entitle(axes, "Popularity", "rank of a key", "rows of the key")


def _hits(axes: Any, found: Analysis) -> None:
    for stream in found.streams:
        stack, colour = stream.stack, _COLOURS[stream.name]
        axes.plot(stack.capacities, stack.hits, color=colour, linewidth=1.5, label=stream.name)
        random = {"color": colour, "linewidth": 1.2, "linestyle": "--", "label": f"{stream.name}, random order"}
        axes.plot(stack.capacities, stack.hits_permuted, **random)
    axes.set_ylim(0, 1.02)
    _entitle(axes, "Stack distance: hit rate of the last C keys", "C, keys", "share of rows")


def _gaps(axes: Any, found: Analysis) -> None:
    """Medians with the middle four fifths; the two streams and their random orders stand beside each other."""
    for s, stream in enumerate(found.streams):
        colour, classes = _COLOURS[stream.name], stream.gaps.classes
        for permuted in (False, True):
            spreads = [c.permuted if permuted else c.gaps for c in classes]
            x = [c.least * 1.15 ** (2 * s + permuted) for c in classes]
            y = [part.median for part in spreads]
            ends = [[part.median - part.p10 for part in spreads], [part.p90 - part.median for part in spreads]]
            style = {"fmt": "o" if permuted else "D", "markersize": 4, "mfc": "white" if permuted else colour}
            label = f"{stream.name}, random order" if permuted else stream.name
            axes.errorbar(x, y, ends, color=colour, alpha=0.6 if permuted else 1.0, capsize=2, label=label, **style)
    axes.set_yscale("log")
    _entitle(axes, "Gaps between rows of a key (median, 10 % to 90 %)", "rows of the key, at least", "gap, rows")


def _ages(axes: Any, found: Analysis) -> None:
    for stream in found.streams:
        ages, colour = stream.ages, _COLOURS[stream.name]
        if ages.pooled is None:
            continue
        values = np.sort(ages.values)
        axes.step(values, np.arange(1, len(values) + 1) / len(values), where="post", color=colour, label=stream.name)
        axes.axvline(ages.pooled, color=colour, linewidth=1.0, linestyle=":", label=f"{stream.name}, all rows as one")
    axes.set_ylim(0, 1.02)
    _entitle(axes, "Best age k_opt of each key", "age, rows of the stream waited for", "share of keys")
