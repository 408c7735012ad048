"""The claims of the paper, each with the run that shows it, the number that came out, and whether the claim holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import drbo
from drbo.experiments.records import Output, Plan
from drbo.models import SupportsInformationGain, maximum_information_gain
from drbo.models.surrogate import supports
from drbo.names import SettingName
from drbo.radius import Theoretical, empirical
from drbo.validation import FloatArray

__all__ = ["claims"]

Rows = Sequence[Mapping[str, Any]]

NORM, NOISE, DELTA, RADIUS = 2.0, 0.1, 0.1, 0.2
"""Of the functions on which the theorems are tried."""
LINEAR = 0.5
"""Regret counts as linear if the regret per round in the last quarter is this share of the mean one, or more."""


def claims(plan: Plan, tables: Mapping[str, Rows]) -> Output:
    """Return a row per claim, from the tables of the figures and from runs of the theorems.

    A figure that is not among the tables was not run, and its claims say so. The theorems are tried on `plan.runs`
    functions, at most ten, of `plan.rounds` rounds, at most 100.
    """
    rows = [
        *_figure1(tables.get("figure1", ())),
        *_figure2(tables.get("figure2", ())),
        *_corollary4(tables.get("corollary4", ())),
        *_figure3(tables.get("figure3", ())),
        *_theorems(min(plan.runs, 10), min(plan.rounds, 100), plan.seed),
    ]
    return Output([], rows)


def _row(claim: str, where: str, run: str, number: str, holds: bool | str) -> dict[str, Any]:
    said = holds if isinstance(holds, str) else "yes" if holds else "no"
    return {"claim": claim, "where": where, "run": run, "number": number, "holds": said}


def _figure1(rows: Rows) -> Iterator[dict[str, Any]]:
    claim = "benchmark 1: the stochastic, robust and worst-case solutions differ; benchmark 2: they coincide"
    if not rows:
        yield _row(claim, "section 4", "figure1", "", "not run")
        return
    x = {row["problem"]: [float(row[f"{name} x"][0]) for name in ("stochastic", "robust", "StableOpt")] for row in rows}
    apart = np.diff(np.sort(x["benchmark_1"])).min() > 0.1 and np.ptp(x["benchmark_2"]) < 0.05
    number = "; ".join(f"{name}: x = {', '.join(f'{v:.2f}' for v in values)}" for name, values in x.items())
    yield _row(claim, "section 4", "figure1", number, bool(apart))


def _figure2(rows: Rows) -> Iterator[dict[str, Any]]:
    wanted = [
        ("benchmark 1: UCB has linear robust regret", "benchmark_1", "UCB", True, ("general", "simulator")),
        ("benchmark 1: StableOpt has linear robust regret", "benchmark_1", "StableOpt", True, ("general", "simulator")),
        ("benchmark 1: DRBO has sublinear robust regret", "benchmark_1", "DRBO", False, None),
        ("benchmark 2: all three methods have sublinear regret", "benchmark_2", None, False, None),
    ]
    for claim, problem, method, linear, settings in wanted:
        own = [
            row
            for row in rows
            if row["problem"] == problem
            and row["method"] in ((method,) if method else ("DRBO", "UCB", "StableOpt"))
            and (settings is None or row["setting"] in settings)
        ]
        late = [row["per round, last quarter"] * row["rounds"] / row["regret"] for row in own]
        number = f"last quarter / mean of all rounds: {min(late):.2f} to {max(late):.2f}" if own else ""
        as_said = sum((share >= LINEAR) == linear for share in late)
        held: bool | str = as_said == len(own) if as_said in (0, len(own)) else f"in part: {as_said} of {len(own)}"
        held = held if own else "not run"
        yield _row(claim, "section 4, figure 2", "figure2", number, held)
    by = {r["method"]: r for r in rows if r["problem"] == "benchmark_1" and r["setting"] == SettingName.DATA_DRIVEN}
    claim = "data-driven: DRBO has smaller regret than UCB and StableOpt if the solutions differ"
    yield _smallest(claim, "section 3.2", "figure2, a fifth of Corollary 4's radius", by)


def _corollary4(rows: Rows) -> Iterator[dict[str, Any]]:
    own = {row["method"]: row for row in rows if row["problem"] == "benchmark_1"}
    yield _smallest("the same with the literal radius of Corollary 4", "section 3.2", "corollary4", own)


def _smallest(claim: str, where: str, run: str, own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of a claim that DRBO has the smallest regret, beyond one standard error of it and the other."""
    if not own:
        return _row(claim, where, run, "", "not run")
    number = ", ".join(f"{m} {own[m]['regret']:.1f} +- {own[m]['standard error'] or 0.0:.1f}" for m in _THREE)
    least = {m: own[m]["regret"] - own["DRBO"]["regret"] for m in ("UCB", "StableOpt")}
    errors = {m: math.hypot(own[m]["standard error"] or 0.0, own["DRBO"]["standard error"] or 0.0) for m in least}
    ahead = [m for m in least if least[m] > errors[m]]
    return _row(claim, where, run, number, "yes" if len(ahead) == 2 else f"of {ahead[0]} only" if ahead else "no")


_THREE = ("DRBO", "UCB", "StableOpt")


def _figure3(rows: Rows) -> Iterator[dict[str, Any]]:
    own = {row["method"]: row for row in rows}
    named = [
        ("wind: DRBO earns more than UCB, StableOpt and no commitment", "revenue"),
        ("wind: DRBO has almost no robust regret", "robust regret"),
        ("wind: UCB has linear robust regret", "robust regret"),
        ("wind: StableOpt is too conservative for either objective", "mean commitment"),
    ]
    for claim, column in named:
        if not own:
            yield _row(claim, "section 4, figure 3", "figure3", "", "not run")
            continue
        value = {m: float(own[m][column]) for m in (*_THREE, "no commitment", "exact DRO")}
        if column == "revenue":
            held: bool | str = value["DRBO"] > max(value[m] for m in ("UCB", "StableOpt", "no commitment"))
        elif column == "mean commitment":
            held = "yes" if value["StableOpt"] < value["exact DRO"] else "no: it commits as much as the exact solution"
        elif "UCB" in claim:
            held = value["UCB"] > 2.0 * value["DRBO"]
        else:
            held = "in part: small, not zero" if 0.0 < value["DRBO"] < 0.5 * value["UCB"] else value["DRBO"] <= 0.0
        number = f"{column}: " + ", ".join(f"{m} {v:.3g}" for m, v in value.items())
        yield _row(claim, "section 4, figure 3", f"figure3, {own['DRBO']['hours']} hours", number, held)


def _theorems(runs: int, rounds: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of Lemma 1 to Corollary 6, from functions of norm 2 on 20 actions and 10 contexts."""
    tried = {
        name: [_tried(name, rounds, np.random.default_rng([seed, k])) for k in range(runs)] for name in SettingName
    }
    run = f"{runs} functions of norm {NORM:g}, {rounds} rounds, delta {DELTA}"
    false = sum(one["false"] for several in tried.values() for one in several)
    whole = sum(one["rounds"] for several in tried.values() for one in several)
    number = f"{false:g} of {whole:g} rounds with a bound beyond f"
    yield _row("Lemma 1: the confidence bounds hold at all times", "lemma 1", f"3 x {run}", number, false == 0)
    named = {
        "general": ("Theorem 2: robust regret in the general setting", "theorem 2"),
        "data-driven": ("Corollary 4: robust regret in the data-driven setting, bound of the proof", "corollary 4"),
        "simulator": ("Theorem 5: robust regret in the simulator setting, bound of the proof", "theorem 5"),
    }
    for name, (claim, where) in named.items():
        share = max(one["share"] for one in tried[SettingName(name)])
        yield _row(claim, where, run, f"largest regret / bound: {share:.4f}", share <= 1.0)
    several = tried[SettingName.SIMULATOR]
    simple = max(one["simple"] for one in several)
    number = f"largest simple regret / bound: {simple:.4f}"
    yield _row("Corollary 6: simple regret of eq. 10", "corollary 6", run, number, simple <= 1.0)
    claim = "Theorem 5 and Corollary 6 as printed follow from their proof"
    number = "the proof has sum sigma^2 <= 2 gamma, so a factor sqrt(2) is missing; regret / printed bound: "
    printed = max(one["share"] for one in several) * math.sqrt(2.0)
    yield _row(claim, "theorem 5", run, number + f"{printed:.4f}", "no; not refuted by the runs")
    outside = sum(one["outside"] for one in tried[SettingName.DATA_DRIVEN])
    number = f"truth outside the ball in {outside:g} of {runs * rounds} rounds"
    yield _row("Lemma 3: the ball of Corollary 4 holds the truth at all times", "lemma 3", run, number, outside == 0)


def _tried(setting: SettingName, rounds: int, rng: np.random.Generator) -> dict[str, float]:
    """Return what one run of a setting says about its theorem."""
    actions, contexts = np.linspace(0.0, 1.0, 20)[:, None], np.linspace(0.0, 1.0, 10)[:, None]
    kernel = drbo.Product(drbo.RBF(0.2), drbo.Matern(0.3, nu=1.5))
    gp, ball, beta = (
        drbo.GP(kernel, NOISE),
        drbo.MMD(contexts, kernel.context),
        drbo.TheoreticalBeta(NORM, NOISE, DELTA),
    )
    f = function_of_norm(NORM, kernel, actions, contexts, rng)
    reference = np.full(len(contexts), 1.0 / len(contexts))
    rule = Theoretical(delta=DELTA)
    kinds = {
        SettingName.GENERAL: (drbo.General(), drbo.Optimism()),
        SettingName.DATA_DRIVEN: (drbo.DataDriven(radius=rule), drbo.Optimism()),
        SettingName.SIMULATOR: (drbo.Simulator(reference, RADIUS), drbo.Optimism(drbo.Uncertain())),
    }
    made, policy = kinds[setting]
    opt = drbo.Optimizer(actions, contexts, ambiguity=ball, setting=made, surrogate=gp, beta=beta, policy=policy)
    terms: dict[str, Any] = {"reference": reference, "radius": RADIUS} if setting is SettingName.GENERAL else {}
    chosen, seen, false, outside = [], [], 0, 0
    for _ in range(rounds):
        s = opt.ask(**terms)
        j = int(rng.integers(len(contexts))) if s.context_index is None else s.context_index
        where: dict[str, Any] = {"context_index": j} if s.context_index is None else {}
        opt.tell(s, float(f[s.action_index, j]) + NOISE * rng.normal(), **where)
        chosen.append(s.action_index)
        seen.append(j)
        mean, variance = opt.posterior.moments(actions)
        width = _width(opt, beta, gp, setting)
        false += bool((np.abs(f - mean) > width * np.sqrt(variance) + 1e-12).any())
        outside += setting is SettingName.DATA_DRIVEN and ball.distance(s.reference, reference) > s.radius
    gamma = float(maximum_information_gain(gp, actions, contexts, rounds).upper[-1])
    width, shift = _width(opt, beta, gp, setting), drbo.regret.shift_norm(f, ball)
    references, radii = reference, np.full(rounds, RADIUS)
    if setting is SettingName.DATA_DRIVEN:
        before = [np.array(seen[:t], dtype=np.intp) for t in range(rounds)]
        references = np.array([empirical(one, len(contexts)) for one in before])
        radii = np.array([rule.radius(one, ball, len(contexts)) for one in before])
        bound = drbo.regret.data_driven_bound(width, gamma, rounds, shift, DELTA, gp.ridge)
    elif setting is SettingName.GENERAL:
        bound = drbo.regret.general_bound(width, gamma, radii, shift, DELTA, gp.ridge)
    else:
        bound = drbo.regret.simulator_bound(width, gamma, rounds, gp.ridge)
    lost = float(drbo.regret.robust_regret(f, ball, references, radii, chosen).cumulative[-1])
    found = {"share": lost / bound, "false": float(false), "rounds": float(rounds), "outside": float(outside)}
    if setting is SettingName.SIMULATOR:
        final = int(opt.recommend_iterate().action_index)
        simple = drbo.regret.simple_regret(f, ball, reference, RADIUS, final)
        found["simple"] = simple / drbo.regret.simple_regret_bound(width, gamma, rounds, gp.ridge)
    return found


def _width(opt: drbo.Optimizer, beta: drbo.TheoreticalBeta, gp: drbo.GP, setting: SettingName) -> float:
    events = {SettingName.GENERAL: 2, SettingName.DATA_DRIVEN: 3, SettingName.SIMULATOR: 1}[setting]
    known = opt.posterior
    assert supports(known, SupportsInformationGain)
    return beta.width(known.information_gain, gp.ridge, events)


def function_of_norm(
    norm: float, kernel: drbo.Product, actions: FloatArray, contexts: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return a function of that norm in the kernel's Hilbert space, on the grid: a sum of 15 kernels."""
    i, j, a = rng.integers(len(actions), size=15), rng.integers(len(contexts), size=15), rng.normal(size=15)
    kx, kc = kernel.action(actions, actions), kernel.context(contexts, contexts)
    squared = a @ (kx[np.ix_(i, i)] * kc[np.ix_(j, j)]) @ a
    return np.asarray(np.einsum("s,sx,sc->xc", a, kx[i], kc[j]) * norm / math.sqrt(squared))
