"""Methods and problems of one's own in a comparison, and the two recent methods against independent oracles."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import drbo
from drbo.experiments import ForeignMethod, Method, MethodComparison, Task, compare, run, style
from drbo.experiments._recent import Ensemble, RandomWidth, expected_regret_bound, random_width, scaled
from drbo.problems import Problem, benchmark_1, gardner_limits, gramacy_limits, robos
from drbo.rounds import Beliefs, Choice, Round
from tolerances import STANDARD_ERRORS

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Greedy(drbo.Policy):
    """The action of the largest worst-case mean; nature picks the context."""

    width: float = 0.0

    def choose(self, round: Round, beliefs: Beliefs) -> Choice:
        mean = drbo.models.Bound(beliefs.expected(round.ball), self.width, drbo.models.UPPER)
        found = round.search.best(round.ball, mean, round.near, round.under_way)
        return Choice(found.action, None, found.score, round.ball)


class RandomSearch:
    """An ask-tell object that knows nothing but the outcome."""

    def __init__(self, task: Task, seed: int) -> None:
        assert task.problem.actions.shape[1] == 1
        self.rng, self.told = np.random.default_rng(seed), list[float]()

    def ask(self) -> float:
        return float(self.rng.uniform())

    def tell(self, outcome: float) -> None:
        self.told.append(outcome)


class Scripted:
    """A plain object with a state: it picks action and context, and recommends."""

    def __init__(self) -> None:
        self.count, self.seen = 0, list[Any]()

    def ask(self) -> tuple[Array, float]:
        self.count += 1
        return np.array([0.1 * self.count]), 0.5

    def tell(self, outcome: float, context: Array) -> None:
        self.seen.append((outcome, context.tolist()))

    def recommend(self) -> list[float]:
        return [0.73]


def own_function(x: Array, c: Array) -> Array:
    return np.asarray(-((x[..., 0] - c[..., 0]) ** 2))


def own_problem(**changes: Any) -> Problem:
    fields: dict[str, Any] = {
        "name": "mine",
        "actions": np.linspace(0.0, 1.0, 8),
        "contexts": np.linspace(0.0, 1.0, 5),
        "function": own_function,
        "reference": [0.1, 0.2, 0.4, 0.2, 0.1],
        "noise": 0.05,
        "radius": 0.2,
    }
    return Problem(**{**fields, **changes})


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "save", lambda *_: [])  # figures are drawn in test_cli.py


def small(problems: Any, methods: Any, out: Path, **more: Any) -> MethodComparison:
    return compare(problems, methods, seeds=3, rounds=4, out=out, workers=1, **more)


def test_a_method_and_a_problem_of_ones_own(tmp_path: Path) -> None:
    scripted = Scripted()
    methods = {"drbo": "drbo", "greedy": Greedy(), "random": RandomSearch, "scripted": scripted}
    found = small([own_problem(), "robos"], methods, tmp_path)
    labels = ["DRBO", "greedy", "random", "scripted"]
    assert [(row["problem"], row["method"]) for row in found.rows] == [
        (p, m) for p in ("mine", "robos") for m in labels
    ]
    frame = found.to_frame(per_round=True)
    assert len(frame) == 2 * 4 * 3 * 4
    mine = frame[(frame.problem == "mine") & (frame.method == "scripted")]
    assert mine["action"].tolist() == [1, 1, 2, 3] * 3  # 0.1, 0.2, 0.3, 0.4 on a grid of sevenths
    assert set(mine["context"]) == {2}
    assert set(mine["recommended"]) == {5}  # 0.73
    assert len(found.to_frame()) == 8
    noise = {m: frame[(frame.problem == "mine") & (frame.method == m)] for m in labels}
    values = own_problem().values
    for table in noise.values():  # paired: the same noise for all
        left = table["outcome"].to_numpy() - values[table["action"], table["context"]]
        first = noise["DRBO"]
        np.testing.assert_allclose(left, first["outcome"] - values[first["action"], first["context"]], atol=1e-12)
    assert scripted.count == 0  # every run has a copy


def test_records_are_found_again_by_name_source_and_values(tmp_path: Path) -> None:
    first = small(own_problem(), {"greedy": Greedy()}, tmp_path)
    path = tmp_path / "compare-mine-simulator-greedy.csv"
    path.write_text(path.read_text().replace("greedy", "read from the file"))
    assert small(own_problem(), {"greedy": Greedy()}, tmp_path).rows[0]["method"] == "read from the file"
    for problem, policy in ((own_problem(), Greedy(1.0)), (own_problem(noise=0.06), Greedy())):
        again = small(problem, {"greedy": policy}, tmp_path)
        assert again.rows[0]["method"] == "greedy"
    assert first.rows[0]["runs"] == 3
    assert "greedy" in json.loads(path.with_suffix(".json").read_text())["method"]


def test_two_processes_have_the_same_records(tmp_path: Path) -> None:
    """Workers get a class of this file, a policy and a problem by pickle."""
    methods: dict[str, Any] = {"greedy": Greedy(), "random": RandomSearch}
    one = small(own_problem(), methods, tmp_path / "one").records
    two = compare(own_problem(), methods, seeds=3, rounds=4, out=tmp_path / "two", workers=2).records
    for name in one:
        if name != "seconds":
            np.testing.assert_array_equal(one[name], two[name])


def test_latex_marks_the_best_and_what_is_close() -> None:
    regret = {"a_1": [1.0, 1.2, 0.8], "b": [1.1, 1.1, 1.0], "c": [3.0, 3.1, 2.9]}
    columns: dict[str, list[Any]] = {"problem": [], "method": [], "run": [], "regret": [], "simple regret": []}
    for method, totals in regret.items():
        for number, total in enumerate(totals):
            for half in (0.25, 0.75):
                row = ("p_1", method, number, half * total, total)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    table = MethodComparison([], [], {name: np.array(column) for name, column in columns.items()})
    for column in ("regret", "simple regret"):
        text = table.to_latex(column)
        assert r"p\_1 & $\mathbf{1} \pm 0.12$ & $\underline{1.07} \pm 0.033$ & $3 \pm 0.058$ \\" in text
        assert r"problem & a\_1 & b & c \\" in text
    with pytest.raises(ValueError, match="have no limits"):
        table.to_latex("constrained regret")


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"a b": Greedy()}, "the name of a method of your own must be letters"),
        ({"ucb": Greedy()}, "none of drbo's, got 'ucb'"),
        ({"mine": 3}, "must be a name, a policy, an object with ask and tell"),
        ({"mine": lambda *_: object()}, r"must have ask\(\) and tell\(outcome\), but has no ask"),
        ({"one": "drbo", "two": "drbo"}, "methods must be different"),
        ({}, "methods must be a mapping"),
        ("drbo", "methods must be a mapping"),
    ],
)
def test_methods_that_are_refused(methods: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        small(robos(), methods, tmp_path)


def test_choices_that_are_refused(tmp_path: Path) -> None:
    class Wrong(Scripted):
        def ask(self) -> Any:
            return "left"

    with pytest.raises(ValueError, match=r"'mine' must return actions of 1 number\(s\), got 'left'"):
        small(own_problem(), {"mine": Wrong()}, tmp_path)
    with pytest.raises(ValueError, match="nature picks the context in the general setting"):
        small(own_problem(), {"mine": Scripted()}, tmp_path, setting="general")
    with pytest.raises(ValueError, match="problems must have different names"):
        small([robos(), robos()], ["drbo"], tmp_path)
    with pytest.raises(ValueError, match=r"function must return an array of shape \(8, 5\)"):
        small(own_problem(function=lambda *_: 1.0), ["drbo"], tmp_path)
    with pytest.raises(ValueError, match="name must be letters"):
        own_problem(name="a/b")


# --- problems with limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [gramacy_limits, gardner_limits])
def test_problems_with_limits_judge_by_them(make: Any, tmp_path: Path) -> None:
    problem = make(7)
    task = Task.of(problem, "simulator")
    for i in range(len(problem.actions)):  # each limit under its own worst distribution
        held = []
        for name, (_, limit) in problem.limits.items():
            worst = problem.ambiguity.worst_case(-problem.limit_values[name][i], problem.reference, problem.radius)
            held.append(-float(worst.expectation) <= limit.threshold)
        assert task.feasible[i] == all(held)
    assert 0 < task.feasible.sum() < len(problem.actions) / 2
    assert not task.feasible[problem.robust_optimum.action_index]  # the limits matter
    best = task.constrained_solution(problem.values)
    robust = task.aim.worst_cases(problem, problem.values)
    assert robust[best] == robust[task.feasible].max()
    found = compare(problem, {"drbo": "drbo", "random": _RandomAction}, seeds=2, rounds=25, out=tmp_path, workers=1)
    by = {row["method"]: row for row in found.rows}
    assert by["DRBO"]["infeasible runs"] <= by["random"]["infeasible runs"]
    assert set(found.records) >= {"infeasible", "constrained regret"}


class _RandomAction:
    """Takes the outcomes of limits, too."""

    def __init__(self, task: Task, seed: int) -> None:
        self.actions, self.rng = task.problem.actions, np.random.default_rng(seed)
        self.names = set(task.problem.limits)

    def ask(self) -> Array:
        return np.asarray(self.rng.choice(self.actions))

    def tell(self, outcome: float, context: Array, limits: dict[str, float]) -> None:
        assert np.isfinite(outcome)
        assert context.shape == (1,)
        assert set(limits) == self.names


# --- recent methods --------------------------------------------------------------------------------------------------


def test_the_random_width_has_its_distribution() -> None:
    rng = np.random.default_rng(0)
    xi = np.array([random_width(50, rng) for _ in range(4000)]) ** 2 - 2.0 * math.log(50)
    assert stats.kstest(xi, stats.chi2(2).cdf).pvalue > 1e-3


def test_the_random_width_is_optimistic_on_average() -> None:
    """The two inequalities behind the bound of RRGP-UCB, for draws from a GP given some outcomes."""
    rng, problem = np.random.default_rng(1), benchmark_1(6)
    assert problem.gp_kernel is not None
    points = [(x, c) for x in problem.actions for c in problem.contexts]
    xs, cs = (np.array([point[k] for point in points]) for k in (0, 1))
    prior = problem.gp_kernel.action(xs, xs) * problem.gp_kernel.context(cs, cs)
    seen = [3, 17, 22]
    gain = np.linalg.solve(prior[np.ix_(seen, seen)] + 0.01 * np.eye(3), prior[seen]).T
    mean, cov = gain @ np.array([0.2, -0.1, 0.4]), prior - gain @ prior[seen]
    spread = np.sqrt(np.maximum(np.diag(cov), 0.0))
    draws = rng.multivariate_normal(mean, cov, size=2000, method="eigh").reshape(-1, 6, 6)
    widths = np.array([random_width(36, rng) for _ in range(2000)])[:, None]

    def robust(values: Array) -> Array:
        rows = values.reshape(-1, 6)
        return problem.ambiguity.worst_case(rows, problem.reference, 0.2).expectation.reshape(-1, 6)

    best, upper = robust(draws).max(axis=1), robust(mean + widths * spread).max(axis=1)
    lower, of_one = robust(mean - widths * spread)[:, 2], robust(draws)[:, 2]
    for smaller, larger in ((best, upper), (lower, of_one)):
        error = math.hypot(smaller.std() / math.sqrt(2000), larger.std() / math.sqrt(2000))
        assert smaller.mean() <= larger.mean() + STANDARD_ERRORS * error


def test_rrgp_ucb_is_optimism_with_the_width_of_its_round() -> None:
    problem, task = benchmark_1(8), Task.of(benchmark_1(8), "simulator")
    policy = RandomWidth(drbo.Uncertain(), 64)
    opt = Method("own", "own", policy=lambda _: policy).optimizer(task, seed=5)
    for t in range(5):
        twin_width = random_width(64, np.random.default_rng((5, t)))
        mean, variance = opt.posterior.moments(problem.actions)
        scores = problem.ambiguity.worst_case(
            mean + twin_width * np.sqrt(variance), problem.reference, problem.radius
        ).expectation
        s = opt.ask()
        assert scores[s.action_index] == pytest.approx(scores.max(), abs=1e-8)
        opt.tell(s, 0.1 * t)


def test_the_regret_of_rrgp_ucb_is_within_its_bound() -> None:
    """Draws from the GP itself; the information gain of all points, noise 0.1, bounds that of any ten."""
    base = benchmark_1(6)
    assert base.gp_kernel is not None
    gram = np.kron(
        base.gp_kernel.action(base.actions, base.actions), base.gp_kernel.context(base.contexts, base.contexts)
    )
    gain = 0.5 * np.linalg.slogdet(np.eye(36) + 10 * gram / 0.01)[1]
    bound = expected_regret_bound(36, 10, gain, base.gp_kernel.variance, 0.1)
    total = []
    for k in range(10):
        f = np.random.default_rng(k).multivariate_normal(np.zeros(36), gram, method="eigh").reshape(6, 6)
        table = {(x, c): f[i, j] for i, x in enumerate(base.actions[:, 0]) for j, c in enumerate(base.contexts[:, 0])}
        problem = Problem(
            name="draw", actions=base.actions, contexts=base.contexts, reference=base.reference, noise=0.1, radius=0.2,
            function=np.vectorize(lambda x, c, table=table: table[x[0], c[0]], signature="(d),(e)->()"),
            mmd_kernel=base.mmd_kernel, gp_kernel=base.gp_kernel,
        )  # fmt: skip
        total.append(run(problem, "simulator", "rrgp-ucb", 10, 0, k)["regret"].sum())
    assert 0.0 < np.mean(total) <= bound


def test_the_weights_of_an_ensemble_are_evidence() -> None:
    """Against the log density of all outcomes at once, by a dense covariance matrix."""
    task = Task.of(benchmark_1(7), "simulator")
    problem, rng = task.problem, np.random.default_rng(3)
    ensemble, told = Ensemble.of(task, 0), []
    for _ in range(6):
        action, context = ensemble.ask()
        outcome = float(rng.normal(scale=0.3))
        ensemble.tell(outcome, context)
        told.append((float(action[0]), float(context[0]), outcome))
    x, c, y = (np.array(column) for column in zip(*told, strict=True))
    assert problem.gp_kernel is not None
    for k, share in enumerate((0.5, 1.0, 2.0)):
        kernel = scaled(problem.gp_kernel, share)
        gram = kernel.action(x[:, None], x[:, None]) * kernel.context(c[:, None], c[:, None])
        density = stats.multivariate_normal(np.zeros(6), gram + problem.noise**2 * np.eye(6)).logpdf(y)
        assert ensemble.evidence[k] == pytest.approx(density, abs=1e-8)
    likely = np.exp(ensemble.evidence)
    np.testing.assert_allclose(ensemble.weights, likely / likely.sum(), rtol=1e-9)


def test_an_own_record_is_an_ask_tell_object_in_every_setting() -> None:
    for setting in ("general", "data-driven"):
        record = run(own_problem(), setting, ForeignMethod("random", "random", RandomSearch), 3, 0, 0, recommend=True)
        assert len(record["regret"]) == 3
