"""Tables of docs/reproduction.md beside the figures: `python scripts/reproduction.py NAME [--every N] [--runs N]`.

- `readings`: where the three solutions of both benchmarks lie, for both readings of N(0.5, 0.05) and by lengthscale of
  the MMD's kernel.
- `stableopt`: both rules for StableOpt's contexts, from the records that `drbo reproduce figure2` left in `--out`.
- `radius`: how often a fifth of Corollary 4's radius holds the truth.
- `bounds`: the paper's bounds beside what happened.
- `wind`: every hour of 2015, all objectives solved exactly.
- `hours`: every N-th hour of 2015, solved by each method, from `--runs` seeds of noise.
- `ablation`: the same for DRBO with one thing changed at a time.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drbo import (
    GP,
    MMD,
    RBF,
    AmbiguitySet,
    Expectation,
    General,
    Informative,
    Matern,
    Neighbourhood,
    Optimism,
    Optimizer,
    Pessimistic,
    Product,
    Simulator,
    TheoreticalBeta,
    Uncertain,
    regret,
)
from drbo.experiments.paper_claims import function_of_norm
from drbo.experiments.records import mean_and_error, per_run, read_csv, select
from drbo.experiments.wind_year import WindYear
from drbo.models import SupportsInformationGain, maximum_information_gain, supports
from drbo.problems import (
    Problem,
    benchmark_1,
    benchmark_2,
    la_haute_borne,
    nearest_context,
    revenue,
    wind,
)
from drbo.radius import Theoretical, empirical
from drbo.rounds import ContextRule

Row = dict[str, object]

WINDOW = 48
RADII = {"DRBO": 0.08, "StableOpt": 0.3}
"""The best ones in an exact backtest on 2014, which figure 3 makes."""


def readings() -> Iterator[Row]:
    """Yield where the solutions lie, and the robust regret per round of the stochastic one and of StableOpt's."""
    for make in (benchmark_1, benchmark_2):
        for reading in ("deviation", "variance"):
            for lengthscale in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0):
                problem = make(lengthscale=lengthscale, reading=reading)
                optima = (problem.stochastic_optimum, problem.robust_optimum, problem.worst_case_optimum)
                x = [float(optimum.action[0]) for optimum in optima]
                lost = [float(optima[1].value - problem.robust_values[optimum.action_index]) for optimum in optima]
                yield {
                    "benchmark": problem.name[-1], "0.05 is a": reading, "lengthscale": lengthscale,
                    "radius": f"{problem.radius:.3f}", "stochastic x": f"{x[0]:.2f}", "robust x": f"{x[1]:.2f}",
                    "StableOpt x": f"{x[2]:.2f}", "regret of stochastic": f"{lost[0]:.3f}",
                    "regret of StableOpt": f"{lost[2]:.3f}", "all differ": _yes(_apart(x) > 0.1),
                }  # fmt: skip


def stableopt(out: Path) -> Iterator[Row]:
    """Yield the regret of StableOpt in a simulator by either rule for the context: robust, and in its own objective."""
    records = read_csv(out / "figure2.csv")
    for problem in (benchmark_1(), benchmark_2()):
        for method, rule in (
            ("StableOpt", "argmax sigma, DRBO's"),
            ("StableOpt (own contexts)", "argmin lcb, its own"),
        ):
            own = select(records, problem=problem.name, setting="simulator", method=method)
            robust = per_run(own, "regret").sum(axis=1)
            lost = problem.worst_case_optimum.value - problem.worst_case_values[per_run(own, "action").astype(int)]
            cells = [f"{mean:.1f} +- {error:.1f}" for mean, error in map(mean_and_error, (robust, lost.sum(axis=1)))]
            yield {
                "benchmark": problem.name[-1], "rule for the context": rule, "runs": len(robust),
                "robust regret": cells[0], "regret in its own objective": cells[1],
            }  # fmt: skip


def radius(samples: int = 100_000) -> Iterator[Row]:
    """Yield how often the truth of benchmark 1 is within a share of Corollary 4's radius of a sample, by simulation."""
    problem, rng = benchmark_1(), np.random.default_rng(0)
    n, features = len(problem.contexts), problem.ambiguity.placed.features
    for t in (1, 2, 5, 10, 20, 50, 100, 200):
        shares = rng.multinomial(t, problem.true_distribution, size=samples) / t
        distance = np.linalg.norm((shares - problem.true_distribution) @ features, axis=1)
        full = Theoretical(delta=0.1).radius(np.zeros(t, dtype=np.intp), problem.ambiguity, n)
        yield {
            "contexts seen": t, "radius of Corollary 4": f"{full:.3f}", "95% quantile of the distance":
            f"{np.quantile(distance, 0.95):.3f}", "a fifth holds the truth": f"{np.mean(distance <= 0.2 * full):.1%}",
            "the full radius": f"{np.mean(distance <= full):.1%}", "samples": samples,
        }  # fmt: skip


def bounds(runs: int) -> Iterator[Row]:
    """Yield the bounds of Theorem 2 for functions of norm 2, beside the regret, and how far bounds are from f.

    20 actions, 10 contexts, noise 0.1, delta 0.1, uniform reference, MMD radius 0.2, contexts drawn from the reference.
    The gap is the true worst case of the recommended action less its bound.
    """
    actions, contexts = np.linspace(0.0, 1.0, 20)[:, None], np.linspace(0.0, 1.0, 10)[:, None]
    kernel, noise, norm, delta = Product(RBF(0.2), Matern(0.3, nu=1.5)), 0.1, 2.0, 0.1
    gp, ball = GP(kernel, noise), MMD(contexts, kernel.context)
    reference = np.full(len(contexts), 0.1)
    for rounds in (50, 200, 800):
        gamma = maximum_information_gain(gp, actions, contexts, rounds)
        told: dict[str, list[float]] = {
            name: [] for name in ("regret", "gap", "gap2", "beta", "shift", "bound", "print")
        }
        for number in range(runs):
            rng = np.random.default_rng([rounds, number])
            f = function_of_norm(norm, kernel, actions, contexts, rng)
            rule = TheoreticalBeta(norm, noise, delta)
            for beta, gap in ((rule, "gap"), (2.0, "gap2")):
                opt = Optimizer(actions, contexts, ambiguity=ball, setting=General(), surrogate=gp, beta=beta)
                chosen = []
                for _ in range(rounds):
                    s, j = opt.ask(reference=reference, radius=0.2), int(rng.integers(len(contexts)))
                    opt.tell(s, float(f[s.action_index, j]) + noise * rng.normal(), context_index=j)
                    chosen.append(s.action_index)
                r = opt.recommend()
                truth = float(ball.worst_case(f[r.action_index], reference, 0.2).expectation)
                told[gap].append(truth - r.value)
                known = opt.posterior
                if beta is rule and supports(known, SupportsInformationGain):
                    width = rule.width(known.information_gain, gp.ridge, 2)
                    shift = regret.shift_norm(f, ball)
                    lost = regret.robust_regret(f, ball, reference, 0.2, chosen).cumulative[-1]
                    arguments = (width, gamma.upper[-1], np.full(rounds, 0.2), shift, delta, gp.ridge)
                    told["regret"].append(float(lost))
                    told["beta"].append(width)
                    told["shift"].append(shift)
                    told["bound"].append(regret.general_bound(*arguments))
                    told["print"].append(regret.printed_general_bound(*arguments))
        mean = {name: float(np.mean(values)) for name, values in told.items()}
        yield {
            "rounds": rounds, "runs": runs, "beta_T": f"{mean['beta']:.2f}",
            "gamma_T": f"{gamma.greedy[-1]:.1f} to {gamma.upper[-1]:.1f}",
            "B'": f"{mean['shift']:.2f}", "crude B'": f"{regret.crude_shift_norm(norm, ball):.0f}",
            "regret": f"{mean['regret']:.1f}", "proof": f"{mean['bound']:.0f}", "print": f"{mean['print']:.0f}",
            "least gap, theory": f"{min(told['gap']):.2f}", "mean gap, theory": f"{mean['gap']:.2f}",
            "mean gap, beta 2": f"{mean['gap2']:.2f}",
            "false, beta 2": f"{np.mean(np.array(told['gap2']) < 0.0):.0%}",
        }  # fmt: skip


def wind_exact() -> Iterator[Row]:
    """Yield what each objective earns in 2015 if it is solved exactly in every hour, and its robust regret."""
    power, hours, problem = _year(1)
    radii = {"stochastic (UCB's)": (Expectation(), 0.0), "DRO, radius 0.08": (problem.ambiguity, 0.08)}
    for r in (0.3, 0.08, 0.1):
        radii[f"StableOpt, radius {r}"] = (Neighbourhood(problem.contexts), r)
    seen = nearest_context(power, problem.contexts)
    totals = {name: np.zeros(3) for name in (*radii, "no commitment")}
    for hour in hours.tolist():
        reference = empirical(seen[hour - WINDOW : hour], len(problem.contexts))
        robust = problem.ambiguity.worst_case(problem.values, reference, RADII["DRBO"]).expectation
        for name, total in totals.items():
            x = 0
            if name in radii:
                ambiguity, r = radii[name]
                own = robust
                if not name.startswith("DRO"):
                    own = ambiguity.worst_case(problem.values, reference, r).expectation
                x = int(np.argmax(own))
            commitment = float(problem.actions[x, 0])
            total += [revenue(np.array(commitment), np.array(power[hour])), robust.max() - robust[x], commitment]
    for name, (earned, lost, committed) in totals.items():
        yield {
            "objective": name, "hours": len(hours), "revenue": f"{earned:.1f}", "robust regret": f"{lost:.1f}",
            "mean commitment": f"{committed / len(hours):.3f}",
        }  # fmt: skip


UNCERTAIN = Uncertain()


@dataclass(frozen=True)
class Variant:
    """One way to solve an hour.

    Attributes
    ----------
    ambiguity, radius : what it is robust to, made of the problem
    contexts : the rule for the context
    rounds : how many evaluations an hour has
    noise : standard deviation of an outcome, which the GP knows
    size : of the grid of actions and of contexts
    kernel : of the GP; None for the problem's
    iterate : whether to deploy the iterate of eq. (10), or otherwise the action of the best bound
    """

    ambiguity: Callable[[Problem], AmbiguitySet] = lambda problem: problem.ambiguity
    radius: float = RADII["DRBO"]
    contexts: ContextRule = UNCERTAIN
    rounds: int = 100
    noise: float = 0.01
    size: int = 50
    kernel: Product | None = None
    iterate: bool = True


def _stable(problem: Problem) -> AmbiguitySet:
    return Neighbourhood(problem.contexts)


PAPER = Variant()
METHODS = {
    "DRBO": PAPER,
    "UCB": replace(PAPER, ambiguity=lambda _: Expectation(), radius=0.0),
    "StableOpt, radius 0.3": replace(PAPER, ambiguity=_stable, radius=RADII["StableOpt"]),
    "StableOpt, radius 0.3, own contexts": replace(
        PAPER, ambiguity=_stable, radius=RADII["StableOpt"], contexts=Pessimistic()
    ),
    "StableOpt, radius 0.08": replace(PAPER, ambiguity=_stable),
    "StableOpt, radius 0.08, own contexts": replace(PAPER, ambiguity=_stable, contexts=Pessimistic()),
}
SHARP = Product(Matern(0.3, amplitude=3.0, nu=1.5), Matern(0.3, nu=1.5))
ABLATION = {
    "as in figure 3": PAPER,
    "deploy the action of the best bound": replace(PAPER, iterate=False),
    "informative contexts": replace(PAPER, contexts=Informative()),
    "both": replace(PAPER, contexts=Informative(), iterate=False),
    "a tenth of the noise": replace(PAPER, noise=0.001),
    "300 rounds": replace(PAPER, rounds=300),
    "grid of 25 x 25": replace(PAPER, size=25),
    "Matern 3/2, amplitude 3": replace(PAPER, kernel=SHARP),
    "informative, best bound, 300 rounds": replace(PAPER, contexts=Informative(), iterate=False, rounds=300),
    "the same, a tenth of the noise": replace(PAPER, contexts=Informative(), iterate=False, rounds=300, noise=0.001),
}


def solved(variants: dict[str, Variant], every: int, runs: int) -> Iterator[Row]:
    """Yield revenue and robust regret of every N-th hour of 2015 by each variant, scaled to a year."""
    for name, variant in variants.items():
        power, hours, problem = _year(1, variant.size)
        hours = hours[every // 2 :: every]
        if variant.kernel is not None:
            problem = replace(problem, gp_kernel=variant.kernel)
        seen = nearest_context(power, problem.contexts)
        told = np.empty((len(hours), runs, 2))
        for i, hour in enumerate(hours.tolist()):
            reference = empirical(seen[hour - WINDOW : hour], len(problem.contexts))
            robust = problem.ambiguity.worst_case(problem.values, reference, RADII["DRBO"]).expectation
            for seed in range(runs):
                x = _deployed(variant, problem, reference, np.random.default_rng([seed, hour]))
                earned = float(revenue(problem.actions[x, 0], power[hour]))
                told[i, seed] = earned, robust.max() - robust[x]
        year = told.mean(axis=0) * 8760.0
        revenues, regrets = (f"{mean:.1f} +- {error:.1f}" for mean, error in zip(*mean_and_error(year), strict=True))
        yield {
            "variant": name, "hours": len(hours), "seeds": runs,
            "revenue per year": revenues.removesuffix(" +- nan"),
            "robust regret per year": regrets.removesuffix(" +- nan"),
            "hours without regret": f"{np.mean(told[:, :, 1] < 1e-9):.0%}",
        }  # fmt: skip


def _deployed(variant: Variant, problem: Problem, reference: np.ndarray, rng: np.random.Generator) -> int:
    """Return the action that one hour's optimization deploys."""
    opt = Optimizer(
        problem.actions,
        problem.contexts,
        ambiguity=variant.ambiguity(problem),
        setting=Simulator(reference, variant.radius),
        surrogate=replace(problem, noise=variant.noise).surrogate,
        beta=2.0,
        policy=Optimism(variant.contexts),
    )
    for _ in range(variant.rounds):
        s = opt.ask()
        opt.tell(s, float(problem.values[s.action_index, s.context_index]) + variant.noise * rng.normal())
    return int((opt.recommend_iterate() if variant.iterate else opt.recommend()).action_index)


def _year(year: int, size: int = 50) -> tuple[np.ndarray, np.ndarray, Problem]:
    """Return the power of all hours, the hours of a year (0 or 1) and the problem of an hour."""
    whole = WindYear(la_haute_borne())
    return whole.power, whole.hours(year), wind(size=size)


def _print(rows: Iterator[Row]) -> None:
    """Print a Markdown table, a row as soon as it is there."""
    for i, row in enumerate(rows):
        if i == 0:
            print("| " + " | ".join(row) + " |")
            print("|" + "---|" * len(row))
        print("| " + " | ".join(map(str, row.values())) + " |", flush=True)


def _apart(x: list[float]) -> float:
    """Return the smallest distance of two of the numbers."""
    return float(np.diff(np.sort(x)).min())


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def main() -> None:
    """Print the table that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("readings", "stableopt", "radius", "bounds", "wind", "hours", "ablation"))
    parser.add_argument("--every", type=int, default=23, help="solve every N-th hour of the year")
    parser.add_argument("--runs", type=int, default=10, help="runs, or seeds of noise")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the records of figure 2 are")
    given = parser.parse_args()
    tables: dict[str, Callable[[], Iterator[Row]]] = {
        "readings": readings,
        "stableopt": lambda: stableopt(given.out),
        "radius": radius,
        "bounds": lambda: bounds(given.runs),
        "wind": wind_exact,
        "hours": lambda: solved(METHODS, given.every, given.runs),
        "ablation": lambda: solved(ABLATION, given.every, given.runs),
    }
    _print(tables[given.name]())


if __name__ == "__main__":
    main()
