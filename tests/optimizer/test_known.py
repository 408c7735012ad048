"""A known part of the outcome: the model learns the rest, and every number is that of the sum."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from tolerances import CLOSED_FORM

KERNEL = drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5))
CONTEXTS = {"t": np.linspace(0.0, 1.0, 6)}


def nothing(action: Any, context: Any) -> float:
    """Return 0."""
    del action, context
    return 0.0


def wages(action: dict[str, Any], context: dict[str, Any]) -> float:
    """Return a cost that is known."""
    return float(100.0 + 3.0 * action["x"] - 2.0 * action["y"] + 4.0 * context["t"] * action["x"])


def all_wages(action: dict[str, Any], context: dict[str, Any]) -> Any:
    """Return the same for many pairs."""
    assert action["x"].shape == context["t"].shape
    return 100.0 + 3.0 * action["x"] - 2.0 * action["y"] + 4.0 * context["t"] * action["x"]


def slopes(action: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Return the derivatives by the action."""
    return {"x": 3.0 + 4.0 * context["t"], "y": -2.0 + 0.0 * action["y"]}


def unknown(action: dict[str, Any], context: dict[str, Any]) -> float:
    return math.sin(5.0 * action["x"] + context["t"]) + 0.3 * float(action["y"])


def optimizer(**more: Any) -> drbo.Optimizer:
    given: dict[str, Any] = {
        "setting": drbo.Simulator(radius=0.1), "surrogate": drbo.GP(KERNEL, 0.05), "ambiguity": drbo.TotalVariation(),
        **more,
    }  # fmt: skip
    return drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0), y=(0.0, 2.0)), given.pop("contexts", drbo.Samples(CONTEXTS, support=0)), **given
    )


def run(opt: drbo.Optimizer, rounds: int, known: Any = wages) -> None:
    for _ in range(rounds):
        s = opt.ask()
        opt.tell(s, known(s.action, s.context) + unknown(s.action, s.context))


POLICIES = [
    drbo.Optimism(drbo.Informative()), drbo.Thompson(drbo.Uncertain()), drbo.ValueOfInformation(draws=8),
    drbo.JointOptimism(drbo.Uncertain()), drbo.MeanEmbedding(drbo.Uncertain()), drbo.Checked(),
]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_a_known_part_of_zero_changes_nothing(policy: drbo.Policy) -> None:
    """Every path adds the known part to the same numbers, in every policy."""
    plain, other = optimizer(policy=policy), optimizer(policy=policy, known=nothing)
    for opt in (plain, other):
        run(opt, 2, nothing)
    assert [r.action for r in plain.results] == [r.action for r in other.results]
    a, b = plain.recommend(), other.recommend()
    assert (a.action, a.value) == (b.action, b.value)
    assert str(a) == str(b)


def test_the_model_learns_the_rest() -> None:
    """Predictions are the known part and those of a model that was told the rest."""
    opt, rest = optimizer(known=wages), optimizer()
    rng = np.random.default_rng(0)
    for t in CONTEXTS["t"]:
        action = {"x": rng.random(), "y": 2.0 * rng.random()}
        opt.tell(action, wages(action, {"t": t}) + unknown(action, {"t": t}), context={"t": t})
        rest.tell(action, unknown(action, {"t": t}), context={"t": t})
    actions = [{"x": rng.random(), "y": rng.random()} for _ in range(5)]
    contexts = [{"t": rng.random()} for _ in range(5)]
    whole, left = opt.predict(actions, contexts), rest.predict(actions, contexts)
    known = np.array([wages(a, c) for a, c in zip(actions, contexts, strict=True)])
    np.testing.assert_allclose(whole.mean, left.mean + known, rtol=1e-12)
    np.testing.assert_allclose(whole.std, left.std, rtol=1e-12)
    np.testing.assert_allclose(whole.lower, left.lower + known, rtol=1e-12)
    here, there = opt.leave_one_out(), rest.leave_one_out()
    np.testing.assert_allclose(here.mean - here.outcome, there.mean - there.outcome, rtol=1e-9, atol=1e-12)


def worst(lower: np.ndarray, radius: float) -> float:
    """Return the worst case of values (n,) by total variation, from the uniform reference: mass moves to the least."""
    order, w = np.argsort(-lower), np.full(len(lower), 1 / len(lower))
    left = radius
    for i in order[:-1]:
        moved = min(left, w[i])
        w[i], left = w[i] - moved, left - moved
        w[order[-1]] += moved
    return float(w @ lower)


@pytest.mark.parametrize("maximize", [True, False])
def test_the_worst_case_is_that_of_the_sum(maximize: bool) -> None:
    opt, rest = optimizer(known=wages, maximize=maximize), optimizer(maximize=maximize)
    rng, sign = np.random.default_rng(1), 1.0 if maximize else -1.0
    for t in CONTEXTS["t"]:
        action = {"x": rng.random(), "y": 2.0 * rng.random()}
        opt.tell(action, wages(action, {"t": t}) + unknown(action, {"t": t}), context={"t": t})
        rest.tell(action, unknown(action, {"t": t}), context={"t": t})
    contexts = [{"t": t} for t in CONTEXTS["t"]]
    grid = [{"x": x, "y": y} for x in np.linspace(0, 1, 21) for y in np.linspace(0, 2, 21)]

    def value(action: dict[str, Any]) -> float:
        left = rest.predict([action] * 6, contexts)
        known = np.array([wages(action, c) for c in contexts])
        return sign * worst(sign * (known + np.array(left.lower if maximize else left.upper)), 0.1)

    some = {"x": 0.3, "y": 0.7}
    q = opt.under(radius=0.1)
    assert q.bound(some).value == pytest.approx(value(some), rel=1e-9)
    best = max((value(action) for action in grid), key=lambda v: sign * v)
    found = q.recommend()
    assert sign * found.value >= sign * best - 1e-6
    assert found.value == pytest.approx(value(found.action), rel=1e-9)
    lead = q.compare(some, {"x": 0.9, "y": 0.1}).expected
    left = rest.under(radius=0.1).compare(some, {"x": 0.9, "y": 0.1}).expected
    known = np.mean([wages(some, c) - wages({"x": 0.9, "y": 0.1}, c) for c in contexts])
    assert lead == pytest.approx(left + sign * known, rel=1e-9)


@pytest.mark.parametrize("given", [drbo.Known(all_wages, vectorised=True), drbo.Known(wages, gradient=slopes),
                                   drbo.Known(all_wages, gradient=slopes, vectorised=True)])  # fmt: skip
def test_other_forms_of_the_same_function(given: drbo.Known) -> None:
    first, second = optimizer(known=wages), optimizer(known=given)
    for opt in (first, second):
        opt.tell({"x": 0.4, "y": 0.2}, 101.0, context={"t": 0.2})
        opt.tell({"x": 0.9, "y": 1.2}, 104.0, context={"t": 0.8})
    a, b = first.recommend(), second.recommend()
    assert a.value == pytest.approx(b.value, rel=1e-7)
    assert a.action == pytest.approx(b.action, abs=1e-3)


def test_the_given_gradient_is_that_of_finite_differences() -> None:
    from drbo.models.known import Known, KnownPart

    box = drbo.Box(x=drbo.Log(0.1, 10.0), y=(0.0, 2.0), k=drbo.Categorical("u", "v"))
    contexts = drbo.Box(t=(0.0, 1.0))

    def both(action: dict[str, Any], context: dict[str, Any]) -> float:
        return float(action["x"] ** 2 * context["t"] + 5.0 * action["y"])

    def exact(action: dict[str, Any], context: dict[str, Any]) -> dict[str, float]:
        return {"x": 2.0 * action["x"] * context["t"], "y": 5.0}

    point = box.encode("action", {"x": 2.0, "y": 0.5, "k": "v"}).coordinates
    some = [{"t": 0.3}, {"t": 0.9}]
    numeric = KnownPart(Known(both), box, contexts).gradient(point, some)
    given = KnownPart(Known(both, gradient=exact), box, contexts).gradient(point, some)
    np.testing.assert_allclose(numeric, given, rtol=1e-6, atol=1e-6)


def test_a_range_of_contexts_needs_a_lipschitz_constant() -> None:
    box = drbo.Box(t=(0.0, 1.0))
    with pytest.raises(TypeError, match=r"known needs lipschitz where contexts have a range"):
        optimizer(contexts=box, known=wages, ambiguity=None)
    with pytest.raises(ValueError, match=r"lipschitz must name the columns of the contexts, t, got u"):
        optimizer(contexts=box, known=drbo.Known(wages, lipschitz={"u": 4.0}), ambiguity=None)
    opt = optimizer(contexts=box, known=drbo.Known(wages, lipschitz={"t": 4.0}), ambiguity=drbo.Wasserstein())
    rng = np.random.default_rng(0)
    for _ in range(8):
        action, context = {"x": rng.random(), "y": rng.random()}, {"t": rng.random()}
        opt.tell(action, wages(action, context) + unknown(action, context), context=context)
    found = opt.under(radius=0.15).bound({"x": 0.5, "y": 0.5})
    # the least value on a fine grid of distributions on 201 points, by the set itself
    fine = [{"t": t} for t in np.linspace(0, 1, 201)]
    lower = np.array(opt.predict([{"x": 0.5, "y": 0.5}] * 201, fine).lower)
    points = np.linspace(0, 1, 201)[:, None]
    reference = np.zeros(201)
    for context, weight in zip(found.contexts, found.reference, strict=True):
        reference[round(context["t"] * 200)] += weight
    exact = drbo.Wasserstein().on(points).worst_case(lower, reference, 0.15).lower_bound
    assert found.value <= exact + 0.02
    assert found.value == pytest.approx(exact, abs=0.05)
    assert found.gap >= 0.0


@pytest.mark.parametrize("ambiguity", [drbo.MMD(kernel=drbo.RBF(0.5)), drbo.Wasserstein()], ids=str)
def test_compressed_samples_need_no_lipschitz_constant(ambiguity: Any) -> None:
    """Every sample is evaluated where nothing bounds the known part of a cell."""
    samples = drbo.Samples({"t": np.linspace(0.0, 1.0, 300) ** 3}, atoms=20)
    bounds = []
    for known in (wages, drbo.Known(wages, lipschitz=4.0)):
        opt = optimizer(contexts=samples, ambiguity=ambiguity, known=known)
        for x, t in ((0.2, 0.1), (0.9, 0.8), (0.5, 0.3)):
            action, context = {"x": x, "y": x}, {"t": t}
            opt.tell(action, wages(action, context) + unknown(action, context), context=context)
        bounds.append(opt.bound({"x": 0.5, "y": 1.0}).value)
    assert bounds[0] == pytest.approx(bounds[1], rel=CLOSED_FORM)


def test_saved_by_name(tmp_path: Path) -> None:
    opt = optimizer(known=drbo.Known(wages, lipschitz=4.0), surrogate=None)
    run(opt, 3)
    opt.save(tmp_path / "a.drbo")
    again, twin = drbo.Optimizer.load(tmp_path / "a.drbo", classes=[wages]), copy.deepcopy(opt)
    assert again.recommend().value == opt.recommend().value == twin.recommend().value
    assert again.ask().action == opt.ask().action == twin.ask().action
    with pytest.raises(ValueError, match=r"needs the function .*wages"):
        drbo.Optimizer.load(tmp_path / "a.drbo")
    with pytest.raises(TypeError, match="cannot write a lambda"):
        optimizer(known=lambda *_: 0.0).save(tmp_path / "b.drbo")
    assert "known" not in optimizer().configuration.arguments  # files without it stay as they were


def test_units_are_those_of_the_rest() -> None:
    """A large known part does not hide the rest from a model that learns its units."""
    rng = np.random.default_rng(0)
    opt = optimizer(known=lambda action, context: 1e6 * wages(action, context), surrogate=drbo.LearnedGP())
    for _ in range(12):
        action, context = {"x": rng.random(), "y": rng.random()}, {"t": rng.random()}
        opt.tell(action, 1e6 * wages(action, context) + unknown(action, context), context=context)
    predicted = opt.predict([{"x": 0.5, "y": 0.5}], [{"t": 0.5}])
    assert predicted.std[0] < 1.0
    assert predicted.mean[0] == pytest.approx(1e6 * wages({"x": 0.5, "y": 0.5}, {"t": 0.5}), abs=2.0)


def test_finite_sets_and_labels() -> None:
    points = np.linspace(0, 1, 5)[:, None]
    prices = {"day": 1.0, "night": 5.0}
    opt = drbo.Optimizer(
        points, ["day", "night"], setting=drbo.General(), surrogate=drbo.GP(KERNEL, 0.1),
        known=lambda action, context: -prices[context] * float(action[0]), ambiguity=drbo.TotalVariation(),
    )  # fmt: skip
    opt.tell(points[2], 3.0, context="day")
    q = opt.under(reference={"day": 0.5, "night": 0.5}, radius=0.0)
    assert q.recommend().action == pytest.approx([0.0], abs=0.26)
    mean = opt.predict(np.array([[0.5]]), ["night"]).mean[0] - opt.predict(np.array([[0.5]]), ["day"]).mean[0]
    assert mean < -1.0  # night costs 2 more
    assert opt.ask(reference=[0.5, 0.5], radius=0.1).action_index is not None


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (3, "known must be a function of an action and a context"),
        (lambda _a, _c: math.nan, r"known must return a finite number, got nan for \{'x': "),
        (lambda _a, _c: "much", r"known must return a finite number, got 'much'"),
        (lambda a, _c: a["missing"], r"known raised KeyError: 'missing' for \{'x': "),
        (drbo.Known(lambda _a, _c: 1.0, vectorised=True), r"one number per row, \(1,\), got shape \(\)"),
    ],
)
def test_what_does_not_work_is_refused_when_the_optimizer_is_made(known: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        optimizer(known=known)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(TypeError, match="known must not be given with contexts as a Perturbation"):
        optimizer(contexts=drbo.Perturbation(x=drbo.Normal(0.0, 0.1)), known=nothing, surrogate=None, ambiguity=None)
    opt = optimizer(known=wages)
    with pytest.raises(TypeError, match="distribution must not be given where a part of the outcome is known"):
        opt.tell({"x": 0.5, "y": 0.5}, 1.0, distribution=drbo.Samples(CONTEXTS))
    with pytest.raises(ValueError, match="lipschitz must be zero or more"):
        drbo.Known(wages, lipschitz=-1.0)


def test_a_large_known_part_does_not_hide_the_unknown_one() -> None:
    """The known part alone is best at x = 0, the sum at x = 1: the first outcomes explore what is unknown."""
    opt = drbo.Optimizer(
        drbo.Box(x=(0.0, 1.0), y=(0.0, 1.0)), drbo.Samples({"t": [0.0, 1.0]}, support=0),
        setting=drbo.Simulator(radius=0.0), known=lambda action, _: -50.0 * action["x"],
    )  # fmt: skip
    for _ in range(12):
        s = opt.ask()
        unknown_part = 120.0 * s.action["x"] ** 2 - 5.0 * (s.action["y"] - 0.5) ** 2
        opt.tell(s, -50.0 * s.action["x"] + unknown_part)
    first = [result.action["x"] for result in opt.results[:4]]
    assert max(first) - min(first) > 0.3
    assert opt.recommend().action["x"] > 0.9


@pytest.mark.parametrize("surrogate", [None, drbo.GP(KERNEL, 0.05)])
def test_a_run_over_a_range_keeps_the_known_part(surrogate: Any) -> None:
    """Contexts that the adversary adds move the posterior onto other contexts."""
    samples = drbo.Samples({"t": [0.2, 0.4, 0.6]}, within=drbo.Box(t=(0.0, 1.0)))
    known = drbo.Known(wages, lipschitz={"t": 4.0})
    opt = optimizer(contexts=samples, known=known, ambiguity=drbo.Wasserstein(scale={"t": 1.0}), surrogate=surrogate)
    run(opt, 8)
    opt.tell(opt.ask(), failed=True)
    run(opt, 1)
    guesses = [opt.under(radius=radius).recommend().trust.guess for radius in (0.0, 0.1, 0.4)]
    assert guesses == sorted(guesses, reverse=True)
    assert 90.0 < guesses[-1] < guesses[0] < 110.0
