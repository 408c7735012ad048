"""The rows of the table: each checks equality first, then times drbo's public API and its opponents in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from drbo import GP, MMD, RBF, General, Optimizer
from drbo.experiments.wind_year import WindYear, decide
from drbo.models import ExactPosterior
from drbo.problems import la_haute_borne
from instances import BETA, GP_KERNEL, NOISE, WorstCases, cholesky, worst_cases
from measure import best_of, clock, peak, reset_peak, resident
from opponents import (
    HAS_BOTORCH,
    WORST_CASE,
    Solver,
    botorch_posterior,
    cvxpy_clarabel,
    reference_round,
    sklearn_posterior,
)
from world import Array, SamplePath, gaussian, grid

DENSE = "CVXPY + Clarabel, dense factor"
EQUAL = 1e-6
"""How far optima may differ, as a share of the values' range."""


@dataclass(frozen=True)
class Row:
    """One line of the table; times in seconds."""

    work: str
    ours: float
    limit: float | None = None
    """The target of `ours`; None: for information."""
    opponents: dict[str, float] = field(default_factory=dict)
    factor: float | None = None
    """How many times faster than the first opponent we must be."""
    note: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        """How many times faster than the first opponent we are."""
        return next(iter(self.opponents.values())) / self.ours if self.opponents else None

    @property
    def met(self) -> bool | None:
        """Whether every target of the row is met; None if it has none."""
        if self.limit is None and self.factor is None:
            return None
        return bool(self.limit is None or self.ours <= self.limit) and (
            self.factor is None or (self.ratio is not None and self.ratio >= self.factor)
        )


def _check_optimum(name: str, instance: WorstCases, solve: Solver, sample: Array) -> int:
    """Raise unless the opponent finds the optima that we find; return on how many vectors it gave up."""
    ours = instance.mmd.worst_case(sample, instance.reference, instance.radius).expectation
    theirs = np.array([solve(values) for values in sample])
    difference = np.abs(theirs - ours) / np.ptp(sample, axis=1)
    if np.nanmax(difference, initial=0.0) > EQUAL:
        raise AssertionError(f"{name} differs by {np.nanmax(difference):.2g} of the range at {instance.name}")
    return int(np.isnan(theirs).sum())


def _solve_all(solve: Solver, values: Array) -> None:
    for row in values:
        solve(row)


def worst_case_rows(quick: bool) -> list[Row]:
    """Return the batch of 100 on the task's instance and its variants, against every solver."""
    found = []
    targets = {30: 4e-6, 100: 10e-6, 300: 40e-6, 1000: 150e-6}
    for n, limit in targets.items():
        for lengthscale, share in ((0.1, 1.0), (0.05, 1.0), (0.3, 1.0), (0.1, 0.1)):
            instance = worst_cases(n, lengthscale, share)
            main = (lengthscale, share) == (0.1, 1.0)
            names = list(WORST_CASE) if main else ["CVXPY + Clarabel"]
            rows = 2 if quick else 5
            given = (instance.reference, instance.radius)
            ours = best_of(partial(instance.mmd.worst_case, instance.values, *given), 10 if quick else 100)
            sample = instance.values[:: 100 // rows]
            opponents, note = {}, f"rank {instance.mmd.placed.features.shape[1]}"
            for name in names:
                solve = WORST_CASE[name](instance.mmd.placed.features, *given)
                failed = _check_optimum(name, instance, solve, sample)
                if failed:
                    note += f"; {name} gave up on {failed} of {len(sample)}"
                opponents[name] = best_of(partial(_solve_all, solve, sample), 1 if quick else 3) / len(sample)
            if main and n in (100, 1000):
                solve = cvxpy_clarabel(instance.dense_factor, *given)
                opponents[DENSE] = best_of(partial(solve, sample[0]), 1)
            found.append(
                Row(
                    f"worst case, batch of 100, {instance.name}",
                    ours / 100,
                    limit if main else None,
                    opponents,
                    1000.0 if main and n >= 100 else None,
                    note,
                )
            )
    return found


def warm_start_rows(quick: bool) -> list[Row]:
    """Return a solve with the previous round's solution at hand against a cold one.

    Both are differences of calls that share all overhead: cold is a call with one vector less a call with a flat one,
    which needs no solve; warm is a call that goes 20 times to and fro between last round's bounds of an action and this
    round's, less one with the former alone, per solve. Summed over all actions.
    """
    found = []
    for n in (30, 100, 300, 1000):
        instance = worst_cases(n)
        flat = np.ones((1, n))

        def call(values: Array, i: WorstCases = instance) -> float:
            return best_of(lambda: i.mmd.worst_case(values, i.reference, i.radius), 5 if quick else 40)

        nothing = min(call(flat) for _ in range(5))
        cold = warm = 0.0
        for before, now in zip(instance.previous, instance.values, strict=True):
            cold += call(now[None]) - nothing
            warm += (call(np.stack([before, *[now, before] * 20])) - call(before[None])) / 40
        count = len(instance.values)
        row = Row(f"warm start, n={n}", warm / count, None, {"cold": cold / count}, 2.0)
        found.append(row)
    return found


class Round:
    """An optimizer on a grid, and the world that it learns about.

    `drifting`: with another reference every round. `failing`: the share of the evaluations that fail.
    """

    def __init__(
        self, n_actions: int, n_contexts: int, drifting: bool = False, seed: int = 0, failing: float = 0.0
    ) -> None:
        self._drifting, self._failing = drifting, failing
        self.actions, self.contexts = grid(n_actions), grid(n_contexts)
        self.mmd = MMD(self.contexts, RBF(0.1))
        self.reference = gaussian(self.contexts, 0.5, 0.05)
        self.radius = self.mmd.distance(self.reference, gaussian(self.contexts, 0.45, 0.1))
        self._rng = np.random.default_rng(seed)
        self._f = SamplePath(self._rng)
        self.optimizer = Optimizer(
            self.actions,
            self.contexts,
            ambiguity=self.mmd,
            setting=General(),
            surrogate=GP(GP_KERNEL, NOISE),
            beta=BETA,
        )
        self.points: list[tuple[float, float]] = []
        self.outcomes: list[float] = []
        self.chosen: list[int] = []

    def play(self) -> float:
        """Play one round; return the time that the optimizer took: ask and tell."""
        if self._drifting:
            self.reference = gaussian(self.contexts, 0.5 + 0.1 * np.sin(len(self.outcomes)), 0.05)
        start = clock()
        suggestion = self.optimizer.ask(reference=self.reference, radius=self.radius)
        asked = clock() - start
        j = int(self._rng.choice(len(self.contexts), p=self.reference))
        y = self._f(suggestion.action, self.contexts[j]) + NOISE * self._rng.normal()
        failed = bool(self._failing) and self._rng.random() < self._failing
        start = clock()
        self.optimizer.tell(suggestion, None if failed else y, context_index=j, failed=failed)
        told = clock() - start
        self.points.append((float(suggestion.action[0]), float(self.contexts[j, 0])))
        self.outcomes.append(y)
        self.chosen.append(suggestion.action_index)
        return asked + told


def round_time(n_actions: int, n_contexts: int, t: int, repeats: int, drifting: bool = False) -> float:
    """Return the time of a round with t observations: the mean of the rounds around t, each the best of `repeats`."""
    times, around = [], 5
    for _ in range(repeats):
        play = Round(n_actions, n_contexts, drifting)
        times.append([play.play() for _ in range(t + around + 1)][t - around :])
    return float(np.min(times, axis=0).mean())


def whole_round_rows(quick: bool) -> list[Row]:
    """Return one whole round at t = 100 on three grids against the reference loop, the same action chosen."""
    found = []
    t = 100
    for (n, m), limit in {(50, 50): 0.5e-3, (100, 100): 1.5e-3, (1000, 100): 6e-3}.items():
        play = Round(n, m)
        for _ in range(t):
            play.play()
        points, outcomes = np.array(play.points), np.array(play.outcomes)
        z = np.stack([np.repeat(play.actions[:, 0], m), np.tile(play.contexts[:, 0], n)], axis=1)
        ours = round_time(n, m, t, 3 if quick else 10)
        posterior = play.optimizer.posterior
        assert isinstance(posterior, ExactPosterior)
        opponents, note = {}, ""
        own = play.optimizer.ask(reference=play.reference, radius=play.radius).action_index
        dense = cholesky(RBF(0.1)(play.contexts, play.contexts))
        for name, factor in (("reference loop", play.mmd.placed.features), ("reference loop, dense factor", dense)):
            if n == 1000 and (quick or factor is dense):
                continue
            solve = cvxpy_clarabel(factor, play.reference, play.radius)
            loop = partial(reference_round, points, outcomes, z, n, solve, BETA, NOISE)
            x, _ = loop()
            if x != own:
                raise AssertionError(f"the {name} chose action {x}, drbo {own} on {n}x{m}")
            opponents[name] = best_of(loop, 1 if quick or n == 1000 else 3, warm_up=False)
        opponents = dict(sorted(opponents.items(), key=lambda item: item[1]))  # the verdict is on the faster one
        for name, predict in (("scikit-learn GP", sklearn_posterior), ("BoTorch posterior", botorch_posterior)):
            if name.startswith("BoTorch") and not HAS_BOTORCH:
                note = "BoTorch not installed"
                continue
            mean, std = predict(points, outcomes, z, NOISE)
            np.testing.assert_allclose(mean.reshape(n, m), posterior.mean, atol=1e-6)
            # The root of a variance that is itself rounded.
            np.testing.assert_allclose(std.reshape(n, m), posterior.std, atol=1e-5)
            work_of = partial(predict, points, outcomes, z, NOISE)
            opponents[name] = best_of(work_of, 1 if quick else 3, warm_up=False)
        work = f"whole round at t={t}, {n}x{m}"
        found.append(
            Row(work, ours, limit, opponents, 1000.0 if next(iter(opponents)).startswith("reference") else None, note)
        )
        drifting = round_time(n, m, t, 3 if quick else 10, drifting=True)
        found.append(Row(f"{work}, another reference every round", drifting, limit, note="nothing kept to prune with"))
    return found


def large_rows(quick: bool) -> list[Row]:
    """Return the rows on large sets, each in a process of its own, whose memory is measured."""
    contexts = _in_process("contexts", quick)
    actions = _in_process("actions", quick)
    beyond = contexts["memory"] / 1e6
    found = [
        Row("10,000 contexts: one worst case", contexts["solve"], 20e-3, note=f"rank {contexts['rank']:.0f}"),
        Row("10,000 contexts: set-up and embedding of the reference", contexts["embed"], 2.0),
        Row("10,000 contexts: memory beyond the inputs", beyond, 200.0, unit="MB"),
        Row(
            f"{actions['n']:,.0f} actions x 100 contexts, a round at t=50",
            actions["round"],
            1.0,
            note=f"peak memory {actions['per_point']:.0f} bytes a grid point, {actions['per_point'] / 8:.0f} grids",
        ),
    ]
    return found


def _in_process(what: str, quick: bool) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--measure", what, *(["--quick"] * quick)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: float(value) for name, value in json.loads(answer.splitlines()[-1]).items()}


def measure_contexts() -> dict[str, float]:
    """Measure 10,000 contexts: set-up, a worst case, memory. Alone in its process."""
    small = worst_cases(100)
    small.mmd.worst_case(small.values, small.reference, small.radius)
    n = 10_000
    contexts = grid(n)
    reference = gaussian(contexts, 0.5, 0.05)
    rng = np.random.default_rng(0)
    f = SamplePath(rng)
    values = np.array([[f(x, c) for c in contexts] for x in grid(5)])
    before = resident()
    reset_peak()
    start = clock()
    mmd = MMD(contexts, RBF(0.1))
    radius = mmd.distance(reference, gaussian(contexts, 0.45, 0.1))
    mmd.worst_case(values[0], reference, radius)
    embed = clock() - start
    solves = [best_of(partial(mmd.worst_case, v, reference, radius), 10) for v in values]
    return {
        "solve": max(solves),
        "embed": embed,
        "memory": float(peak() - before),
        "rank": float(mmd.placed.features.shape[1]),
    }


def measure_actions(quick: bool) -> dict[str, float]:
    """Measure a round on 100,000 x 100 at t = 50: time and peak memory. Alone in its process."""
    warm = Round(20, 100)
    for _ in range(3):
        warm.play()
    n = 10_000 if quick else 100_000
    before = resident()
    reset_peak()
    play = Round(n, 100)
    times = [play.play() for _ in range(53)]
    return {"n": float(n), "round": float(np.mean(times[48:])), "per_point": (peak() - before) / (n * 100)}


def growth_rows(quick: bool) -> tuple[list[Row], Array]:
    """Return the cost of a round against t on a 100x100 grid, up to 1,000 observations, and its times (repeats, t)."""
    last = 300 if quick else 1000
    times = []
    for _ in range(1 if quick else 3):
        play = Round(100, 100)
        times.append([play.play() for _ in range(last)])
    best = np.min(times, axis=0)
    t = np.arange(last)
    window = 25
    smooth = np.median(best[: last // window * window].reshape(-1, window), axis=1)
    centre = t[: len(smooth) * window].reshape(-1, window).mean(axis=1)
    slope, intercept = np.polyfit(centre, smooth, 1)
    exponent = np.polyfit(np.log(centre[len(centre) // 2 :]), np.log(smooth[len(centre) // 2 :]), 1)[0]
    residual = smooth - (slope * centre + intercept)
    r2 = 1.0 - (residual**2).sum() / ((smooth - smooth.mean()) ** 2).sum()
    note = (
        f"{1e3 * intercept:.2f} ms + {1e6 * slope:.2f} us a observation, R2 {r2:.3f}; exponent of the last half "
        f"{exponent:.2f} (linear: at most 1)"
    )
    row = Row(f"a round at t={last} on 100x100", float(smooth[-1]), None, note=note)
    exponent_row = Row("growth of a round's cost with t: exponent", float(exponent), 1.1, unit="")
    return [row, exponent_row], np.stack([centre, smooth])


def long_rows(quick: bool) -> list[Row]:
    """Return how the cost of a round grows over 3,000 rounds on a 50x50 grid where 40% of the evaluations fail."""
    last, window = 600 if quick else 3000, 50
    play = Round(50, 50, failing=0.4)
    times = [play.play() for _ in range(last // 2)]
    before = resident()
    times += [play.play() for _ in range(last - last // 2)]
    smooth = np.median(np.reshape(times, (-1, window)), axis=1)
    centre = (np.arange(len(smooth)) + 0.5) * window
    half = len(smooth) // 2
    exponent = np.polyfit(np.log(centre[half:]), np.log(smooth[half:]), 1)[0]
    note = f"{1e3 * smooth[half]:.2g} ms a round at t={last // 2}, {1e3 * smooth[-1]:.2g} at t={last}; "
    note += f"the second half takes {(resident() - before) / 1e6:.0f} MB more; {len(set(play.points))} different points"
    name = f"{last:,} rounds on 50x50, 40% of them failed"
    return [
        Row(name, float(np.sum(times)), None, note=note),
        Row(f"{name}: exponent of a round's cost in the second half", float(exponent), 1.1, unit=""),
    ]


def wind_rows(quick: bool) -> list[Row]:
    """Return the wind year on two cores, from a sample of its hours."""
    year = WindYear(la_haute_borne())
    hours = year.hours(1)
    sample = hours[:: len(hours) // (3 if quick else 24)]
    radii = {"DRBO": 0.08, "StableOpt": 0.3}
    decide(year.power, sample[:1], radii, 10, 0)
    start = clock()
    decide(year.power, sample, radii, 100, 0)
    each = (clock() - start) / len(sample)
    note = f"{1e3 * each:.0f} ms an hour and core, from {len(sample)} hours of the year, times 8,712 / 2"
    return [
        Row("wind year, 8,712 hours x 100 rounds x 3 methods at 50x50, two cores", each * 8712 / 2, 900.0, note=note)
    ]
