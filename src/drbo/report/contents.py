"""The contents of the page: every number, sentence and figure of one optimizer."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from drbo import Measured, NotReachedError, Optimizer
from drbo.analysis import Recommendation
from drbo.models import SupportsCovariance, SupportsLeaveOneOut, supports
from drbo.report import surface
from drbo.report.marks import (
    BLUE,
    GREEN,
    GREY,
    MOST_POINTS,
    ORANGE,
    RED,
    Axis,
    Band,
    Bars,
    Figure,
    Line,
    Mark,
    Points,
    Rule,
    percent,
)
from drbo.report.plots import SHARES, bounds_over_time, course
from drbo.report.scales import Labels, Percentages, Whole
from drbo.spaces.space import Row, is_number, row, text, words


class Contents:
    """The contents for one optimizer, with one method per section of the page."""

    def __init__(self, opt: Optimizer) -> None:
        self.opt = opt
        self.course = course(opt)
        self.recommended: Recommendation | None = self.course.recommended

    # --- 1: the recommendation --------------------------------------------------------------------------------------

    def deploy(self) -> dict[str, Any]:
        """Return the action, its bound, and the possible advantage of other actions."""
        r = self.recommended
        if r is None:
            return {"action": {}, "sentence": f"There is nothing to deploy: {self.course.why_not}.", "text": ""}
        sentence = as_sentence(f"{r.promise} on average in every distribution {r.within}")
        return {
            "action": row(r.action, "action"),
            "value": r.value,
            "sentence": sentence,
            "limits": [as_sentence(f"{limit.word}: {limit}") for limit in r.limits.values()],
            "trust": "" if r.claim.proven else as_sentence(str(r.trust)),
            "text": str(r),
            "reach": self._reach(),
        }

    def _reach(self) -> str:
        """Return the bound on the distance from the best action, as text."""
        left = self.opt.under().regret_bound()
        if not math.isfinite(left.value):
            return "Too little is known yet to say how much better another action could be."
        word = "guaranteed" if left.claim.proven else "estimated"
        how = "all actions were considered" if left.exhaustive else "as far as a search found"
        return f"In the worst case, another action may still be better by at most {left.value:.4g} ({word}, {how})."

    # --- 2: progress ------------------------------------------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        """Return outcomes, failures and pending evaluations in order, and the bounds of the recommended action."""
        run = self.course
        came = ~np.isnan(run.outcomes)
        seen = run.outcomes[came].tolist()
        failed, waiting = run.failed.tolist(), run.waiting.tolist()
        own = self.opt.configuration.objective
        marks: list[Mark] = [Points(run.evaluations[came].tolist(), list(seen), own.name, GREY)]
        sentence = _counted(len(seen), "outcome")
        sentence += f", {_counted(len(failed), 'failed evaluation')}" if failed else ""
        sentence += f", {len(waiting)} pending." if waiting else "."
        if len(run.at):
            at, bound, optimistic = run.at.tolist(), run.bound.tolist(), run.optimistic.tolist()
            marks += [
                Band(at, bound, optimistic, BLUE),
                Line(at, optimistic, "optimistic bound of the recommended action", ORANGE, "dot"),
                Line(at, bound, "its bound", BLUE),
            ]
            seen += [value for value in (*bound, *optimistic) if math.isfinite(value)]
            ends = [sorted((bound[i], optimistic[i])) for i in (0, -1)]
            sentence += (
                f" By the bounds of the model alone the recommended action brought between {ends[0][0]:.4g} and "
                f"{ends[0][1]:.4g} in the worst case after the first evaluation, and brings between "
                f"{ends[1][0]:.4g} and {ends[1][1]:.4g} now."
            )
        level = (min(seen) if seen else 0.0) - 0.06 * (np.ptp(seen) if seen else 1.0)
        if failed:
            marks.append(Points(failed, [level] * len(failed), "failed", RED, "cross"))
        if waiting:
            marks.append(Points(waiting, [level] * len(waiting), "pending", GREEN, "diamond"))
        unit = "" if own.unit is None else f" ({own.unit})"
        drawn = Figure(marks, Axis("evaluation", Whole), Axis(f"{own.name}{unit}"), "outcomes by evaluation")
        return {"sentence": sentence, "figure": drawn}

    def limits(self) -> dict[str, Any] | None:
        """Return the values of each limited outcome, and its bounds for the recommended or the closest action."""
        own, r = self.opt.configuration, self._recommended_or_closest()
        if not own.limits:
            return None
        figures, said = [], []
        for name, limit in own.limits.items():
            unit = "" if limit.unit is None else f" ({limit.unit})"
            key = None if name == own.objective.name else name
            told = [result.outcome if key is None else result.limits.get(key) for result in self.opt.results]
            pairs = [
                (i + 1, one.value if isinstance(one, Measured) else one)
                for i, one in enumerate(told)
                if one is not None
            ]
            marks: list[Mark] = []
            for label, color, kept in (("within the limit", GREEN, True), ("beyond the limit", RED, False)):
                some = [(i, y) for i, y in pairs if (limit.sign * (y - limit.threshold) >= 0.0) is kept]
                if some:
                    marks.append(Points([i for i, _ in some], [y for _, y in some], label, color))
            if r is not None and pairs:
                at, bound, optimistic = (part.tolist() for part in bounds_over_time(self.opt, r.action, name))
                marks += [
                    Band(at, bound, optimistic, BLUE),
                    Line(at, bound, "bound of the expectation in its worst case", BLUE),
                ]
                said.append(f"{r.limits[name].word}: {r.limits[name]}")
            marks.append(Line([1, max(len(told), 2)], [limit.threshold] * 2, "limit", GREY, "dash"))
            alt = f"{name} by evaluation, with its limit"
            figures.append(Figure(marks, Axis("evaluation", Whole), Axis(f"{name}{unit}"), alt))
        return {"sentence": " ".join(as_sentence(one) for one in said), "figures": figures}

    def _recommended_or_closest(self) -> Recommendation | None:
        """Return the recommendation or, if no action is known to meet all limits, that of the closest one."""
        if self.recommended is not None or not self.opt.configuration.limits:
            return self.recommended
        try:
            return self.opt.recommend()
        except NotReachedError as error:
            return error.closest
        except (RuntimeError, TypeError):  # every action has failed, or there is no reference yet
            return None

    # --- 3: the dial ------------------------------------------------------------------------------------------------

    def dial(self) -> dict[str, Any] | None:
        """Return the meaning, cost and benefit of each radius; None if there is no radius to vary."""
        r = self.recommended
        if r is None:
            return None
        diameter = r.diameter
        if not 0.0 < diameter < math.inf:
            return None
        present = r.radius if math.isfinite(r.radius) else diameter
        radii = sorted({*(share * diameter for share in SHARES), present})
        asked = self.opt.under()
        found, meanings = asked.profile(radii), asked.explain_radius(radii)
        stops = [
            {
                "radius": radius,
                "present": radius == present,
                "share": radius / diameter,
                "action": row(action, "action"),
                "bound": float(found.bound[i]),
                "expected": float(found.expected[i]),
                "price": float(found.price[i]),
                "protection": float(found.protection[i]),
                "meaning": str(meanings[i]),
            }
            for i, (radius, action) in enumerate(zip(found.radius.tolist(), found.actions, strict=True))
            if action is not None  # no action is known to meet all limits
        ]
        radii = [stop["radius"] for stop in stops]
        if present not in radii:
            return None
        marks = [
            Line(radii, [s["expected"] for s in stops], "expected under the reference", GREEN),
            Line(radii, [s["bound"] for s in stops], "bound", BLUE),
            Rule(present, "radius of this run", GREY, "dot"),
            Rule(present, "radius of the dial", GREY, id="dial-mark"),
        ]
        alt = "bound and expectation of the deployed action by radius"
        drawn = Figure(marks, Axis("radius", pad=0.02), Axis("outcome"), alt, "half")
        for stop, at in zip(stops, drawn.scales()[0].at(radii).tolist(), strict=True):
            stop["at"] = percent(at)
        different = len({words(s["action"]) for s in stops})
        deployed = f"{different} different actions would be" if different > 1 else "the same action would be"
        sentence = (
            f"The radius of this run is {present:.3g}, which is {present / diameter:.0%} of the largest that makes a "
            f"difference. From no shift to the largest one, {deployed} deployed. Bounds are those of the model "
            "alone."
        )
        return {"stops": stops, "figure": drawn, "sentence": sentence}

    # --- 4: the worst case beside the reference ---------------------------------------------------------------------

    def conditions(self) -> dict[str, Any] | None:
        """Return the distribution of each condition under the reference and in the worst case."""
        r = self.recommended
        if r is None:
            return None
        rows = [row(context, "context") for context in r.contexts]
        names = list(rows[0])
        columns = {name: [one[name] for one in rows] for name in names}
        reference, worst = r.reference.tolist(), r.weights.tolist()
        figures = [beside(name, columns[name], reference, worst) for name in names]
        if len(names) == 2 and all(is_number(columns[name]) for name in names):
            both = [("reference", reference), ("worst case", worst)]
            figures.append(plane(names, [columns[name] for name in names], both))
        explained = r.explain()
        sentence = (
            f"Expected under the reference: {explained.expected:.4g}. A shift of the conditions may cost "
            f"{explained.shift:.4g}, and what the model does not know yet {explained.ignorance:.4g} more."
        )
        return {"sentence": sentence, "figures": figures, "text": "\n".join(explained.conditions())}

    # --- 5: the baseline, and leave-one-out predictions -------------------------------------------------------------

    def baseline(self) -> dict[str, Any] | None:
        """Return the difference between the recommended action and the baseline; None without one."""
        r, today = self.recommended, self.opt.configuration.arguments["baseline"]
        if r is None or today is None or not supports(self.opt.posterior, SupportsCovariance):
            return None
        found = self.opt.under().compare(r.action)
        unit = "more" if self.opt.configuration.maximize else "less"
        worst = f"at least {found.worst:.4g} better" if found.worst >= 0.0 else f"at most {-found.worst:.4g} worse"
        sentence = (
            f"Today's action is {words(row(today, 'action'))}. The recommended one is expected to bring "
            f"{found.expected:.4g} {unit} under the reference. In the worst distribution of the set it is {worst}"
            f"{'' if found.complete else ', as far as its atoms show'}."
        )
        if found.untried:
            untried = " and ".join(words(row(action, "action")) for action in found.untried)
            sentence = (
                f"Extrapolated: nobody has evaluated {untried}, nor an action near it. {sentence} This is a guess."
            )
        rows = {
            "better under the reference by, expected": found.expected,
            "at least": found.lower,
            "at most": found.upper,
            "better in the worst distribution by at least": found.worst,
        }
        return {"sentence": sentence, "rows": {name: f"{value:.4g}" for name, value in rows.items()}}

    def trust(self) -> dict[str, Any] | None:
        """Return every outcome and its prediction from the others; None with fewer than three outcomes."""
        able = supports(self.opt.posterior, SupportsLeaveOneOut)
        found = self.opt.leave_one_out() if able and len(self.course.failed) < len(self.course.outcomes) else None
        if found is None or len(found.outcome) < 3:
            return None
        inside = found.inside
        low, high = found.mean - found.width * found.std, found.mean + found.width * found.std
        ends = [float(found.outcome.min()), float(found.outcome.max())]
        marks: list[Mark] = [Line(ends, ends, "equal", GREY, "dash", 1.0)]
        for chosen, name, color in ((inside, "within its bounds", BLUE), (~inside, "outside", RED)):
            if chosen.any():
                x, y, least, most = (part[chosen].tolist() for part in (found.outcome, found.mean, low, high))
                marks.append(Points(x, y, name, color, low=least, high=most))
        alt = "outcomes against their leave-one-out predictions"
        drawn = Figure(marks, Axis("outcome"), Axis("predicted from the others"), alt)
        return {"sentence": as_sentence(str(found)), "figure": drawn}

    # --- 6: the model -----------------------------------------------------------------------------------------------

    def model(self) -> dict[str, Any] | None:
        """Return f along each parameter at the recommendation, and maps of two parameters or conditions."""
        r = self.recommended
        if r is None:
            return None
        sentence = (
            "Lines show the expectation over the conditions, along one parameter with the others as recommended; bands "
            "are bounds on it. Marks are evaluations."
        )
        return {"sentence": sentence, "slices": surface.slices(self.opt, r), "maps": surface.maps(self.opt, r)}

    # --- 7: sensitivities -------------------------------------------------------------------------------------------

    def matters(self) -> dict[str, Any] | None:
        """Return the share of f's variance per parameter and condition, and the most informative evaluation."""
        r = self.recommended
        if r is None:
            return None
        shares = surface.sensitivities(self.opt, r)
        order = sorted(shares, key=lambda name: shares[name])
        bars = Bars(order, [shares[name] for name in order], "share", BLUE, 0.18, 0.82, upright=False)
        sentence = ""
        if order:
            most = f"{shares[order[-1]]:.0%} of the model's variation would be gone if it were fixed"
            sentence = f"{order[-1]} matters most: {most}."
        advice = r.explain().advice()
        alt = "share of the variation of f by parameter and condition"
        across = Axis("share of the variation (total effect)", Percentages)
        drawn = Figure([bars], across, Axis("", Labels), alt, height=90 + 34 * len(order)) if order else None
        return {"sentence": sentence, "next": " ".join(advice), "shares": shares, "figure": drawn}

    # --- 8: all results ---------------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """Return one row per result, of the last ones if there are many, the column names, and the number of all."""
        rows: list[Row] = []
        every = self.opt.results
        for result in every[-MOST_POINTS:]:
            when = None if result.time is None else datetime.fromtimestamp(result.time, UTC)
            one: Row = {"result": result.id, "suggestion": result.number}
            for kind, value in (("action", result.action), ("context", result.context)):
                one |= {(name if name not in one else f"{kind}.{name}"): v for name, v in row(value, kind).items()}
            one |= {
                self.opt.configuration.objective.name: result.outcome,
                **{name: getattr(value, "value", value) for name, value in result.limits.items()},
                "failed": result.failed,
                "time (UTC)": None if when is None else when.strftime("%Y-%m-%d %H:%M:%S"),
            }
            rows.append(one)
        columns = list(dict.fromkeys(name for one in rows for name in one))
        cells = [[one.get(name) for name in columns] for one in rows]
        return {"columns": columns, "rows": cells, "count": len(every)}

    def configuration(self) -> Row:
        """Return the arguments of the optimizer, and the versions."""
        own = self.opt.configuration
        made = {
            "actions": own.actions, "contexts": own.contexts, "ambiguity": own.ambiguity, "setting": own.setting,
            "surrogate": own.surrogate, "policy": own.policy, "beta": own.beta,
            own.objective.name: "maximised" if own.maximize else "minimised",
            **{f"limit of {name}": limit for name, limit in own.limits.items()},
        }  # fmt: skip
        versions = {"drbo": version("drbo"), "Python": platform.python_version(), "numpy": np.__version__}
        return {name: str(value) for name, value in (made | versions).items()}


def as_sentence(said: str) -> str:
    """Return a text as a sentence."""
    joined = " ".join(said.split())
    return joined[:1].upper() + joined[1:] + ("" if joined.endswith(".") else ".")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def beside(name: str, values: Sequence[Any], reference: Sequence[float], worst: Sequence[float]) -> Figure:
    """Return the distribution of one condition under the reference and in the worst case."""
    alt = f"distribution of {name} under the reference and in the worst case"
    both = (("reference", BLUE, reference), ("worst case", ORANGE, worst))
    if not is_number(values):
        labels = list(dict.fromkeys(values))
        marks = []
        for i, (label, color, weights) in enumerate(both):
            mass = dict.fromkeys(labels, 0.0)
            for value, weight in zip(values, weights, strict=True):
                mass[value] += weight
            marks.append(Bars(labels, list(mass.values()), label, color, 0.1 + 0.4 * i, 0.5 + 0.4 * i))
        return Figure(marks, Axis(name, Labels), Axis("share", Percentages), alt, "half")
    column = np.array(values, dtype=float)
    used = (np.array(reference) > 0.0) | (np.array(worst) > 0.0)
    low, high = float(column[used].min()), float(column[used].max())
    edges = np.linspace(low, high if high > low else low + 1.0, 21)
    centres = (0.5 * (edges[1:] + edges[:-1])).tolist()
    marks = []
    for label, color, weights in both:
        share, _ = np.histogram(column, bins=edges, weights=np.array(weights))
        marks.append(Bars(centres, share.tolist(), label, color, opacity=0.65))
    return Figure(marks, Axis(name), Axis("share", Percentages), alt, "half")


def plane(names: Sequence[str], columns: Sequence[Sequence[float]], weights: Sequence[tuple[str, Any]]) -> Figure:
    """Return a figure of two conditions: one disc per context, with an area proportional to its mass."""
    marks = []
    largest = max(float(np.max(mass)) for _, mass in weights)
    for (label, mass), color in zip(weights, (BLUE, ORANGE), strict=True):
        some = [i for i, share in enumerate(mass) if share > 1e-6]
        x, y = ([column[i] for i in some] for column in columns)
        sizes = [40.0 * math.sqrt(mass[i] / largest) for i in some]
        hints = [f"{label}: {text(a)}, {text(b)}: {mass[i]:.1%}" for a, b, i in zip(x, y, some, strict=True)]
        marks.append(Points(x, y, label, color, sizes=sizes, opacity=0.55, hints=hints))
    return Figure(marks, Axis(names[0]), Axis(names[1]), f"{names[0]} and {names[1]}: mass by area", "wide")
