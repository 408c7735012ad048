"""Evidence for docs/evidence.md: published problems without grids, hyper-parameters learned, beside what others do.

    export OPENBLAS_NUM_THREADS=1
    python scripts/evidence.py run [problem ...]   # a quarter of an hour on two cores; rows go to out/evidence.jsonl
    python scripts/evidence.py ask                 # the time of one ask
    python scripts/evidence.py range               # what branch and bound leaves open on a range, and its time
    python scripts/evidence.py table               # the tables of the page

BoTorch takes part if it is installed. A run that was stopped goes on where it was: what has rows already is not run
again. Delete the file to start afresh, as after a change of the library.

Every method gets 100 evaluations of f(x, c) with noise, in contexts that it picks itself, and the same draws of the
context distribution; none is told that distribution, or the noise.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

import drbo
from drbo import Box
from drbo.problems import hartmann6, modified_branin, newsvendor, three_hump_camel
from drbo.validation import FloatArray

EVALUATIONS, SEEDS, DRAWS, RADIUS = 100, 10, 200, 0.1
PROCESSES = 2
OUT = Path("out/evidence.jsonl")


@dataclass(frozen=True)
class Problem:
    """A published problem on a box: f(x, c), the distribution of contexts, and its stochastic optimum."""

    function: Callable[[FloatArray, FloatArray], FloatArray]
    d_x: int
    d_c: int
    draw: Callable[[np.random.Generator, int], FloatArray]
    density: Callable[[FloatArray], FloatArray]
    ends: tuple[float, float]
    """The mass that clamping puts on 0 and on 1, in each coordinate."""
    noise: float
    optimum: float
    """Of the expectation, as published; of modified Branin as corrected in `drbo.problems`."""

    @property
    def box(self) -> Box:
        """The actions: named parameters from 0 to 1."""
        return drbo.Box(**{f"x{k + 1}": (0.0, 1.0) for k in range(self.d_x)})

    def draws(self, seed: int) -> FloatArray:
        """Return the draws (DRAWS, d_c) of the contexts that every method of this seed gets."""
        return self.draw(np.random.default_rng([seed, 1]), DRAWS)

    def samples(self, seed: int, support: int) -> drbo.Samples:
        """Return the same draws as `drbo` takes them."""
        return drbo.Samples(self.draws(seed), support=support)

    def evaluate(self, x: FloatArray, c: FloatArray, rng: np.random.Generator) -> float:
        """Return one outcome, with noise."""
        return float(self.function(x, c)) + self.noise * float(rng.normal())

    def quadrature(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes (n, d_c) and weights (n,) of the distribution: Gauss-Legendre, and the ends that hold mass."""
        t, w = np.polynomial.legendre.leggauss(400 if self.d_c == 1 else 160)
        axis = np.concatenate(([0.0], (t + 1.0) / 2.0, [1.0]))
        mass = np.concatenate(([self.ends[0]], w / 2.0 * self.density((t + 1.0) / 2.0), [self.ends[1]]))
        nodes = np.stack(np.meshgrid(*[axis] * self.d_c, indexing="ij"), axis=-1).reshape(-1, self.d_c)
        weights = mass if self.d_c == 1 else np.outer(mass, mass).ravel()
        assert abs(weights.sum() - 1.0) < 1e-9
        return nodes, weights

    def expectation(self, x: FloatArray) -> FloatArray:
        """Return the true value (m,) of actions (m, d_x): the expectation under the whole distribution."""
        nodes, weights = self.quadrature()
        return np.asarray(self.function(x[:, None, :], nodes[None, :, :]) @ weights)


def _normal(std: float) -> dict[str, Any]:
    tail = float(ndtr(-0.5 / std))
    return {
        "density": lambda c: np.exp(-0.5 * ((c - 0.5) / std) ** 2) / (std * np.sqrt(2.0 * np.pi)),
        "ends": (tail, tail),
    }


def _draw_normal(std: float, d: int) -> Callable[[np.random.Generator, int], FloatArray]:
    return lambda rng, n: np.clip(rng.normal(0.5, std, (n, d)), 0.0, 1.0)


def _draw_burr(rng: np.random.Generator, n: int) -> FloatArray:
    return np.minimum(np.sqrt((1.0 - rng.random((n, 1))) ** (-1.0 / 20.0) - 1.0), 1.0)


PROBLEMS = {
    "newsvendor": Problem(
        newsvendor().function,
        1,
        1,
        _draw_burr,
        lambda c: 40.0 * c * (1.0 + c**2) ** -21.0,
        (0.0, 2.0**-20),
        0.05,
        0.46394,
    ),
    "three-hump camel": Problem(
        three_hump_camel().function, 1, 1, _draw_normal(0.2, 1), **_normal(0.2), noise=0.02, optimum=-0.15641
    ),
    "modified Branin": Problem(
        modified_branin().function, 2, 2, _draw_normal(0.1, 2), **_normal(0.1), noise=0.5, optimum=-9.6039
    ),
    "Hartmann-6": Problem(hartmann6().function, 5, 1, _draw_normal(0.1, 1), **_normal(0.1), noise=0.02, optimum=2.6136),
}


# --- the methods: each returns the action to deploy, or several of them by name ---------------------------------------


def point(action: Any) -> FloatArray:
    """Return an action of the box as an array (d_x,)."""
    return np.array(list(action.values()))


def run_informative(problem: Problem, seed: int) -> dict[str, FloatArray]:
    """Risk-neutral `drbo` in the contexts that tell most about the expectation."""
    return {f"{label}, informative": x for label, x in run_drbo(problem, seed, "informative").items()}


def run_drbo(
    problem: Problem, seed: int, pick: Literal["uncertain", "informative"] = "uncertain"
) -> dict[str, FloatArray]:
    """Risk-neutral `drbo` with every default but the set: both recommendations."""
    rng = np.random.default_rng([seed, 2])
    opt = drbo.Optimizer(
        problem.box,
        problem.samples(seed, support=0),
        ambiguity=drbo.Expectation(),
        setting=drbo.Simulator(radius=0.0, pick=pick),
        seed=1000 * seed,
    )
    for _ in range(EVALUATIONS):
        s = opt.ask()
        opt.tell(s, problem.evaluate(point(s.action), s.context, rng))
    return {"drbo": point(opt.recommend_iterate().action), "drbo, final": point(opt.recommend().action)}


def run_draws(problem: Problem, seed: int) -> dict[str, FloatArray]:
    """Return the best action for the draws, f known: what remains is the error of taking draws for the distribution."""
    contexts = problem.draws(seed)
    x, _ = maximum(lambda x: np.asarray(problem.function(x[:, None, :], contexts).mean(axis=1)), problem.box)
    return {"f known": x}


def run_random(problem: Problem, seed: int) -> dict[str, FloatArray]:
    """20 random actions in 5 drawn contexts each, the best mean; and 100 random pairs with the model of `drbo`."""
    rng = np.random.default_rng([seed, 2])
    draws = problem.draws(seed)
    actions = rng.random((EVALUATIONS // 5, problem.d_x))
    means = [np.mean([problem.evaluate(x, rng.choice(draws), rng) for _ in range(5)]) for x in actions]
    opt = drbo.Optimizer(
        problem.box,
        problem.samples(seed, support=0),
        ambiguity=drbo.Expectation(),
        setting=drbo.Simulator(radius=0.0, pick="uncertain"),
        seed=1000 * seed,
    )
    for x in rng.random((EVALUATIONS, problem.d_x)):
        c = rng.choice(draws)
        opt.tell(dict(zip(problem.box.names, x.tolist(), strict=True)), problem.evaluate(x, c, rng), context=c)
    return {
        "random search": actions[int(np.argmax(means))],
        "random evaluations, drbo's model": point(opt.recommend().action),
    }


def run_botorch(problem: Problem, seed: int) -> dict[str, FloatArray]:
    """SingleTaskGP on (x, w); UCB (beta = 4) of the expectation over 32 draws, w of the largest variance.

    10 Sobol points first; refitted as often as `drbo` refits. It deploys the largest posterior mean over all draws.
    """
    import torch
    from botorch.acquisition import PosteriorMean, UpperConfidenceBound
    from botorch.acquisition.objective import ExpectationPosteriorTransform
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms.input import AppendFeatures
    from botorch.models.transforms.outcome import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    from drbo.models.learned import should_refit

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 2])
    contexts = problem.draws(seed)
    d = problem.d_x + problem.d_c
    bounds = torch.tensor([[0.0] * problem.d_x, [1.0] * problem.d_x], dtype=torch.double)
    first = torch.quasirandom.SobolEngine(problem.d_x, scramble=True, seed=seed).draw(10, dtype=torch.double).numpy()
    points = [np.concatenate([x, rng.choice(contexts)]) for x in first]
    outcomes = [problem.evaluate(z[: problem.d_x], z[problem.d_x :], rng) for z in points]
    hyperparameters, fitted_at = None, 0

    def model(draws: FloatArray) -> Any:
        """Return the model over fixed context draws; fitted anew if that is due."""
        nonlocal hyperparameters, fitted_at
        gp = SingleTaskGP(
            torch.tensor(np.array(points)),
            torch.tensor(outcomes, dtype=torch.double)[:, None],
            outcome_transform=Standardize(1),
            input_transform=AppendFeatures(torch.tensor(draws)),
        )
        if hyperparameters is not None:
            gp.load_state_dict(hyperparameters, strict=False)
        if should_refit(len(points), fitted_at):
            fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
            hyperparameters = {k: v for k, v in gp.state_dict().items() if "transform" not in k}
            fitted_at = len(points)
        return gp.eval()

    while len(points) < EVALUATIONS:
        draws = contexts[rng.choice(len(contexts), 32, replace=False)]
        gp = model(draws)
        expectation = ExpectationPosteriorTransform(n_w=len(draws))
        ucb = UpperConfidenceBound(gp, beta=4.0, posterior_transform=expectation)
        x, _ = optimize_acqf(ucb, bounds, q=1, num_restarts=2, raw_samples=64, options={"maxiter": 30})
        with torch.no_grad():
            variance = gp.posterior(x).variance.numpy().ravel()
        c = draws[int(np.argmax(variance))]
        points.append(np.concatenate([x.numpy().ravel(), c]))
        outcomes.append(problem.evaluate(x.numpy().ravel(), c, rng))
    fitted_at = 0
    gp = model(contexts)
    mean = PosteriorMean(gp, posterior_transform=ExpectationPosteriorTransform(n_w=len(contexts)))
    x, _ = optimize_acqf(mean, bounds, q=1, num_restarts=4, raw_samples=256, options={"maxiter": 100})
    assert len(points[0]) == d
    return {"BoTorch": x.numpy().ravel()}


def run_robust(problem: Problem) -> dict[str, float]:
    """One run with the default set, radius 0.1: the bound, and what is true of f in the same set."""
    rng = np.random.default_rng([0, 2])
    opt = drbo.Optimizer(
        problem.box, problem.samples(0, support=64), setting=drbo.Simulator(radius=RADIUS, pick="uncertain")
    )
    for _ in range(EVALUATIONS):
        s = opt.ask()
        opt.tell(s, problem.evaluate(point(s.action), s.context, rng))
    last = opt.recommend_iterate()
    contexts = np.array(last.contexts).reshape(-1, problem.d_c)

    def worst(x: FloatArray) -> FloatArray:
        values = problem.function(x[:, None, :], contexts[None, :, :])
        return opt.configuration.placed.worst_case(values, last.reference, last.radius).expectation

    found: dict[str, float] = {"optimum": maximum(worst, problem.box)[1]}
    for name, r in (("recommend", last), ("final", opt.recommend())):
        x = point(r.action)[None]
        found |= {f"{name}: bound": r.value, f"{name}: true worst case": float(worst(x)[0])}
        found[f"{name}: expectation"] = float(problem.expectation(x)[0])
    return found


def maximum(value: Callable[[FloatArray], FloatArray], box: Box) -> tuple[FloatArray, float]:
    """Return the maximiser (d,) and maximum over the unit cube: uphill from the best five of 4,096 Sobol points."""
    candidates = box.sample(4096, seed=1)
    scores = np.concatenate([value(part) for part in np.split(candidates, 64)])
    options: Any = {"xatol": 1e-5, "fatol": 1e-7, "maxfev": 1000}

    def loss(x: FloatArray) -> float:
        return -float(value(np.clip(x, 0.0, 1.0)[None])[0])

    starts = candidates[np.argsort(-scores)[:5]]
    climbs = [minimize(loss, start, method="Nelder-Mead", options=options) for start in starts]
    best = min(climbs, key=lambda climb: float(climb.fun))
    return np.clip(best.x, 0.0, 1.0), -float(best.fun)


# --- the run and its tables -------------------------------------------------------------------------------------------


def run(names: list[str]) -> None:
    """Run what has no rows yet on the problems named, and append a row for each recommendation."""
    methods = [run_draws, run_random, run_drbo, run_informative] + (
        [run_botorch] if importlib.util.find_spec("botorch") else []
    )
    OUT.parent.mkdir(exist_ok=True)
    done = {(r["problem"], r["run"], r.get("seed")) for r in read()}
    jobs: list[tuple[str, Callable[..., Any], int | None]] = []
    for name in names or list(PROBLEMS):
        problem = PROBLEMS[name]
        found = maximum(problem.expectation, problem.box)[1]
        print(f"{name}: optimum {problem.optimum}, verified {found:.5f}", flush=True)
        jobs += [(name, method, seed) for seed in range(SEEDS) for method in methods]
        jobs.append((name, run_robust, None))
    left = [job for job in jobs if (job[0], job[1].__name__, job[2]) not in done]
    # a worker loads torch for the first run of BoTorch only; rows are written here, by one process
    results = joblib.Parallel(PROCESSES, return_as="generator_unordered")(joblib.delayed(measure)(*job) for job in left)
    for result in results:
        write(result)


def measure(name: str, method: Callable[..., Any], seed: int | None) -> list[dict[str, Any]]:
    """Return the rows of one run: one for each recommendation, with the processor time of all of it."""
    problem = PROBLEMS[name]
    warm_up()
    start = time.process_time()
    found = method(problem) if seed is None else method(problem, seed)
    common = {"problem": name, "run": method.__name__, "cpu": time.process_time() - start}
    if seed is None:
        return [{**common, "method": "robust", **found}]
    return [
        {**common, "seed": seed, "method": label, "action": x.tolist(), "value": float(problem.expectation(x[None])[0])}
        for label, x in found.items()
    ]


def warm_up() -> None:
    """Compile, or load from the cache, what `drbo` compiles, so that no run counts it."""
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0)), drbo.Samples([[0.0], [1.0]]), setting=drbo.Simulator(radius=RADIUS, pick="uncertain")
    )
    for _ in range(2):
        opt.tell(opt.ask(), 0.0)


def read() -> list[dict[str, Any]]:
    """Return the rows written so far."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def write(rows: list[dict[str, Any]]) -> None:
    """Append the rows of one run, all at once, and show them."""
    rows = [{name: round(v, 6) if isinstance(v, float) else v for name, v in row.items()} for row in rows]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with OUT.open("a") as file:
        file.write(text)
    print(text, end="", flush=True)


def table() -> None:
    """Print the tables of the page from the rows of the run."""
    rows = read()
    methods = ["drbo, final", "drbo", "drbo, final, informative", "drbo, informative", "BoTorch"]
    methods += ["random evaluations, drbo's model", "random search", "f known"]
    print("| problem | optimum | " + " | ".join(methods) + " |")
    print("|---" * (len(methods) + 2) + "|")
    for name, problem in PROBLEMS.items():
        cells = []
        for method in methods:
            of_method = [r for r in rows if r["problem"] == name and r["method"] == method]
            regret = [problem.optimum - r["value"] for r in of_method]
            low, mid, high = np.quantile(regret, [0.25, 0.5, 0.75]) if regret else (np.nan,) * 3
            cells.append(f"{mid:.4f} ({low:.4f} to {high:.4f})")
        print(f"| {name} | {problem.optimum} | " + " | ".join(cells) + " |")
    print("\nseconds of the processor for a run, median:")
    for name in PROBLEMS:
        seconds = {m: [r["cpu"] for r in rows if r["problem"] == name and r["method"] == m] for m in methods}
        print(name, {m: round(float(np.median(s)), 1) for m, s in seconds.items() if s})
    print("\n| problem | recommendation | bound | true worst case | best possible | true expectation |")
    print("|---" * 6 + "|")
    for r in rows:
        for label in ("recommend", "final") if r["method"] == "robust" else ():
            numbers = [r[f"{label}: bound"], r[f"{label}: true worst case"], r["optimum"]]
            numbers.append(r[f"{label}: expectation"])
            print(f"| {r['problem']} | {label} | " + " | ".join(f"{v:.4f}" for v in numbers) + " |")


def time_ask() -> None:
    """Print the time of `ask`: 6 action and 2 context dimensions, 200 atoms, 200 observations, refit included."""
    rng = np.random.default_rng(0)
    box = drbo.Box(**{f"x{k}": (0.0, 1.0) for k in range(6)})
    slope = rng.normal(size=8)

    def f(z: FloatArray) -> float:
        return float(np.sin(3.0 * z @ slope) - ((z - 0.4) ** 2).sum() + 0.05 * rng.normal())

    for fit in ("first fit of all", "warm refit", "warm refit", "no refit", "no refit"):
        if fit == "first fit of all":
            opt = drbo.Optimizer(
                box, drbo.Samples(rng.random((136, 2))), setting=drbo.Simulator(radius=RADIUS, pick="uncertain")
            )
            opt.ask()  # compiles
        more = {"first fit of all": 200, "warm refit": opt.n_told // 10, "no refit": 0}[fit]  # due after 10% more
        for z in rng.random((more, 8)):
            opt.tell(dict(zip(box.names, z[:6].tolist(), strict=True)), f(z), context=z[6:])
        start, cpu = time.perf_counter(), time.process_time()
        s = opt.ask()
        taken, cpu = time.perf_counter() - start, time.process_time() - cpu
        atoms, load = len(s.reference), os.getloadavg()[0]
        print(f"{fit}: {taken:.2f} s, of the processor {cpu:.2f} s; {atoms} atoms, load {load:.1f}", flush=True)
        opt.cancel(s)


def time_range() -> None:
    """Print what branch and bound leaves open on boxes of contexts, and the time of an ask, for docs/contexts.md."""
    actions = drbo.Box(**{f"x{k}": (0.0, 1.0) for k in range(6)})
    for d in (1, 2, 3, 4):
        rng = np.random.default_rng(d)
        contexts = drbo.Box(**{f"c{k}": (0.0, 1.0) for k in range(d)})
        opt = drbo.Optimizer(
            actions,
            drbo.Samples(rng.random((136, d)), within=contexts),
            setting=drbo.Simulator(radius=RADIUS, pick="uncertain"),
        )
        slope = rng.normal(size=6 + d)

        def f(z: FloatArray, slope: FloatArray = slope, rng: np.random.Generator = rng) -> float:
            return float(np.sin(3.0 * z @ slope) - ((z - 0.4) ** 2).sum() + 0.05 * rng.normal())

        outcomes = []
        for z in rng.random((200, 6 + d)):
            outcomes.append(f(z))
            opt.tell(actions.decode(z[:6]), outcomes[-1], context=z[6:])
        times = []
        for _ in range(6):
            start = time.process_time()
            s = opt.ask()
            times.append(time.process_time() - start)
            opt.tell(s, f(np.concatenate([s.action_point, s.context_point])))
        start = time.process_time()
        r = opt.recommend()
        last = time.process_time() - start
        asks = f"{np.median(times[1:]):.2f} ({min(times[1:]):.2f} to {max(times[1:]):.2f})"
        print(f"| {d} | {100 * r.gap / np.std(outcomes):.1f}% | {asks} s | {last:.2f} s |", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", *problems]:
            run(problems)
        case ["ask"]:
            time_ask()
        case ["range"]:
            time_range()
        case ["table"]:
            table()
        case _:
            print(__doc__)
