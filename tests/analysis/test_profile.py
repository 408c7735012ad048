"""What each radius costs and buys under the posterior of an optimizer."""

import copy
import json
import math
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import GP, MMD, RBF, Box, DataDriven, General, Optimizer, Product, Samples, Simulator
from drbo.rounds.grid_search import robust_scores
from exact import exact
from tolerances import ROUNDING

GRID, CONTEXTS = np.linspace(0.0, 1.0, 11), np.linspace(0.0, 1.0, 7)
MODEL = GP(kernel=Product(RBF(0.3), RBF(0.3)), noise=0.05)
RNG = np.random.default_rng(0)
SAMPLES = Samples(RNG.beta(2, 4, 30), names=["load"], support=8)
RADII = [0.4, 0.0, 0.2]


def outcome(x: float, c: float) -> float:
    return float(np.exp(-20 * (x - c) ** 2) + 0.6 * np.exp(-8 * (x - 0.1) ** 2))


def run(actions: Any, contexts: Any, setting: drbo.Setting, rounds: int = 12, **more: Any) -> Optimizer:
    options = {"ambiguity": MMD(kernel=RBF(0.2)), "surrogate": MODEL, **more}
    opt = Optimizer(actions, contexts, setting=setting, **options)
    sign = 1.0 if opt.configuration.maximize else -1.0
    for i in range(rounds):
        x, c = (i * 0.37) % 1.0, (i * 0.61) % 1.0
        action: Any = {"x": x} if isinstance(actions, Box) else GRID[round(10 * x)]
        context: Any = CONTEXTS[round(6 * c)] if contexts is CONTEXTS else {"load": c}
        opt.tell(action, sign * outcome(x, c), context=context)
    return opt


WEIGHTS = np.array([4, 3, 2, 1, 1, 1, 1])


@pytest.mark.parametrize("maximize", [True, False])
def test_rows_are_their_definition_on_a_grid(maximize: bool) -> None:
    opt = run(GRID, CONTEXTS, Simulator(WEIGHTS, 0.3, pick="uncertain"), maximize=maximize)
    told = opt.under().profile(RADII)
    p, sign = WEIGHTS / WEIGHTS.sum(), 1.0 if maximize else -1.0
    mean, variance = exact(opt.posterior).on_grid()
    lower = mean - 2.0 * np.sqrt(variance)
    stochastic = int(np.argmax(mean @ p))
    assert told.stochastic == pytest.approx(GRID[stochastic])
    for i, radius in enumerate(RADII):
        scores = robust_scores(lower, opt.configuration.placed, p, radius)
        best = int(np.argmax(scores))
        assert told.actions[i] == pytest.approx(GRID[best])
        assert told.bound[i] == pytest.approx(sign * scores[best], abs=1e-7)
        assert told.expected[i] == pytest.approx(sign * float(mean[best] @ p), abs=1e-9)
        assert told.price[i] == pytest.approx(float((mean[stochastic] - mean[best]) @ p), abs=1e-9)
        assert told.protection[i] == pytest.approx(scores[best] - scores[stochastic], abs=1e-7)
        recommended = opt.recommend(radius=radius)
        assert told.bound[i] == pytest.approx(recommended.value, rel=ROUNDING)
    assert told.present == 0.3
    assert (told.price >= 0.0).all()
    assert (told.protection >= 0.0).all()


@pytest.mark.parametrize(
    ("actions", "contexts", "setting"),
    [
        (GRID, SAMPLES, Simulator(radius=0.2, pick="uncertain")),
        (Box(x=(0.0, 1.0)), CONTEXTS, DataDriven()),
        (Box(x=(0.0, 1.0)), SAMPLES, DataDriven(radius=0.1)),
        (
            Box(x=(0.0, 1.0)),
            Samples(RNG.beta(2, 4, 12), within=Box(load=(0.0, 1.0)), support=8),
            Simulator(radius=0.2, pick="uncertain"),
        ),
    ],
    ids=["grid, samples", "box, grid", "box, samples", "box, range"],
)
def test_every_kind_of_space(actions: Any, contexts: Any, setting: drbo.Setting) -> None:
    """REVIEW U8: the optimizer itself gives its profile, whatever the space."""
    opt = run(actions, contexts, setting)
    twin = copy.deepcopy(opt)
    told = opt.under().profile(RADII)
    order = np.argsort(RADII)
    assert (np.diff(told.bound[order]) <= 1e-6).all()  # a larger set guarantees less
    assert (told.protection >= 0.0).all()
    assert (told.price >= -1e-6).all()
    assert len(opt.history) == len(twin.history)
    assert opt.ask() == twin.ask()
    if isinstance(setting, Simulator):
        assert told.bound[2] >= twin.recommend(radius=0.2).value - 1e-6
        assert told.present == 0.2


def test_general_setting() -> None:
    opt = run(GRID, CONTEXTS, General())
    with pytest.raises(TypeError, match="reference is missing"):
        opt.under().profile(RADII)
    told = opt.under(reference=WEIGHTS).profile(RADII)
    assert math.isnan(told.present)
    again = run(GRID, CONTEXTS, Simulator(WEIGHTS, 0.3, pick="uncertain")).under().profile(RADII)
    np.testing.assert_allclose(told.bound, again.bound, rtol=ROUNDING)


def test_an_action_that_fails_is_in_no_row() -> None:
    opt = run(GRID, CONTEXTS, Simulator(WEIGHTS, 0.3, pick="uncertain"))
    best = opt.under().profile([0.0])
    for action in (best.stochastic, best.actions[0]):
        for context in [*CONTEXTS] * 3:
            opt.tell(action, failed=True, context=context)
    told = opt.under().profile([0.0])
    for action in (told.stochastic, told.actions[0]):
        assert action != pytest.approx(best.stochastic)
        assert action != pytest.approx(best.actions[0])


def test_table_and_picture() -> None:
    opt = run(Box(x=(0.0, 1.0), price=(0.0, 1.0)), CONTEXTS, DataDriven(radius=0.2), rounds=0)
    for i in range(4):
        opt.tell({"x": i / 4, "price": 0.5}, outcome(i / 4, CONTEXTS[i]), context=CONTEXTS[i])
    told = opt.under().profile([0.0, 0.3, math.inf])
    rows = json.loads(json.dumps(told.rows()))
    assert [row["radius"] for row in rows] == [0.0, 0.3, math.inf]
    assert rows[1]["x"] == told.actions[1]["x"]
    assert rows[1]["action.price"] == told.actions[1]["price"]  # `price` is a number of the table
    assert list(told.to_frame().columns) == list(rows[0])
    figure = told.plot()
    assert [axes.get_title() for axes in figure.axes] == ["Outcome", "Robustness"]
    assert np.size(figure.axes[0].lines[0].get_xdata()) == 2  # what is infinite is left out


def test_bad_input() -> None:
    opt = run(GRID, CONTEXTS, Simulator(WEIGHTS, 0.3, pick="uncertain"))
    for wrong in ([-0.1], [], [[0.1, 0.2]]):
        with pytest.raises(ValueError, match="radii must be"):
            opt.under().profile(wrong)
    fresh = Optimizer(GRID, CONTEXTS, ambiguity=MMD(), setting=Simulator(WEIGHTS, 0.3, pick="uncertain"))
    with pytest.raises(RuntimeError, match="profile needs an outcome"):
        fresh.under().profile([0.1])


def test_given_actions_are_the_candidates() -> None:
    """On a finite set all of them are what a search finds; a few give the best of these."""
    contexts = np.linspace(0.0, 1.0, 4)
    opt = Optimizer(
        np.linspace(0.0, 1.0, 6),
        contexts,
        setting=Simulator(np.ones(4), radius=0.2, pick="uncertain"),
        surrogate=GP(Product(RBF(0.3), RBF(0.5)), 0.05),
    )
    for i in range(8):
        x = float((i % 6) / 5)
        opt.tell(x, -((x - 0.4) ** 2) - 0.3 * x * float(contexts[i % 4]), context_index=i % 4)
    radii, asked = [0.0, 0.3, 1.0], opt.under()
    every, few = asked.profile(radii, actions=np.linspace(0.0, 1.0, 6)), asked.profile(radii, actions=[0.0, 1.0])
    searched = asked.profile(radii)
    for name in ("bound", "expected", "price", "protection"):
        assert getattr(every, name) == pytest.approx(getattr(searched, name), abs=1e-9)
    for i, radius in enumerate(radii):
        best = max(opt.bound(x, radius=radius).trust.guess for x in (0.0, 1.0))
        assert few.bound[i] == pytest.approx(best, abs=1e-9)
    with pytest.raises(ValueError, match="actions must hold at least one action"):
        asked.profile(radii, actions=[])
