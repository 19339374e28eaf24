"""Pictures: what the lab measures, drawn with matplotlib.

Colours are those of Okabe and Ito, which people with any kind of colour vision tell apart; every line also
has a marker of its own and its name beside it, so that no legend has to be matched by colour.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any

from windrow.errors import InputError, MissingDependency
from windrow.lab.figures import Mean

ENDINGS = (".png", ".svg", ".pdf")

Curve = Sequence[tuple[float, float]]

# colours and markers, in the order of the lines
_STYLES = (
    ("#6b6b6b", "o"), ("#e69f00", "s"), ("#0072b2", "D"), ("#009e73", "^"),
    ("#cc79a7", "v"), ("#d55e00", "P"), ("#56b4e9", "X"), ("#000000", "*"),
)  # fmt: skip
# lines that stand in many pictures look the same in all of them; a V at the end is the same, dashed
_KNOWN = {
    "EXACT": ("#000000", ""), "OPT": ("#d55e00", "P"), "PROB": ("#0072b2", "D"), "LIFE": ("#009e73", "^"),
    "LIFE-EXPECTED": ("#cc79a7", "v"), "PROB online": ("#56b4e9", "X"), "RAND": ("#6b6b6b", "o"),
}  # fmt: skip
_LABEL_GAP = 0.062  # between two names, as a share of the axis
_INK, _SOFT = "#222222", "#8a8a8a"


def check(path: Path) -> None:
    """Refuse what could not be drawn or written, before any work is done."""
    _figure_class()
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: the name does not say which picture this is; known endings are {', '.join(ENDINGS)}")
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the directory {path.parent} does not exist; make it first")


def canvas(width: float, height: float) -> Any:
    """An empty figure, in inches."""
    return _figure_class()(figsize=(width, height), dpi=120, layout="constrained")


def write(figure: Any, path: Path) -> None:
    """Write a figure; the file is there as a whole or not at all."""
    check(path)
    _save(figure, path)


def recall_against_memory(curves: Mapping[str, Curve], path: Path, headline: str, note: str) -> None:
    """Draw recall over memory, a line for each policy; the file is there as a whole or not at all."""
    check(path)
    figure = _figure_class()(figsize=(8.0, 5.2), dpi=160, layout="constrained")
    axes = figure.subplots()
    for (name, curve), (colour, marker) in zip(curves.items(), cycle(_STYLES), strict=False):
        x, y = ([point[i] for point in curve] for i in (0, 1))
        axes.plot(x, y, color=colour, marker=marker, markersize=5.5, linewidth=1.8, label=name)
    _label(axes, curves)
    _furnish(axes, curves)
    figure.suptitle("Recall against memory", x=0.02, ha="left", fontsize=14, fontweight="bold", color=_INK)
    axes.set_title(fill(headline, 95), x=-0.079, ha="left", fontsize=9.5, color=_INK, pad=10)
    figure.supxlabel(note, x=0.02, ha="left", fontsize=8, color=_SOFT)
    _save(figure, path)


@dataclass(frozen=True)
class Panel:
    """One part of an experiment's picture: lines of means, with their intervals as bands."""

    title: str
    x: str
    y: str
    curves: Mapping[str, Sequence[tuple[float, Mean]]]
    log_x: bool = False
    log_y: bool = False
    percent: bool = False


def panels(parts: Sequence[Panel], path: Path, title: str, note: str) -> None:
    """Draw the panels of an experiment beside each other, at most three in a row, with one legend below them."""
    check(path)
    columns = min(3, len(parts)) if len(parts) != 4 else 2
    down = -(-len(parts) // columns)
    size = (max(3.6 * columns, 5.0), 2.9 * down + 0.9)
    figure = _figure_class()(figsize=size, dpi=80, layout="constrained")
    places = list(figure.subplots(down, columns, squeeze=False).flat)
    names = list(dict.fromkeys(name for part in parts for name in part.curves))
    styles = _styles(names)
    lines: dict[str, Any] = dict.fromkeys(names)
    for axes, part in zip(places, parts, strict=False):
        lines |= _panel(axes, part, styles)
    for axes in places[len(parts) :]:
        axes.set_axis_off()
    figure.suptitle(fill(title, int(size[0] * 10)), x=0.01, ha="left", fontsize=11, fontweight="bold", color=_INK)
    text = fill(note, int(size[0] * 17))
    bottom = (0.14 * (text.count("\n") + 1) + 0.1) / size[1]  # inches of small print, as a share of the height
    figure.text(0.01, 0.06 / size[1], text, fontsize=7.5, color=_SOFT)
    beside = max(1, min(len(lines), 7, int(size[0] / (0.07 * max(map(len, names)) + 0.5))))  # names, in inches
    legend = {"loc": "lower center", "ncols": beside, "frameon": False, "fontsize": 8, "columnspacing": 1.2}
    figure.legend(list(lines.values()), list(lines), bbox_to_anchor=(0.5, bottom), **legend)
    bottom += (0.14 + 0.16 * -(-len(lines) // beside)) / size[1]
    figure.get_layout_engine().set(rect=(0, bottom, 1, 1 - bottom))
    _save(figure, path, colours=128)


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each line looks: known ones as everywhere, others in the colours that are left."""
    taken = {_KNOWN[name.removesuffix("V")][0] for name in names if name.removesuffix("V") in _KNOWN}
    spare = cycle([style for style in _STYLES if style[0] not in taken] or _STYLES)
    found = {}
    for name in names:
        colour, marker = _KNOWN.get(name.removesuffix("V")) or next(spare)
        found[name] = {"color": colour, "marker": marker, "linestyle": "--" if name.endswith("V") else "-"}
    return found


def _panel(axes: Any, part: Panel, styles: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    axes.set_xscale("log" if part.log_x else "linear")
    axes.set_yscale("log" if part.log_y else "linear")
    lines = {}
    for name, curve in part.curves.items():
        x, y = [at for at, _ in curve], [found for _, found in curve]
        style = dict(styles[name])
        if len(x) > 15:
            style["marker"] = ""
        (lines[name],) = axes.plot(x, [found.value for found in y], markersize=4, linewidth=1.5, **style)
    axes.autoscale_view()
    axes.autoscale(False)  # the lines say what is shown: a band that few runs leave wide is cut
    for name, curve in part.curves.items():
        ends = [found.low for _, found in curve], [found.high for _, found in curve]
        axes.fill_between([x for x, _ in curve], *ends, color=styles[name]["color"], alpha=0.15, linewidth=0)
    axes.set_title(part.title, loc="left", fontsize=9.5, color=_INK)
    axes.set_xlabel(part.x, fontsize=8.5, color=_INK)
    axes.set_ylabel(part.y, fontsize=8.5, color=_INK)
    if part.percent or not part.log_y:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}" if not part.percent else _percent(value))
    if part.percent and part.log_y:
        axes.yaxis.set_minor_formatter(lambda value, _: _percent(value) if f"{value:e}"[0] in "25" else "")
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK, labelsize=8)
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _figure_class() -> Any:
    # Not pyplot: it would look for a screen.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency.of("matplotlib", "drawing a picture") from error
    return Figure


def _label(axes: Any, curves: Mapping[str, Curve]) -> None:
    """The name of each line at its left end, moved apart where lines lie close."""
    ends = {name: min(curve) for name, curve in curves.items()}
    colours = dict(zip(curves, (colour for colour, _ in cycle(_STYLES)), strict=False))
    names = sorted(ends, key=lambda name: ends[name][1])
    for name, place in zip(names, _apart([ends[name][1] for name in names]), strict=True):
        colour = colours[name]
        x, y = ends[name]
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 4}
        text = {"color": colour, "fontsize": 9.5, "fontweight": "bold", "ha": "right", "va": "center"}
        axes.annotate(name.upper(), xy=(x, y), xytext=(x * 0.80, place), arrowprops=leader, **text)


def _apart(heights: Sequence[float]) -> list[float]:
    """Ascending heights, moved to lie a gap apart: those that would touch are spread around their mean."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _spread(groups[-2])[-1] + _LABEL_GAP > _spread(groups[-1])[0]:
            last = groups.pop()
            groups[-1].extend(last)
    return [place for group in groups for place in _spread(group)]


def _spread(group: Sequence[float]) -> list[float]:
    middle = sum(group) / len(group)
    middle = max(middle, _LABEL_GAP * len(group) / 2)  # none below the axis
    return [middle + (i - (len(group) - 1) / 2) * _LABEL_GAP for i in range(len(group))]


def _furnish(axes: Any, curves: Mapping[str, Curve]) -> None:
    shares = sorted({x for curve in curves.values() for x, _ in curve})
    axes.set_xscale("log")
    axes.set_xlim(shares[0] * 0.36, shares[-1] * 1.06)  # room for the names on the left
    axes.set_xticks(shares, [f"{share:.0%}" for share in shares])
    axes.minorticks_off()
    axes.set_ylim(0, 1.03)
    heights = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    axes.set_yticks(heights, [f"{height:.0%}" for height in heights])
    axes.set_xlabel("memory, as a share of what the exact join needs (log scale)", color=_INK)
    axes.set_ylabel("recall: share of the exact join's matches", color=_INK)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)


def _save(figure: Any, path: Path, colours: int | None = None) -> None:
    """Write the file whole; a PNG with so many colours is a third as large as one with all of them."""
    hidden = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix.lower()}")
    try:
        figure.savefig(hidden)
        if colours is not None and hidden.suffix == ".png":
            _reduce(hidden, colours)
        hidden.replace(path)
    except OSError as error:
        raise InputError(f"{path}: writing failed: {error.strerror or error}") from error
    finally:
        hidden.unlink(missing_ok=True)


def _reduce(path: Path, colours: int) -> None:
    from PIL import Image  # matplotlib brings it

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
