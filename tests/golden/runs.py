"""Twenty small runs that judge a redesign: what version 0.1 chose on them, any later version must choose too.

A run is an optimizer, a toy reward and a script, one letter a step:

    t   a result is told that was never asked for
    a   ask
    r   tell the result of the oldest pending suggestion
    f   it failed
    c   cancel it

Nature, noise and the sets of the general setting depend on the number of the step alone, so that a run can be taken up
anywhere. Runs on boxes begin with a few results: before the first one every action is as good as any other, and
rounding errors would choose. None of the runs is close to a tie: 0.1 chooses the
same, within the tolerances, if outcomes change by 1e-10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import drbo
from drbo import GP, MMD, RBF, DataDriven, General, LearnedGP, Matern, Optimizer, Product, Simulator
from drbo.radius import Bootstrap, Calibrated, Decaying, Theoretical

RECORD = Path(__file__).with_name("choices_0_1.json")


@dataclass(frozen=True)
class Axis:
    """One parameter of a space, apart from the library's own: "real", "log", "integer" or "choice"."""

    kind: str
    low: float = 0.0
    high: float = 1.0
    choices: tuple[str, ...] = ()

    def share(self, value: Any) -> float:
        """Return where a value lies in the range, from 0 to 1."""
        if self.kind == "choice":
            return self.choices.index(value) / (len(self.choices) - 1)
        if self.kind == "log":
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (float(value) - self.low) / (self.high - self.low)

    def at(self, share: float) -> Any:
        """Return the value at a share of the range."""
        if self.kind == "choice":
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.kind == "log":
            return self.low * (self.high / self.low) ** share
        value = self.low + share * (self.high - self.low)
        return round(value) if self.kind == "integer" else value

    def parameter(self) -> Any:
        """Return what a `drbo.Box` takes."""
        if self.kind == "choice":
            return drbo.Categorical(*self.choices)
        if self.kind == "log":
            return drbo.Log(self.low, self.high)
        return drbo.Integer(int(self.low), int(self.high)) if self.kind == "integer" else (self.low, self.high)


Axes = Mapping[str, Axis]


def real(low: float, high: float) -> Axis:
    return Axis("real", low, high)


def named(value: Any) -> dict[str, Any]:
    """Return an action or a context by the names of its axes; those of a point are its columns' numbers."""
    if isinstance(value, Mapping):
        return dict(value)
    return {str(i): item for i, item in enumerate(np.atleast_1d(np.asarray(value, dtype=float)).tolist())}


def box(axes: Axes) -> drbo.Box:
    return drbo.Box(**{name: axis.parameter() for name, axis in axes.items()})


def axes_of(points: np.ndarray) -> Axes:
    return {str(i): real(column.min(), column.max()) for i, column in enumerate(points.T)}


@dataclass(frozen=True)
class Run:
    """One of the twenty.

    Attributes
    ----------
    make : returns the optimizer
    actions, contexts : the axes of both
    points : the points of a finite set of actions
    grid : the points of a finite set of contexts, which nature picks by their number
    script : the steps, see above
    ball : what is given with the ask at a step, in the general setting
    minimise, offset, scale : what becomes of the toy reward as an outcome
    exact : actions and contexts are finite sets, no search comes before a choice
    learned : hyper-parameters are learned
    """

    name: str
    make: Callable[[], Optimizer]
    actions: Axes
    contexts: Axes
    script: str
    points: np.ndarray | None = None
    grid: np.ndarray | None = None
    ball: Callable[[int], dict[str, Any]] | None = None
    minimise: bool = False
    offset: float = 0.0
    scale: float = 1.0
    exact: bool = False
    learned: bool = False

    @property
    def tolerance(self) -> float:
        """How close choices and scores must be, as a share of their range."""
        if self.learned:  # two climbs end on the same summit, but not in the same point
            return 1e-5 if self.exact else 1e-4
        return 1e-9 if self.exact else 1e-6

    def rng(self, step: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng([sum(map(ord, self.name)), step, purpose])

    def outcome(self, action: Any, context: Any, step: int) -> float:
        """Return the toy reward with the noise of this step."""
        x = [axis.share(named(action)[name]) for name, axis in self.actions.items()]
        c = [axis.share(named(context)[name]) for name, axis in self.contexts.items()]
        value = sum(math.cos(2.5 * (u - 0.3 - 0.1 * i - 0.5 * c[i % len(c)])) for i, u in enumerate(x))
        value -= 0.7 * sum((v - 0.4) ** 2 for v in c)
        value += 0.05 * float(self.rng(step, 0).normal())
        return self.offset + self.scale * (-value if self.minimise else value)

    def observed(self, step: int) -> tuple[Any, dict[str, Any]]:
        """Return the context that nature picks at a step, and how it is told."""
        shares = self.rng(step, 1).beta(2.0, 3.0, size=len(self.contexts))
        if self.grid is not None:
            j = int(shares[0] * len(self.grid))
            return self.grid[j], {"context_index": j} if step % 2 else {"context": self.grid[j]}
        context = {name: axis.at(u) for (name, axis), u in zip(self.contexts.items(), shares, strict=True)}
        return context, {"context": context}

    def tried(self, step: int) -> Any:
        """Return an action that somebody tried without being asked."""
        shares = self.rng(step, 2).uniform(size=len(self.actions))
        if self.points is not None:
            return self.points[int(shares[0] * len(self.points))]
        return {name: axis.at(u) for (name, axis), u in zip(self.actions.items(), shares, strict=True)}


# --- driving a run, on 0.1 and on later versions ------------------------------------------------------------------


def drive(run: Run, opt: Optimizer, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
    """Go through the steps from `start` to `stop`; return what was chosen at each ask."""
    choices = []
    waiting = list(opt.pending)
    for step, letter in list(enumerate(run.script))[start:stop]:
        if letter == "a":
            s = opt.ask(**({} if run.ball is None else run.ball(step)))
            waiting.append(s)
            choices.append({"step": step, **choice(s)})
        elif letter == "t":
            action = run.tried(step)
            context, how = run.observed(step)
            opt.tell(action, run.outcome(action, context, step), **how)
        elif letter == "c":
            opt.cancel(waiting.pop(0))
        elif letter == "f":
            opt.tell(waiting.pop(0), failed=True)
        else:
            assert letter == "r", letter
            s = waiting.pop(0)
            context, how = run.observed(step) if s.context is None else (s.context, {})
            opt.tell(s, run.outcome(s.action, context, step), **how)
    return choices


def choice(s: Any) -> dict[str, Any]:
    names = ("action", "action_index", "context", "context_index", "radius", "score")
    return {name: plain(getattr(s, name)) for name in names}


def recommendations(opt: Optimizer) -> dict[str, dict[str, Any]]:
    """Return both recommendations: the best iterate (eq. 10), and the best action of all now."""
    iterate, final = opt.recommend_iterate(), opt.recommend()
    names = ("action", "action_index", "value", "gap")
    return {
        kind: {**{name: plain(getattr(r, name)) for name in names}, "printed": str(r)}
        for kind, r in (("iterate", iterate), ("final", final))
    }


def plain(value: Any) -> Any:
    """Return a value as JSON with 12 significant digits; infinity by name."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, float | np.floating):
        return float(f"{value:.12g}") if math.isfinite(value) else str(float(value))
    return value.item() if isinstance(value, np.generic) else value


# --- what the runs are made of --------------------------------------------------------------------------------------

LINE = np.linspace(0.0, 1.0, 21)[:, None]
PLANE = np.array([(a, b) for a in np.linspace(0.0, 1.0, 7) for b in np.linspace(-1.0, 1.0, 5)])
DEGREES = np.linspace(-10.0, 30.0, 9)[:, None]  # far from a unit cube
WEATHER = np.array([(a, b) for a in np.linspace(0.0, 1.0, 4) for b in np.linspace(0.0, 2.0, 3)])
FEW = np.linspace(0.0, 1.0, 6)[:, None]

NUMBERS: Axes = {"setpoint": real(18.0, 24.0), "gain": Axis("log", 1e-3, 1.0)}
MIXED: Axes = {**NUMBERS, "stages": Axis("integer", 1, 4), "mode": Axis("choice", choices=("eco", "mid", "boost"))}
SMALL: Axes = {"share": real(-1.0, 1.0), "stages": Axis("integer", 1, 5), "mode": Axis("choice", choices=("a", "b"))}
OUTSIDE: Axes = {"outdoor": real(-10.0, 30.0), "load": Axis("log", 0.1, 10.0)}
SEASONS: Axes = {"outdoor": real(-10.0, 30.0), "season": Axis("choice", choices=("winter", "summer"))}
WIND: Axes = {"wind": real(0.0, 25.0)}


def rows(axes: Axes, count: int, seed: int) -> dict[str, list[Any]]:
    """Return past conditions, a column for each name."""
    shares = np.random.default_rng(seed).beta(3.0, 2.0, size=(count, len(axes)))
    return {name: [axis.at(u) for u in column] for (name, axis), column in zip(axes.items(), shares.T, strict=True)}


def weights(step: int, count: int) -> np.ndarray:
    return np.random.default_rng([77, step]).dirichlet(np.ones(count))


def varying(count: int, radius: float) -> Callable[[int], dict[str, Any]]:
    """Return another reference and radius at every step."""
    return lambda step: {"reference": weights(step, count), "radius": radius * (1 + step % 3)}


def forecast(axes: Axes, radius: float, within: bool) -> Callable[[int], dict[str, Any]]:
    """Return samples as the reference of a step; without a range some steps have those of the contexts."""

    def ball(step: int) -> dict[str, Any]:
        if not within and step % 4 == 0:
            return {"radius": radius}
        drawn = rows(axes, 6, 500 + step)
        return {"reference": drbo.Samples(drawn, within=box(axes) if within else None), "radius": radius}

    return ball


def on_grid(
    name: str, script: str, setting: drbo.Setting, ambiguity: Any, actions: Any, contexts: np.ndarray, **more: Any
) -> Run:
    """Return a run whose contexts are a finite set; `more` is for the optimizer or for the run, by name."""
    return _run(name, script, setting, ambiguity, actions, contexts, axes_of(contexts), contexts, more)


def off_grid(
    name: str, script: str, setting: drbo.Setting, ambiguity: Any, actions: Any, contexts: Any, axes: Axes, **more: Any
) -> Run:
    """Return a run whose contexts are samples or a box."""
    return _run(name, script, setting, ambiguity, actions, contexts, axes, None, more)


def _run(
    name: str,
    script: str,
    setting: drbo.Setting,
    ambiguity: Any,
    actions: Any,
    contexts: Any,
    axes: Axes,
    grid: np.ndarray | None,
    more: dict[str, Any],
) -> Run:
    surrogate = more.pop("surrogate", FIXED)
    beta, minimise = more.pop("beta", 2.0), more.get("minimise", False)
    finite = isinstance(actions, np.ndarray)

    def make() -> Optimizer:
        where = contexts() if callable(contexts) else contexts
        return Optimizer(
            actions if finite else box(actions),
            where,
            ambiguity=ambiguity(where) if callable(ambiguity) else ambiguity,
            setting=setting,
            surrogate=surrogate,
            beta=beta,
            maximize=not minimise,
            seed=3,
        )

    learned = isinstance(surrogate, LearnedGP)
    by_name = axes_of(actions) if finite else actions
    exact = finite and grid is not None
    return Run(
        name, make, by_name, axes, script, actions if finite else None, grid, exact=exact, learned=learned, **more
    )


FIXED = GP(Product(RBF(0.4), RBF(0.5)), 0.1)
ROUGH = GP(Product(Matern(0.8), Matern(0.9)), 0.1)
BOXED = GP(Product(Matern(1.0), RBF(0.7)), 0.1)
LEARNED = LearnedGP()
UNITS: dict[str, Any] = {"offset": 40.0, "scale": 6.0}


def unit_mmd(contexts: drbo.Samples | drbo.Box) -> MMD:
    """Return the MMD of 0.1, whose lengthscale was in units of the range."""
    space = contexts.space if isinstance(contexts, drbo.Samples) else contexts
    return MMD(kernel=RBF(tuple(0.3 * space.units)))


def unit_wasserstein(contexts: drbo.Samples) -> drbo.Wasserstein:
    """Return the Wasserstein set of 0.1, whose distances were in units of the range."""
    return drbo.Wasserstein(scale=dict(zip(contexts.space.names or (), contexts.space.units.tolist(), strict=True)))


def samples(axes: Axes, count: int, within: bool = False, **more: Any) -> Callable[[], drbo.Samples]:
    return lambda: drbo.Samples(rows(axes, count, 9), within=box(axes) if within else None, **more)


ONE = "ar"
BATCH = "aaarrr"

RUNS: Sequence[Run] = [
    # finite sets of actions and contexts
    on_grid("grid_general_mmd", ONE * 14, General(), MMD(WEATHER, RBF(0.6)), PLANE, WEATHER, ball=varying(12, 0.2)),
    on_grid(
        "grid_general_tv_pending_failed_cancelled",
        "t" + "aaarfr" + "aaacrr" + "aaarrf" + "aaarrr",
        General(),
        drbo.TotalVariation(),
        LINE,
        FEW,
        ball=varying(6, 0.15),
    ),
    on_grid(
        "grid_general_kl_minimise",
        "tt" + ONE * 12,
        General(),
        drbo.KL(),
        PLANE,
        FEW,
        ball=varying(6, 0.1),
        minimise=True,
        surrogate=ROUGH,
    ),
    on_grid(
        "grid_general_expectation_learned",
        "ttt" + ONE * 10,
        General(),
        drbo.Expectation(),
        LINE,
        DEGREES,
        ball=varying(9, 0.0),
        surrogate=LEARNED,
        minimise=True,
        **UNITS,
    ),
    on_grid(
        "grid_data_mmd_theory",
        ONE * 14,
        DataDriven(delta=0.1, radius=Theoretical(0.1, factor=0.1)),
        MMD(FEW, Matern(0.3)),
        LINE,
        FEW,
        beta=drbo.TheoreticalBeta(bound=1.5, noise=0.05, delta=0.1),
    ),
    on_grid(
        "grid_data_wasserstein_bootstrap",
        "t" + BATCH + ONE * 9,
        DataDriven(radius=Bootstrap(delta=0.2, resamples=60)),
        drbo.Wasserstein(FEW),
        LINE,
        FEW,
    ),
    on_grid(
        "grid_data_mmd_calibrated_learned",
        "tttt" + ONE * 10,
        DataDriven(radius=Calibrated(quantile=0.7, window=2)),
        MMD(DEGREES, RBF(20.0)),
        LINE,
        DEGREES,
        surrogate=LEARNED,
        **UNITS,
    ),
    on_grid(
        "grid_simulator_cvar",
        ONE * 12,
        Simulator(weights(0, 12), 0.5, pick="uncertain"),
        drbo.CVaR(),
        PLANE,
        WEATHER,
    ),
    on_grid(
        "grid_simulator_chi_informative_learned",
        "ttt" + BATCH + "aaarfr" + ONE * 5,
        Simulator(radius=0.4, history=[0, 1, 1, 2, 3, 2, 5, 4, 2], pick="informative"),
        drbo.ChiSquare(),
        PLANE,
        FEW,
        surrogate=LEARNED,
        **UNITS,
    ),
    on_grid(
        "grid_simulator_neighbourhood_unasked",
        "tat" + ONE * 5 + "t" + ONE * 6,
        Simulator(weights(1, 12), 0.5, pick="uncertain"),
        drbo.Neighbourhood(WEATHER),
        PLANE,
        WEATHER,
        surrogate=ROUGH,
    ),
    # boxes of actions, a finite set of contexts
    on_grid(
        "box_general_mmd_pending",
        "ttt" + BATCH + "aaarcr" + ONE * 4,
        General(),
        MMD(FEW, RBF(0.3)),
        MIXED,
        FEW,
        ball=varying(6, 0.15),
        surrogate=BOXED,
    ),
    on_grid(
        "box_data_mmd_bootstrap",
        "ttt" + ONE * 10,
        DataDriven(radius=Bootstrap(delta=0.2, resamples=60)),
        MMD(FEW, RBF(0.3)),
        NUMBERS,
        FEW,
        surrogate=BOXED,
    ),
    on_grid(
        "box_simulator_tv_learned_failed",
        "tttt" + ONE * 3 + "af" + ONE * 7,
        Simulator(weights(2, 6), Calibrated(window=4), history=[0, 1, 1, 2, 3, 2, 5, 4, 2, 1, 1, 0], pick="uncertain"),
        drbo.TotalVariation(),
        SMALL,
        FEW,
        surrogate=LEARNED,
        **UNITS,
    ),
    # samples of contexts
    off_grid(
        "samples_data_mmd_compressed",
        "t" + ONE * 12,
        DataDriven(radius=Theoretical(0.1, factor=0.2)),
        unit_mmd,
        LINE,
        samples(OUTSIDE, 60, atoms=20, support=16),
        OUTSIDE,
        surrogate=BOXED,
    ),
    off_grid(
        "samples_simulator_wasserstein_learned",
        "tttt" + ONE * 10,
        Simulator(radius=0.15, pick="informative"),
        unit_wasserstein,
        NUMBERS,
        samples(OUTSIDE, 15, support=16),
        OUTSIDE,
        surrogate=LEARNED,
        **UNITS,
    ),
    off_grid(
        "samples_general_kl_minimise",
        "ttt" + BATCH + ONE * 8,
        General(),
        drbo.KL(),
        NUMBERS,
        samples(OUTSIDE, 15, support=8),
        OUTSIDE,
        ball=forecast(OUTSIDE, 0.2, within=False),
        surrogate=BOXED,
        minimise=True,
    ),
    # contexts with a range
    off_grid(
        "range_general_mmd",
        "tt" + ONE * 10,
        General(),
        unit_mmd,
        LINE,
        samples(SEASONS, 12, within=True, support=16),
        SEASONS,
        ball=forecast(SEASONS, 0.2, within=True),
        surrogate=BOXED,
    ),
    off_grid(
        "range_data_wasserstein",
        "ttt" + BATCH + ONE * 7,
        DataDriven(radius=Decaying(0.5)),
        unit_wasserstein,
        NUMBERS,
        samples(WIND, 8, within=True, support=16),
        WIND,
        surrogate=BOXED,
    ),
    off_grid(
        "range_simulator_mmd_box",
        "ttt" + ONE * 10,
        Simulator(radius=0.2, pick="uncertain"),
        unit_mmd,
        MIXED,
        lambda: box(WIND),
        WIND,
        surrogate=BOXED,
    ),
    off_grid(
        "range_data_mmd_box_learned",
        "tttt" + ONE * 8,
        DataDriven(radius=0.3),
        unit_mmd,
        NUMBERS,
        lambda: box(SEASONS),
        SEASONS,
        surrogate=LEARNED,
        minimise=True,
        **UNITS,
    ),
]
BY_NAME = {run.name: run for run in RUNS}
