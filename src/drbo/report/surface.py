"""Figures of the model: slices along parameters, maps and sensitivities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drbo import Box, Optimizer, Samples
from drbo.analysis import Recommendation
from drbo.knowledge import Result
from drbo.models import SupportsManyOutcomes, supports
from drbo.report.marks import BLUE, GREY, ORANGE, RED, Axis, Band, Cells, Dots, Figure, Line, Mark
from drbo.report.phrases import Phrases
from drbo.report.scales import scale_of
from drbo.spaces import FiniteSet, Parameter
from drbo.spaces.space import Row, is_number, plain, row

_STEPS = 25
"""Number of values along a numeric axis."""
_FEWER_STEPS, _MANY_AXES = 15, 5
"""The same with many outcomes, or in maps where there are at least so many axes: each pair of axes has a map."""


def axis(parameter: Parameter, steps: int = _STEPS) -> list[Any]:
    """Return values of a parameter from the smallest to the largest."""
    labels = parameter.column(None, 0).labels
    if labels is not None:
        return list(labels)
    if parameter.count is None:
        coordinates = np.linspace(0.0, 1.0, steps)[:, None]
    else:
        coordinates = parameter.levels(np.unique(np.linspace(0, parameter.count - 1, steps).round().astype(np.intp)))
    return [parameter.decode(one) for one in coordinates]


def box_of(space: Any) -> Box | None:
    """Return the box of a space, None if there is none."""
    if isinstance(space, Box):
        return space
    return space.within if isinstance(space, Samples) else None


def members(space: Any, recommended: Any, most: int) -> list[Any] | None:
    """Return at most `most` points of a finite set, and the recommended one; None for other spaces."""
    if not isinstance(space, FiniteSet):
        return None
    every: list[Any] = list(space.decode_all(space.coordinates))
    if len(every) > most:
        every = [every[i] for i in np.unique(np.linspace(0, len(every) - 1, most).astype(int))]
        every.append(recommended)
    return every


_ATOMS, _FEWER_ATOMS = 48, 24
"""Largest number of contexts of a drawn expectation, and with many outcomes; the heaviest ones are kept."""
_MEMBERS = 200
"""Largest number of drawn actions of a finite set."""
_DRAWS = 256
"""Number of random points for the sensitivities."""
_AT_ONCE = 4096
"""Largest number of points that are predicted at once: an exact posterior has a kernel of all outcomes with them."""


def slices(opt: Optimizer, results: Sequence[Result], r: Recommendation) -> list[Figure]:
    """Return figures of the expectation of f along each parameter; the others stay as recommended."""
    many = supports(opt.posterior, SupportsManyOutcomes)  # each region has a posterior of its own
    contexts, reference, worst = _heaviest(r, _FEWER_ATOMS if many else _ATOMS)
    actions = box_of(opt.configuration.actions)
    if actions is None:
        return _along_members(opt, results, r, contexts, reference, worst)
    drawn = []
    steps = _FEWER_STEPS if many else _STEPS
    lines = {name: _along_axis(actions, r.action, name, axis(one, steps)) for name, one in actions.parameters.items()}
    every = _expectations(opt, [one for _, there in lines.values() for one in there], contexts, reference, worst)
    start = 0
    for name, (values, there) in lines.items():
        part = slice(start, start := start + len(there))
        found = [(label, color, *(one[part] for one in parts)) for label, color, *parts in every]
        told = [plain(result.action[name]) for result in results]
        here = _here(plain(r.action[name]), found[0][2][_nearest(values, r.action[name])])
        drawn.append(_slice(opt, name, [plain(value) for value in values], along(values, found), told, here, results))
    return drawn


def _along_axis(box: Box, action: Any, name: str, values: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the values of a parameter that the constraints permit, and the actions with them."""
    actions = box.completed([{**action, name: value} for value in values], [name])
    kept = [(value, one) for value, one in zip(values, actions, strict=True) if one is not None]
    kept = kept or [(action[name], action)]
    return [value for value, _ in kept], [one for _, one in kept]


def _slice(
    opt: Optimizer,
    name: str,
    values: Sequence[Any],
    marks: list[Mark],
    told: Sequence[Any],
    here: Mark,
    results: Sequence[Result],
) -> Figure:
    """Return a figure along one parameter: the expectation, the outcomes and the recommended action.

    `told` are the values of the parameter in all results.
    """
    words, found = Phrases.of(opt), [(i, result.outcome) for i, result in enumerate(results)]
    rows, y = zip(*((i, y) for i, y in found if y is not None), strict=True)
    outcomes = Dots([told[i] for i in rows], y, "evaluations", GREY, size=5.0, opacity=0.6, rows=rows)
    axes = Axis(name, scale_of(values)), Axis(words.axis)
    return Figure([*marks, outcomes, here], *axes, f"expected {words.name} along {name}", "half")


def _along_members(
    opt: Optimizer, results: Sequence[Result], r: Recommendation, contexts: Any, reference: Any, worst: Any
) -> list[Figure]:
    every = members(opt.configuration.actions, r.action, _MEMBERS) or []
    found = _expectations(opt, every, contexts, reference, worst)
    rows = [row(action, "action") for action in every]
    drawn = []
    told = [row(result.action, "action") for result in results]
    for name in rows[0]:
        x = [one[name] for one in rows]
        if len(rows[0]) == 1:
            order = sorted(range(len(x)), key=lambda i: x[i]) if is_number(x) else list(range(len(x)))
            marks = along(
                [x[i] for i in order],
                [(label, color, *([part[i] for i in order] for part in parts)) for label, color, *parts in found],
            )
        else:
            marks = [Dots(x, middle, label, color) for label, color, middle, _, _ in found]
        here = row(r.action, "action")
        at = next(i for i, one in enumerate(rows) if one == here)
        outcomes = [one[name] for one in told]
        drawn.append(_slice(opt, name, x, marks, outcomes, _here(here[name], found[0][2][at]), results))
    return drawn


def _expectations(opt: Optimizer, actions: Sequence[Any], contexts: Sequence[Any], reference: Any, worst: Any) -> Any:
    """Return the expectation over contexts per action with its bounds, under the reference and the worst case."""
    n = len(contexts)
    predicted = _predict(opt, [(action, context) for action in actions for context in contexts])
    parts = [part.reshape(len(actions), n) for part in predicted]
    return [
        (name, color, *((part @ weights).tolist() for part in parts))
        for name, color, weights in (("reference", BLUE, reference), ("worst case", ORANGE, worst))
    ]


def maps(opt: Optimizer, results: Sequence[Result], r: Recommendation) -> list[dict[str, Any]]:
    """Return maps of the mean over every pair of axes, at the recommended action and typical conditions."""
    typical = _typical(r)
    axes = _axes(opt, r)
    rows = [i for i, result in enumerate(results) if not (result.failed or result.context is None)]
    told = [_by_kind(results[i].action, results[i].context) for i in rows]
    here = _by_kind(r.action, typical)
    pairs = [pair for pair in itertools.combinations(axes, 2) if not all(kind == "context" for kind, _, _ in pair)]
    places = [_places_of(opt, r.action, typical, *pair) for pair in pairs]
    means = iter(_means(opt, [one for part in places for one in part if one is not None]))
    drawn = []
    for ((kind_x, name_x, xs), (kind_y, name_y, ys)), part in zip(pairs, places, strict=True):
        if not any(part):
            continue
        mean = np.array([np.nan if one is None else next(means) for one in part]).reshape(len(ys), len(xs))
        shown = [[_shown(v) for v in part] for part in (xs, ys)]
        titles = [_title(axes, kind_x, name_x), _title(axes, kind_y, name_y)]
        marks: list[Mark] = [
            Cells(shown[0], shown[1], mean, f"colour: expected {Phrases.of(opt).axis}"),
            Dots(
                [one[kind_x][name_x] for one in told],
                [one[kind_y][name_y] for one in told],
                "evaluations",
                "#ffffff",
                size=6.0,
                edge="#000000",
                rows=rows,
            ),
            _here(here[kind_x][name_x], here[kind_y][name_y]),
        ]
        x, y = (Axis(title, scale_of(v), 0.5 / max(len(v) - 1, 1)) for title, v in zip(titles, shown, strict=True))
        name = " and ".join(titles)
        drawn.append({"name": name, "figure": Figure(marks, x, y, f"{Phrases.of(opt).axis} over {name}")})
    return drawn


def _places_of(
    opt: Optimizer, action: Any, context: Any, across: tuple[str, str, list[Any]], up: tuple[str, str, list[Any]]
) -> list[tuple[Any, Any] | None]:
    """Return the action and the context of every cell of a map, row by row; None where the constraints forbid it."""
    actions, contexts = [], []
    for y, x in itertools.product(up[2], across[2]):
        here = {"action": action, "context": context}
        for (kind, name, _), value in ((across, x), (up, y)):
            here[kind] = {**here[kind], name: value} if isinstance(here[kind], dict) else value
        actions.append(here["action"])
        contexts.append(here["context"])
    box = box_of(opt.configuration.actions)
    if box is not None:
        actions = box.completed(actions, [name for kind, name, _ in (across, up) if kind == "action"])
    return [None if a is None else (a, c) for a, c in zip(actions, contexts, strict=True)]


def _by_kind(action: Any, context: Any) -> dict[str, Row]:
    return {"action": row(action, "action"), "context": row(context, "context")}


def _title(axes: Sequence[tuple[str, str, list[Any]]], kind: str, name: str) -> str:
    """Return the title of an axis; a condition with the name of a parameter is marked."""
    return f"{name} (condition)" if kind == "context" and ("action", name) in [axis[:2] for axis in axes] else name


def _axes(opt: Optimizer, r: Recommendation) -> list[tuple[str, str, list[Any]]]:
    """Return the axes of the maps: kind (action or context), name and values."""
    axes: list[tuple[str, str, list[Any]]] = []
    actions = box_of(opt.configuration.actions)
    count = len(opt.configuration.search.space.columns) + len(opt.configuration.nature.space.columns)
    steps = _FEWER_STEPS if count >= _MANY_AXES else _STEPS
    if actions is not None:
        axes += [("action", name, axis(parameter, steps)) for name, parameter in actions.parameters.items()]
    else:
        every = members(opt.configuration.actions, r.action, 50) or []
        names = list(row(every[0], "action"))
        axes += [("action", names[0], every)] if len(names) == 1 else []
    contexts = box_of(opt.configuration.contexts)
    if contexts is not None:
        return [*axes, *(("context", name, axis(p, steps)) for name, p in contexts.parameters.items())]
    known = members(opt.configuration.contexts, r.contexts[0], 50)
    if known is not None:
        names = list(row(known[0], "context"))
        return [*axes, ("context", names[0], known)] if len(names) == 1 else axes
    columns = _columns([row(context, "context") for context in r.contexts])
    return [*axes, *(("context", name, _spread_over(values, steps)) for name, values in columns.items())]


def sensitivities(opt: Optimizer, r: Recommendation) -> dict[str, float]:
    """Return the total-effect index of every parameter and condition (Jansen's estimate on the posterior mean)."""
    rng = np.random.default_rng(0)
    draw_action, box = _drawer(opt, r), box_of(opt.configuration.actions)
    contexts, reference, _ = _heaviest(r)
    rows = [row(context, "context") for context in contexts]
    first = [(draw_action(rng), int(rng.choice(len(contexts), p=reference))) for _ in range(_DRAWS)]
    other = [(draw_action(rng), int(rng.choice(len(contexts), p=reference))) for _ in range(_DRAWS)]
    pairs = list(zip(first, other, strict=True))
    moved: dict[str, list[tuple[Any, Any]]] = {}
    names = list(row(r.action, "action"))
    for name in names if isinstance(r.action, dict) or len(names) == 1 else ():
        # coordinates of a finite set do not vary independently
        mixed = [({**a, name: b[name]} if isinstance(a, dict) else b) for (a, _), (b, _) in pairs]
        if box is not None:
            completed = box.completed(mixed, [name])
            mixed = [a if one is None else one for one, (a, _) in zip(completed, first, strict=True)]
        moved[name] = [(a, contexts[j]) for a, (_, j) in zip(mixed, first, strict=True)]
    for name in rows[0] if isinstance(contexts[0], dict) or len(rows[0]) == 1 else ():
        mixed = [
            ({**contexts[j], name: contexts[k][name]} if isinstance(contexts[j], dict) else contexts[k])
            for (_, j), (_, k) in pairs
        ]
        key = name if name not in moved else f"{name} (condition)"
        moved[key] = [(a, c) for (a, _), c in zip(first, mixed, strict=True)]
    own = [(a, contexts[j]) for a, j in first]
    base, *others = _means(opt, [*own, *itertools.chain(*moved.values())]).reshape(-1, _DRAWS)
    total = float(np.var(base))
    shares = [float(np.mean((base - mean) ** 2) / (2.0 * total)) if total else 0.0 for mean in others]
    return {name: min(share, 1.0) for name, share in zip(moved, shares, strict=True)}


def _drawer(opt: Optimizer, r: Recommendation) -> Any:
    """Return a function that draws a random action."""
    box = box_of(opt.configuration.actions)
    if box is None:
        every = members(opt.configuration.actions, r.action, _MEMBERS) or []
        return lambda rng: every[int(rng.integers(len(every)))]
    if box.constraints:
        some = box.spread(2 * _DRAWS, 0)
        return lambda rng: box.decode(some[int(rng.integers(len(some)))])
    choices = {name: axis(parameter) for name, parameter in box.parameters.items()}
    return lambda rng: {name: values[int(rng.integers(len(values)))] for name, values in choices.items()}


def _means(opt: Optimizer, places: Sequence[tuple[Any, Any]]) -> Any:
    """Return the mean (m,) of f at actions and contexts."""
    return _predict(opt, places, bounds=False)[0]


def _predict(opt: Optimizer, places: Sequence[tuple[Any, Any]], *, bounds: bool = True) -> Any:
    """Return mean, lower and upper bound of f at actions and contexts, (3, m)."""
    parts = [np.empty((3, 0))]
    for start in range(0, len(places), _AT_ONCE):
        actions, contexts = zip(*places[start : start + _AT_ONCE], strict=True)
        found = opt.predict(_table(actions), _table(contexts), bounds=bounds)
        parts.append(np.array([found.mean, found.lower, found.upper]))
    return np.concatenate(parts, axis=1)


def _heaviest(r: Recommendation, most: int = _ATOMS) -> tuple[list[Any], Any, Any]:
    """Return the contexts of most mass in the reference or in the worst case, and both weights."""
    order = np.argsort(-np.maximum(r.reference, r.weights), kind="stable")[:most]
    order = order[np.maximum(r.reference, r.weights)[order] > 0.0]
    both = [np.asarray(weights)[order] for weights in (r.reference, r.weights)]
    reference, worst = (w / w.sum() if w.sum() > 0.0 else w for w in both)
    return [r.contexts[i] for i in order], reference, worst


def _table(values: Sequence[Any]) -> Any:
    """Return many values as a table for `predict`: points as an array (m, d), others as a list."""
    return np.array(values) if isinstance(values[0], np.ndarray) else list(values)


def _typical(r: Recommendation) -> Any:
    """Return the context nearest the mean of the reference, in units of each column's deviation, with likely labels."""
    rows = [row(context, "context") for context in r.contexts]
    columns = _columns(rows)
    weights = np.asarray(r.reference)
    off = np.zeros(len(rows))
    for values in columns.values():
        if is_number(values):
            numbers = np.array(values, dtype=float)
            mean = float(weights @ numbers)
            spread = math.sqrt(float(weights @ (numbers - mean) ** 2)) or 1.0
            off += ((numbers - mean) / spread) ** 2
        else:
            mass = {label: sum(w for v, w in zip(values, weights, strict=True) if v == label) for label in set(values)}
            off += [0.0 if mass[value] == max(mass.values()) else 100.0 for value in values]
    off[weights <= 0.0] = np.inf
    return r.contexts[int(np.argmin(off))]


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [one[name] for one in rows] for name in rows[0]}


def _spread_over(values: Sequence[Any], steps: int) -> list[Any]:
    """Return values of a column from the smallest to the largest, or its labels."""
    if is_number(values):
        return list(np.linspace(min(values), max(values), steps).tolist())
    return list(dict.fromkeys(values))


def _nearest(values: Sequence[Any], value: Any) -> int:
    if is_number(values):
        return int(np.argmin(np.abs(np.array(values, dtype=float) - float(value))))
    return list(values).index(value)


def _shown(value: Any) -> Any:
    """Return a plain value of an axis; a point of one coordinate becomes a number."""
    return next(iter(row(value, "").values())) if isinstance(value, np.ndarray) else plain(value)


def _here(x: Any, y: Any) -> Dots:
    """Return the mark of the recommended action."""
    return Dots([x], [y], "recommended", RED, "star")


def along(
    x: Sequence[Any], curves: Sequence[tuple[str, str, Sequence[float], Sequence[float], Sequence[float]]]
) -> list[Mark]:
    """Return curves with bands along an axis of numbers, or points with error bars along one of labels.

    A curve is its name, its colour, its values, and its lower and upper bounds.
    """
    marks: list[Mark] = []
    for i, (name, color, middle, low, high) in enumerate(curves):
        if is_number(x):
            marks += [Band(x, low, high, color), Line(x, middle, name, color)]
        else:
            shift = 0.2 * (i - 0.5 * (len(curves) - 1)) / len(x)
            marks.append(Dots(x, middle, name, color, low=low, high=high, shift=shift))
    return marks
