"""Production: a baseline, an action of one's own choice, a floor, and a limit of the loss against the baseline."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import GP, MMD, RBF, Box, DataDriven, General, LearnedGP, Optimizer, Product, Samples, Simulator
from drbo.knowledge.state import Terms

PAST = np.random.default_rng(0).normal(100.0, 20.0, 40)


def profit(order: float, demand: float) -> float:
    return 5.0 * min(order, demand) - 3.0 * order


def shop(told: int = 10, apart: float = 30.0, **options: Any) -> Optimizer:
    """A newsvendor whose log has three orders around 90."""
    given: dict[str, Any] = {"setting": DataDriven(radius=0.1), "baseline": {"order": 90.0}, **options}
    opt = Optimizer(Box(order=(40.0, 200.0)), Samples({"demand": PAST}), **given)
    for i in range(told):
        order = 90.0 + (i % 3 - 1) * apart
        sign = 1.0 if opt.configuration.maximize else -1.0
        opt.tell({"order": order}, sign * profit(order, PAST[i]), context={"demand": PAST[i]}, drawn=False)
    return opt


def grid(told: int = 12, **options: Any) -> Optimizer:
    given: dict[str, Any] = {
        "ambiguity": MMD(kernel=RBF(0.3)),
        "setting": General(),
        "surrogate": GP(Product(RBF(0.2), RBF(0.3)), 0.1),
        "baseline": 0.5,
        **options,
    }
    opt = Optimizer(np.linspace(0, 1, 21), np.linspace(0, 1, 6), **given)
    rng = np.random.default_rng(0)
    for _ in range(told):
        i, j = int(rng.integers(7, 13)), int(rng.integers(6))
        opt.tell(i / 20, np.sin(3 * i / 20) + 0.2 * j / 5 + 0.1 * rng.normal(), context_index=j)
    return opt


ROUND: dict[str, Any] = {"reference": np.full(6, 1 / 6), "radius": 0.2}


def test_u10_the_first_order_is_not_a_bet() -> None:
    """Without limits the first order is at the end of the range, where the profit may be far below that of today."""
    assert shop().ask().action["order"] > 150.0
    s = shop().ask(floor=60.0)
    assert not s.fallback
    assert s.action["order"] < 130.0


def test_a_learned_model_goes_little_beyond_what_has_been_tried() -> None:
    """Orders from 85 to 95 tell nothing of an order of 200, although a smooth model believes that they do."""
    opt = shop(apart=5.0)
    assert opt.predict({"order": 200.0}, {"demand": 100.0}).lower > profit(200.0, 100.0)
    assert 77.0 - 1e-6 <= opt.ask(floor=60.0).action["order"] <= 103.0 + 1e-6
    steps = Optimizer([0, 10, 20, 30], [0.0, 1.0], setting=Simulator([1, 1], 0.1, pick="uncertain"), baseline=10)
    for i in range(6):
        steps.tell(10 * (i % 2), float(i), context_index=i % 2)
    assert {s.action_index for s in steps.ask(4, floor=-1e6)} <= {0, 1, 2}


def test_a_floor_is_what_a_recommendation_would_certify() -> None:
    opt = shop()
    s = opt.ask(floor=60.0)
    known = opt._known
    ball = known.ball(known.state, Terms())
    beliefs = known.for_bounds(known.state, ball)
    lower = drbo.models.bounds.Bound(beliefs.certain(ball), beliefs.bound_width, drbo.models.bounds.LOWER)
    assert beliefs.belief.units.outward(ball.certificate(lower, s.action_point).lower_bound) >= 60.0


def test_a_floor_that_nothing_meets_gives_the_baseline() -> None:
    s = shop().ask(floor=1e4)
    assert s.fallback
    assert s.action["order"] == pytest.approx(90.0)
    assert "the baseline" in str(s)


def test_a_learned_model_of_one_action_stays_at_the_baseline() -> None:
    opt = shop(told=0)
    assert opt.ask(floor=-1e6).fallback
    for demand in PAST[:6]:
        opt.tell({"order": 90.0}, profit(90.0, demand), context={"demand": demand})
    assert opt.ask(floor=-1e6).fallback
    opt.tell({"order": 95.0}, profit(95.0, 100.0), context={"demand": 100.0})
    assert not opt.ask(floor=-1e6).fallback


def test_a_floor_of_a_cost_is_a_ceiling() -> None:
    opt = shop(maximize=False)
    s = opt.ask(floor=-60.0)
    assert not s.fallback
    assert s.action["order"] < 130.0
    assert opt.ask(floor=-1e4).fallback


def test_a_floor_on_a_grid_permits_what_every_certificate_does() -> None:
    opt = grid()
    recommended = opt.recommend(**ROUND)
    s = opt.ask(floor=recommended.value - 1e-9, **ROUND)
    assert s.action_index == recommended.action_index
    assert opt.ask(floor=recommended.value + 0.01, **ROUND).fallback
    assert opt.ask(floor=-100.0, **ROUND).action_index == grid().ask(**ROUND).action_index


@pytest.mark.parametrize("make", [grid, shop])
def test_an_action_of_ones_own_choice(make: Any) -> None:
    opt = make()
    given = ROUND if make is grid else {}
    best = opt.recommend(**given).action
    s = opt.ask(action=best, **given)
    assert s.action == best if make is shop else s.action[0] == best[0]
    assert s.context is None
    assert [p.number for p in opt.pending] == [s.number]


def test_the_simulator_picks_the_context_of_ones_own_action() -> None:
    opt = Optimizer(Box(x=(0.0, 1.0)), [0.1, 0.5, 0.9], setting=Simulator([1, 1, 1], radius=0.1, pick="uncertain"))
    first, second = opt.ask(2, action={"x": 0.25})
    assert first.action == second.action == {"x": 0.25}
    assert first.context is not None
    assert first.context_index != second.context_index


def test_a_budget_is_never_exceeded_and_the_baseline_costs_nothing() -> None:
    opt = shop(explore_budget=200.0)
    spent, orders = 0.0, []
    for demand in PAST[10:22]:
        s = opt.ask()
        assert s.loss <= 0.1 * (200.0 - spent) + 1e-9
        spent += s.loss
        orders.append(s.action["order"])
        opt.tell(s, profit(s.action["order"], demand), context={"demand": demand})
    assert 0.0 < spent < 200.0
    assert len({round(order, 3) for order in orders}) > 3
    assert shop(explore_budget=0.0).ask().action["order"] == pytest.approx(90.0)


def test_a_cancelled_suggestion_gives_its_share_of_the_budget_back() -> None:
    opt = shop(explore_budget=200.0)
    first = opt.ask()
    second = opt.ask()
    assert second.loss <= 0.1 * (200.0 - first.loss) + 1e-9
    opt.cancel(second)
    opt.cancel(first)
    assert opt._known.state.spent == pytest.approx(0.0, abs=1e-9)
    assert opt.ask(action={"order": 150.0}).loss > 0.0


def test_several_suggestions_share_a_budget() -> None:
    losses = [s.loss for s in shop(explore_budget=100.0).ask(3)]
    assert losses[1] <= 0.1 * (100.0 - losses[0]) + 1e-9
    assert losses[2] <= 0.1 * (100.0 - losses[0] - losses[1]) + 1e-9


@pytest.mark.parametrize("make", [grid, shop])
def test_a_saved_one_goes_on_as_the_live_one(make: Any, tmp_path: Path) -> None:
    opt = make(explore_budget=50.0)
    given = ROUND if make is grid else {}
    opt.ask(floor=-1.0 if make is grid else 50.0, **given)
    opt.ask(action=opt.configuration.arguments["baseline"], **given)
    opt.save(tmp_path / "shop.json")
    loaded, copied = Optimizer.load(tmp_path / "shop.json"), copy.deepcopy(opt)
    for one in (loaded, copied):
        assert one.pending == opt.pending
        assert [p.loss for p in one.pending] == [p.loss for p in opt.pending]
        assert [p.fallback for p in one.pending] == [p.fallback for p in opt.pending]
    asked = [one.ask(floor=-1.0, **given) for one in (opt, loaded, copied)]
    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"baseline": None, "explore_budget": 1.0}, TypeError, "explore_budget needs a baseline"),
        ({"explore_budget": -1.0}, ValueError, "explore_budget must be zero or more"),
        ({"explore_budget": float("nan")}, ValueError, "explore_budget"),
        ({"baseline": {"order": 500.0}}, ValueError, "baseline"),
        ({"baseline": {"amount": 90.0}}, ValueError, "baseline"),
    ],
)
def test_bad_configurations(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        shop(**options)


def test_bad_asks_change_nothing() -> None:
    opt = shop(baseline=None)
    facts = opt.history
    for bad, error, text in (
        ({"floor": 1.0}, TypeError, "floor needs a baseline"),
        ({"floor": 1.0, "action": {"order": 90.0}}, TypeError, "floor must not be given with action"),
        ({"action": {"order": 9000.0}}, ValueError, "action"),
        ({"action": "order"}, TypeError, "action"),
    ):
        with pytest.raises(error, match=text):
            opt.ask(**bad)
    with pytest.raises(ValueError, match="floor"):
        shop().ask(floor=float("nan"))
    assert opt.history == facts


def test_a_budget_is_refused_where_nothing_bounds_the_loss() -> None:
    with pytest.raises(TypeError, match="explore_budget must not be given where contexts have a range"):
        Optimizer(
            Box(order=(40.0, 200.0)),
            Samples({"demand": PAST}, within=Box(demand=(0.0, 300.0))),
            setting=DataDriven(radius=0.1),
            baseline={"order": 90.0},
            explore_budget=10.0,
        )
    opt = Optimizer(
        Box(order=(40.0, 200.0)),
        Samples({"demand": PAST}, atoms=10),
        setting=DataDriven(radius=0.1),
        surrogate=LearnedGP(),
        baseline={"order": 90.0},
        explore_budget=10.0,
    )
    with pytest.raises(TypeError, match="explore_budget needs every sample as an atom"):
        opt.ask()
    with pytest.raises(ValueError, match="action must be the baseline until"):
        shop(told=0, explore_budget=10.0).ask(action={"order": 100.0})
