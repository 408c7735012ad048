"""The course of a run, and its matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import Optimizer, validation
from drbo.analysis import Recommendation
from drbo.analysis.profile import BLUE, GREEN, GREY, ORANGE, PINK, panels
from drbo.knowledge import Result
from drbo.models import SupportsManyOutcomes, supports
from drbo.report.phrases import Phrases
from drbo.spaces.space import is_number, row, text
from drbo.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Course:
    """Outcomes in order, and the bounds of the recommended action over time, in the user's units.

    Attributes
    ----------
    results : all results
    recommended : the recommendation; None if there is none
    why_not : the reason why there is no recommendation; otherwise empty
    outcomes : (n,) the outcome of each evaluation; nan if it failed or was not measured
    failures : (n,) whether each evaluation failed
    pending : number of pending evaluations
    at : (k,) numbers of outcomes, from 1, of the bounds
    bound : (k,) the worst-case bound of the recommended action after them
    optimistic : (k,) the worst case of its upper confidence bound after them
    """

    results: tuple[Result, ...]
    recommended: Recommendation | None
    why_not: str
    outcomes: FloatArray
    failures: NDArray[np.bool_]
    pending: int
    at: NDArray[np.intp]
    bound: FloatArray
    optimistic: FloatArray

    @property
    def evaluations(self) -> NDArray[np.intp]:
        """The numbers (n,) of the outcomes and failures, from 1."""
        return np.arange(1, len(self.outcomes) + 1)

    @property
    def failed(self) -> NDArray[np.intp]:
        """The numbers of the failed evaluations."""
        return self.evaluations[self.failures]

    @property
    def waiting(self) -> NDArray[np.intp]:
        """The numbers of the pending evaluations if they are told next."""
        return len(self.outcomes) + 1 + np.arange(self.pending)


def course(opt: Optimizer) -> Course:
    """Return the course of an optimizer's run."""
    results = opt.results
    outcomes = np.array([np.nan if result.outcome is None else result.outcome for result in results])
    recommended, why_not = _recommended(opt, outcomes)
    at, bound, optimistic = np.empty(0, np.intp), np.empty(0), np.empty(0)
    if recommended is not None:
        at, bound, optimistic = bounds_over_time(opt, results, recommended.action)
    failures = np.array([result.failed for result in results], dtype=bool)
    return Course(results, recommended, why_not, outcomes, failures, len(opt.pending), at, bound, optimistic)


def bounds_over_time(
    opt: Optimizer, results: Sequence[Result], action: Any, outcome: str | None = None
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Return numbers of outcomes (k,), and both worst-case bounds (k,) of an action after them."""
    steps = _FEW_STEPS if supports(opt.posterior, SupportsManyOutcomes) else _STEPS
    found = opt.under().narrowing(action, steps=steps, outcome=outcome)
    # Outcomes told together share an id: they are one evaluation of the model, but one step each here.
    ids = np.array([result.id for result in results])
    last = np.append(np.flatnonzero(np.diff(ids)) + 1, len(ids))
    return last[found.evaluations - 1], found.bound, found.optimistic


def _recommended(opt: Optimizer, outcomes: FloatArray) -> tuple[Recommendation | None, str]:
    """Return the recommendation, or the reason why there is none."""
    if np.isnan(outcomes).all():
        return None, "no outcome has been told yet"
    try:
        return opt.recommend(), ""
    except (RuntimeError, TypeError) as error:  # every action has failed, or there is no reference yet
        return None, str(error)


SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
"""The stops of a dial, as shares of the set's diameter; the radius of the run is added."""
_STEPS, _FEW_STEPS = 60, 8
"""Number of steps of the bounds over time; fewer if each needs a posterior of its own."""
_PER_ROW = 3
"""Largest number of context columns side by side."""
_BINS = 24
"""Largest number of bars per numeric column."""
_LABELS = 12
"""Largest number of labels per column."""


class Plots:
    """Figures of one optimizer, `opt.plot`; each method draws the present state."""

    def __init__(self, opt: Optimizer) -> None:
        self._opt = opt

    def __repr__(self) -> str:
        return "plots of an optimizer: .progress(), .dial(radii) and .worst_case()"

    def progress(self) -> Figure:
        """Return a figure of outcomes, failures and pending evaluations, with the recommended action's bounds."""
        figure, (axes,) = panels(1, 1, 6.4, 3.8)
        run = course(self._opt)
        if np.isfinite(run.outcomes).any():
            axes.plot(run.evaluations, run.outcomes, "o", color=GREY, markersize=4, label=Phrases.of(self._opt).name)
        if len(run.at):
            axes.fill_between(run.at, run.bound, run.optimistic, color=BLUE, alpha=0.12, linewidth=0.0)
            name = "bound of the recommended action under the shift"
            axes.plot(run.at, run.bound, color=BLUE, linewidth=2, label=name)
            axes.plot(run.at, run.optimistic, ":", color=ORANGE, label="its optimistic bound")
        above = axes.get_xaxis_transform()  # what has no outcome stands above the figure
        waiting = "pending: no outcome yet"
        for name, marker, where, colour in (("failed", "x", run.failed, PINK), (waiting, "D", run.waiting, GREEN)):
            if len(where):
                heights = np.full(len(where), 1.03)
                (drawn,) = axes.plot(where, heights, marker, color=colour, label=name, transform=above, clip_on=False)
                drawn.set_fillstyle("none")
        axes.set(xlabel="evaluation", ylabel=Phrases.of(self._opt).axis)
        axes.set_title("Progress", pad=14.0)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small")
        return figure

    def dial(self, radii: ArrayLike | None = None) -> Figure:
        """Return a figure of each radius's (k,) cost and benefit; the default radii go up to the set's diameter."""
        return self._opt.under().profile(dial_radii(self._opt) if radii is None else radii).plot()

    def worst_case(
        self, reference: Any = None, radius: float | None = None, *, given: Mapping[Any, Any] | None = None
    ) -> Figure:
        """Return a figure of the contexts' columns under the reference and in the worst distribution."""
        found = self._opt.recommend(reference, radius, given=given)
        rows = [row(context, "context") for context in found.contexts]
        names = list(rows[0])
        figure, made = panels(math.ceil(len(names) / _PER_ROW), min(len(names), _PER_ROW), 4.2, 3.2)
        both = {"reference": np.asarray(found.reference), "worst case": np.asarray(found.weights)}
        for panel, name in zip(made, names, strict=False):
            _column(panel, [one[name] for one in rows], both)
            panel.set_title(name, parse_math=False)
            panel.set_ylabel("share")
        for panel in made[len(names) :]:
            panel.set_visible(False)
        made[0].legend(frameon=False, fontsize="small")
        return figure


def dial_radii(opt: Optimizer) -> list[float]:
    """Return the stops of an optimizer's dial: shares of its set's diameter, and the present radius.

    The stops end at twice the present radius if the set has no diameter, and at 1 if there is no such radius either.
    """
    found = opt.recommend()
    end = found.diameter if 0.0 < found.diameter < math.inf else math.inf
    if math.isinf(end):
        end = 2.0 * found.radius if 0.0 < found.radius < math.inf else 1.0
    own = [validation.radius(found.radius)] if math.isfinite(found.radius) else []
    return sorted({*(share * end for share in SHARES), *own})


def _column(panel: Axes, values: Sequence[Any], both: Mapping[str, np.ndarray]) -> None:
    """Draw one column of contexts (n,) as bars, with the weights (n,) of each distribution."""
    numeric = is_number(values)
    distinct = sorted(set(values)) if numeric else list(dict.fromkeys(values))
    if numeric and len(distinct) > 1:
        numbers = np.array(values, dtype=float)
        edges = np.histogram_bin_edges(numbers, min(_BINS, len(distinct)))
        for colour, (name, weights) in zip((GREY, BLUE), both.items(), strict=True):
            heights, _ = np.histogram(numbers, edges, weights=weights)
            filled = colour == GREY
            panel.stairs(
                heights, edges, color=colour, fill=filled, alpha=0.5 if filled else 1.0, linewidth=2, label=name
            )
        panel.set_ylim(bottom=0.0)
        return
    share = {name: dict.fromkeys(distinct, 0.0) for name in both}
    for name, weights in both.items():
        for value, weight in zip(values, weights.tolist(), strict=True):
            share[name][value] += weight
    order = sorted(distinct, key=lambda v: -max(share[name][v] for name in both))[:_LABELS]
    shown = [value for value in distinct if value in order]
    at = np.arange(len(shown))
    for offset, colour, name in zip((-0.2, 0.2), (GREY, BLUE), both, strict=True):
        panel.bar(at + offset, [share[name][v] for v in shown], 0.4, color=colour, label=name)
    panel.set_xticks(at, [text(v) for v in shown], parse_math=False, rotation=30 if len(shown) > 4 else 0)
