"""The contents of the page: every number, sentence and figure of one optimizer."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

import drbo
from drbo import Measured, NotReachedError, Optimizer
from drbo.analysis import RadiusExplanation, Recommendation
from drbo.contexts.nature import in_words
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
    Dots,
    Figure,
    Line,
    Mark,
    Rule,
    Strip,
    percent,
)
from drbo.report.phrases import Phrases, rounded, shift_in_words
from drbo.report.plots import SHARES, bounds_over_time, course
from drbo.report.scales import Names, Percentages, Whole
from drbo.report.surface import box_of
from drbo.report.verdict import Verdict, came_true, verdict
from drbo.spaces.space import Row, is_number, row, text, words

LARGE = 100
"""Number of evaluations on a box above which a page does without further searches over all actions."""
CANDIDATES = 24
"""Number of the best and of the last actions that the dial of a large run chooses from."""


class PageContents:
    """The contents for one optimizer, with one method per section of the page."""

    def __init__(self, opt: Optimizer) -> None:
        self.opt = opt
        self.course = course(opt)
        self.recommended: Recommendation | None = self.course.recommended
        self.words = Phrases.of(opt)
        self.rows = np.flatnonzero(~np.isnan(self.course.outcomes)).tolist()  # of results with an outcome

    @property
    def large(self) -> bool:
        """Whether a search over the actions is left out, as it would take many seconds."""
        return len(self.course.outcomes) > LARGE and box_of(self.opt.configuration.actions) is not None

    # --- 1: four answers --------------------------------------------------------------------------------------------

    def deploy(self) -> dict[str, Any]:
        """Return what to do, what it brings on a usual day and under a shift, and how sure that is."""
        return self._answers

    @cached_property
    def _answers(self) -> dict[str, Any]:
        r, words = self.recommended, self.words
        if r is None:
            return {"action": {}, "why_not": f"There is nothing to deploy. {as_sentence(self.course.why_not)}"}
        explained = r.explain()
        known = "" if r.given is None else f" where {in_words(r.given)}"
        return {
            "action": row(r.action, "action"),
            "usual": f"{words.name} of about {words.amount(explained.expected)} on average",
            "usual_if": f"if conditions stay as they were{known}",
            "shifted": f"{words.name} of {words.limit} {words.amount(r.value)} on average",
            "shifted_if": f"if {shift_in_words(self._meanings[r.radius], explained)}",
            "word": r.statement.split(":")[0],
            "verdict": self.verdict(r),
            "limits": [as_sentence(f"{limit.word}: {limit}") for limit in r.limits.values()],
            "sentence": as_sentence(f"{r.statement} on average in every distribution {r.set_words}"),
            "trust": "" if r.claim.proven else as_sentence(str(r.trust)),
            "text": str(r),
            "reach": self._reach(r),
        }

    @cached_property
    def _meanings(self) -> dict[float, RadiusExplanation]:
        """The meaning of the radius of the run, and of each radius of the dial; together they are faster."""
        r = self.recommended
        assert r is not None  # a page without one has no radius
        radii = sorted({*self._radii, r.radius})
        return dict(zip(radii, self.opt.under().explain_radius(radii), strict=True))

    @cached_property
    def _radii(self) -> list[float]:
        """The radii of the dial; empty if there is no radius to vary."""
        r = self.recommended
        if r is None or not 0.0 < r.diameter < math.inf:
            return []
        present = r.radius if math.isfinite(r.radius) else r.diameter
        return sorted({*(share * r.diameter for share in SHARES), present})

    def verdict(self, r: Recommendation) -> Verdict:
        """Return the verdict on a recommendation."""
        space, nature = self.opt.configuration.search.space, self.opt.configuration.nature.space
        outcomes = self.course.outcomes[self.rows].tolist()
        return verdict(r, outcomes, len(space.columns) + len(nature.columns), self.words)

    def _reach(self, r: Recommendation) -> str:
        """Return the bound on the distance from the best action, as text; empty for a large run on a box."""
        if self.large:
            return ""
        left = self.opt.under().regret_bound()
        if not math.isfinite(left.value) or left.reachable in self.opt.configuration.objective.range:
            return "Too little is known about some other actions to say how much better they could be."
        word = "guaranteed" if left.claim.proven else "estimated"
        how = "all actions were compared" if left.exhaustive else "found by a search, which may miss better ones"
        better = self.words.better_by(left.value, r.value, "at most")
        return f"In the worst case, another action's {self.words.name} may still be {better} ({word}, {how})."

    # --- 2: progress ------------------------------------------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        """Return outcomes, failures and pending evaluations in order, and the bounds of the recommended action."""
        run = self.course
        came = ~np.isnan(run.outcomes)
        seen = run.outcomes[came].tolist()
        failed, waiting = run.failed.tolist(), run.waiting.tolist()
        words = self.words
        marks: list[Mark] = [Dots(run.evaluations[came].tolist(), list(seen), words.name, GREY, rows=self.rows)]
        sentence = _counted(len(seen), "outcome")
        sentence += f", {_counted(len(failed), 'failed evaluation')}" if failed else ""
        sentence += f", {len(waiting)} pending." if waiting else "."
        if len(run.at):
            at, bound, optimistic = run.at.tolist(), run.bound.tolist(), run.optimistic.tolist()
            marks += [
                Band(at, bound, optimistic, BLUE),
                Line(at, bound, "bound of the recommended action under the shift", BLUE),
                Line(at, optimistic, "its optimistic bound", ORANGE, "dot"),
            ]
            first, now = (sorted((bound[i], optimistic[i])) for i in (0, -1))
            sentence += (
                f" Under the shift, the model alone puts the {words.name} of the recommended action between "
                f"{now[0]:.4g} and {words.amount(now[1])}. After the first evaluation, it was between "
                f"{first[0]:.4g} and {words.amount(first[1])}."
            )
        if failed:
            marks.append(Strip(failed, "failed", RED, "cross", rows=np.flatnonzero(run.failures).tolist()))
        if waiting:
            marks.append(Strip(waiting, "pending: no outcome yet", GREEN, "diamond"))
        drawn = Figure(marks, Axis("evaluation", Whole), Axis(words.axis), f"{words.name} by evaluation")
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
            told = [result.outcome if key is None else result.limits.get(key) for result in self.course.results]
            pairs = [
                (i + 1, one.value if isinstance(one, Measured) else one)
                for i, one in enumerate(told)
                if one is not None
            ]
            marks: list[Mark] = []
            for label, color, kept in (("within the limit", GREEN, True), ("beyond the limit", RED, False)):
                some = [(i, y) for i, y in pairs if (limit.sign * (y - limit.threshold) >= 0.0) is kept]
                if some:
                    at_rows = [i - 1 for i, _ in some]
                    marks.append(Dots([i for i, _ in some], [y for _, y in some], label, color, rows=at_rows))
            if r is not None and pairs:
                at, bound, optimistic = (
                    part.tolist() for part in bounds_over_time(self.opt, self.course.results, r.action, name)
                )
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
        if r is None or not self._radii:
            return None
        radii, diameter = self._radii, r.diameter
        present = r.radius if math.isfinite(r.radius) else diameter
        candidates = self._candidates(r)
        found = self.opt.under().profile(radii, actions=candidates)
        amount, change = self.words.amount, self.words.change
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
                "brings": {
                    "model's bound under a shift": amount(found.bound[i]),
                    "expected on a usual day": amount(found.expected[i]),
                    "price: lost on a usual day": change(found.price[i], found.expected[i], "gained"),
                    "protection: gained in the worst case": change(found.protection[i], found.bound[i], "lost"),
                },
                "meaning": str(self._meanings[radius]),
            }
            for i, (radius, action) in enumerate(zip(found.radius.tolist(), found.actions, strict=True))
            if action is not None  # no action is known to meet all limits
        ]
        radii = [stop["radius"] for stop in stops]
        if present not in radii:
            return None
        _, _, unit = r.set_words.partition(", in ")
        marks = [
            Line(radii, [s["expected"] for s in stops], "expected on a usual day", GREEN),
            Line(radii, [s["bound"] for s in stops], "model's bound under a shift", BLUE),
            Rule(present, "radius of this run", GREY, "dot"),
            Rule(present, "radius of the dial", GREY, id="dial-mark"),
        ]
        alt = "bound and expectation of the deployed action by radius"
        drawn = Figure(
            marks, Axis(f"radius, in {unit}" if unit else "radius", pad=0.02), Axis(self.words.axis), alt, "half"
        )
        for stop, at in zip(stops, drawn.scales()[0].at(radii).tolist(), strict=True):
            stop["at"] = percent(at)
        different = len({words(s["action"]) for s in stops})
        deployed = f"{different} different actions would" if different > 1 else "One and the same action would"
        own = ", which may break a limit under the shift" if self.opt.configuration.limits else ""
        meaning = self._meanings[r.radius].means or "The radius says how far conditions may shift."
        sentence = (
            f"{meaning} This run uses {present:.3g}{_part(present / diameter)}. "
            f"{deployed} be deployed over the whole dial. Price and protection compare each action with the one "
            f"expected to be best on a usual day{own}. {self._model_alone(r)}"
        )
        mine = next(stop for stop in stops if stop["present"])["action"]
        if words(mine) != words(row(r.action, "action")):
            sentence += " The dial searches again, so its action for this run's radius may differ slightly."
        if candidates is not None:
            sentence += f" Only {len(candidates)} of the evaluated actions were considered."
        return {"stops": stops, "figure": drawn, "sentence": sentence}

    def _model_alone(self, r: Recommendation) -> str:
        """Return how bounds of the model alone differ from the bound of the first screen."""
        said = "Bounds here are those of the model alone."
        alone = r.trust.guess
        if f"{alone:.3g}" == f"{r.value:.3g}":
            return said
        return (
            f"{said} The bound in the answer above, {self.words.amount(r.value)}, is more cautious: it "
            "allows for bad outcomes in untried conditions."
        )

    def _candidates(self, r: Recommendation) -> list[Any] | None:
        """Return the actions of a large run that the dial chooses from; None for all.

        They are the recommended one, those of the best outcomes, and the last ones.
        """
        if not self.large or self.opt.configuration.limits:
            return None
        told = [(result.action, result.outcome) for result in self.course.results if result.outcome is not None]
        sign = -1.0 if self.opt.configuration.maximize else 1.0
        best = sorted(told, key=lambda one: sign * one[1])[:CANDIDATES]
        chosen = [r.action, *(action for action, _ in (*best, *told[-CANDIDATES:]))]
        return list({words(row(action, "action")): action for action in chosen}.values())

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

        def part(value: float) -> str:
            return self.words.amount(rounded(value, explained.expected))

        sentence = (
            "The reference is what a usual day looks like: how often each condition occurs. "
            f"On a usual day the {self.words.name} is expected to be {self.words.amount(explained.expected)}. A shift "
            f"of the conditions may cost {part(explained.shift)}. The model's own uncertainty may cost "
            f"{part(explained.ignorance)} more."
        )
        if explained.untried > 1e-3 * abs(explained.expected - explained.value):
            sentence += f" Untried conditions may cost {part(explained.untried)} more."
        return {"sentence": sentence, "figures": figures, "text": "\n".join(explained.conditions())}

    # --- 5: the baseline, and leave-one-out predictions -------------------------------------------------------------

    def baseline(self) -> dict[str, Any] | None:
        """Return the difference between the recommended action and the baseline; None without one."""
        r, today = self.recommended, self.opt.configuration.arguments["baseline"]
        if r is None or today is None or not supports(self.opt.posterior, SupportsCovariance):
            return None
        found = self.opt.under().compare(r.action)
        own, usual = self.words, r.explain().expected
        worst = own.better_by(found.worst, usual, "at least" if found.worst >= 0.0 else "at most")
        sentence = (
            f"Today's action is {words(row(today, 'action'))}. On a usual day the recommended action's {own.name} is "
            f"expected to be {own.better_by(found.expected, usual)}. In the shift that favours today's action most, "
            f"the {own.name} of the recommended action is {worst}"
            f"{'' if found.complete else ', among the conditions that were compared'}."
        )
        if found.untried:
            untried = " and ".join(words(row(action, "action")) for action in found.untried)
            sentence = (
                f"{sentence} This comparison is a guess: there is no evaluation of {untried}, or of an action near it."
            )
        rows = {
            "on a usual day, expected": found.expected,
            "on a usual day, at worst": found.lower,
            "on a usual day, at best": found.upper,
            "under the least favourable shift": found.worst,
        }
        return {"sentence": sentence, "rows": {name: own.better_by(value, usual) for name, value in rows.items()}}

    def trust(self) -> dict[str, Any] | None:
        """Return every outcome and its prediction from the others; None with fewer than three outcomes."""
        able = supports(self.opt.posterior, SupportsLeaveOneOut)
        if not able or not self.rows:
            return None
        found = self.opt.leave_one_out(most=MOST_POINTS)
        if len(found.outcome) < 3:
            return None
        inside, (least, most) = found.inside, self.opt.configuration.objective.range
        low, high = (np.clip(found.mean + side * found.width * found.std, least, most) for side in (-1.0, 1.0))
        own = np.array(self.rows)[found.rows] if len(self.rows) == found.told else None
        ends = [float(found.outcome.min()), float(found.outcome.max())]
        marks: list[Mark] = [Line(ends, ends, "predicted exactly", GREY, "dash", 1.0)]
        for chosen, name, color in ((inside, "within the bounds of its prediction", BLUE), (~inside, "outside", RED)):
            if chosen.any():
                x, y, below, above = (part[chosen].tolist() for part in (found.outcome, found.mean, low, high))
                rows = () if own is None else own[chosen].tolist()
                marks.append(Dots(x, y, name, color, low=below, high=above, rows=rows))
        alt = "outcomes against their leave-one-out predictions"
        drawn = Figure(
            marks,
            Axis(self.words.axis),
            Axis(f"predicted from the others{self.words.axis.removeprefix(self.words.name)}"),
            alt,
        )
        r = self.recommended
        tested = "" if r is None else as_sentence(str(came_true(r)))
        return {"sentence": f"{tested} In the picture, {found}.".strip(), "figure": drawn}

    # --- 6: the model -----------------------------------------------------------------------------------------------

    def model(self) -> dict[str, Any] | None:
        """Return f along each parameter at the recommendation, and maps of two parameters or conditions."""
        r = self.recommended
        if r is None:
            return None
        sentence = (
            f"Lines show the expected {self.words.name} along one parameter, with the others as recommended. Bands are "
            "bounds on it. Marks are evaluations."
        )
        own = self.opt, self.course.results, r
        return {"sentence": sentence, "slices": surface.slices(*own), "maps": surface.maps(*own)}

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
            most = f"fixing it would remove {shares[order[-1]]:.0%} of the variation of the {self.words.name}"
            sentence = (
                f"What matters most is {order[-1]}: {most}. Bars show this share (the total effect) for each parameter "
                "and condition."
            )
        advice = [as_sentence(one) for one in r.explain().advice()]
        if r.trust.verdict == "extrapolated" and not r.claim.proven:
            advice.insert(0, f"First check the worst case: evaluate {r.check}.")
        alt = "share of the variation of f by parameter and condition"
        across = Axis("share of the variation", Percentages)
        drawn = Figure([bars], across, Axis("", Names), alt, height=90 + 34 * len(order)) if order else None
        return {"sentence": sentence, "next": " ".join(advice), "shares": shares, "figure": drawn}

    # --- 8: all results ---------------------------------------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """Return one row per result, of the last ones if there are many, the column names, and the number of all."""
        rows: list[Row] = []
        every = self.course.results
        for result in every[-MOST_POINTS:]:
            when = None if result.time is None else datetime.fromtimestamp(result.time, UTC)
            one: Row = {"result": result.id, "suggestion": result.number}
            for kind, value in (("action", result.action), ("context", result.context)):
                one |= {(name if name not in one else f"{kind}.{name}"): v for name, v in row(value, kind).items()}
            units = {name: limit.unit for name, limit in self.opt.configuration.limits.items()}
            one |= {
                self.words.axis: result.outcome,
                **{
                    name if units.get(name) is None else f"{name} ({units[name]})": getattr(value, "value", value)
                    for name, value in result.limits.items()
                },
                **({"failed": "yes" if result.failed else "no"} if self.course.failures.any() else {}),
                "time (UTC)": None if when is None else when.strftime("%Y-%m-%d %H:%M:%S"),
            }
            rows.append(one)
        columns = list(dict.fromkeys(name for one in rows for name in one))
        cells = [[one.get(name) for name in columns] for one in rows]
        return {"columns": columns, "rows": cells, "count": len(every)}

    def configuration(self) -> Row:
        """Return the arguments of the optimizer, and the versions."""
        versions = {"drbo": drbo.__version__, "Python": platform.python_version(), "numpy": np.__version__}
        return {**self.arguments(self.opt), **versions}

    @staticmethod
    def arguments(opt: Optimizer) -> Row:
        """Return the arguments of an optimizer as text."""
        own = opt.configuration
        made = {
            "actions": own.actions, "contexts": own.contexts, "ambiguity": own.ambiguity, "setting": own.setting,
            "surrogate": own.surrogate, "policy": own.policy, "beta": own.beta,
            own.objective.name: "maximised" if own.maximize else "minimised",
            **{f"limit of {name}": limit for name, limit in own.limits.items()},
        }  # fmt: skip
        further = {name: own.arguments.get(name) for name in ("unit", "outcome_range")}
        if own.arguments["baseline"] is not None:
            further["baseline"] = words(row(own.arguments["baseline"], "action"))
        made |= {name: value for name, value in further.items() if value is not None}
        return {name: str(value) for name, value in made.items()}


def as_sentence(said: str) -> str:
    """Return a text as a sentence."""
    joined = " ".join(said.split())
    return joined[:1].upper() + joined[1:] + ("" if joined.endswith(".") else ".")


def _part(share: float) -> str:
    """Return the share of a radius in the largest one, as text; nothing for a radius of 0."""
    if share == 0.0:
        return ""
    return f", which is {'less than 1%' if share < 0.01 else f'{share:.0%}'} of the largest that makes a difference"


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
        return Figure(marks, Axis(name, Names), Axis("share", Percentages), alt, "half")
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
        marks.append(Dots(x, y, label, color, sizes=sizes, opacity=0.55, hints=hints))
    return Figure(marks, Axis(names[0]), Axis(names[1]), f"{names[0]} and {names[1]}: mass by area", "wide")
