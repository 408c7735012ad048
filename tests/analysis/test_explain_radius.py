"""What a radius means, against distances computed by hand."""

import copy
import math
import pickle
import re
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

import drbo
from drbo import KL, MMD, RBF, Box, Categorical, ChiSquare, CVaR, Log, Optimizer, Samples, Simulator, TotalVariation
from drbo.ambiguity import Divergence
from drbo.ambiguity.placed import SupportsShift, supports
from drbo.radius import empirical

RNG = np.random.default_rng(0)
DEMAND = RNG.normal(100.0, 20.0, 120)
PAST = Samples(DEMAND, names=["demand"])


def dense_mmd(a: np.ndarray, b: np.ndarray, lengthscale: float) -> float:
    """The MMD of two samples of numbers, from every pair."""

    def mean(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.exp(-0.5 * ((x[:, None] - y) / lengthscale) ** 2).mean())

    return math.sqrt(mean(a, a) + mean(b, b) - 2.0 * mean(a, b))


@pytest.mark.parametrize("shift", [5.0, 15.0, 20.0])
def test_an_mmd_is_told_as_a_shift(shift: float) -> None:
    """REVIEW U9: the radius that a shift of every day's demand has by hand is told as that shift."""
    lengthscale = 0.2 * np.ptp(DEMAND)
    radius = dense_mmd(DEMAND, DEMAND - shift, lengthscale)
    told = drbo.explain_radius(radius, PAST)
    assert told.shifts[0].amount == pytest.approx(shift, rel=1e-6)
    assert f"every day's demand lower by {shift:.3g}, or higher by as much" in str(told)
    assert "so are others that hurt more" in str(told)
    assert told.shifts[0].furthest == pytest.approx(dense_mmd(DEMAND, DEMAND - 1e6, lengthscale), abs=1e-3)


def test_a_shift_that_no_radius_reaches() -> None:
    told = drbo.explain_radius(1.05, PAST)
    assert told.shifts[0].amount is None
    assert "no shift of demand is that far" in str(told)


def test_wasserstein_is_told_in_the_units_of_each_column() -> None:
    """REVIEW U7."""
    data, scale = np.column_stack([RNG.normal(8.0, 5.0, 40), RNG.beta(4, 3, 40)]), {"outdoor": 2.0, "load": 0.1}
    told = drbo.explain_radius(1.25, Samples(data, names=["outdoor", "load"]), drbo.Wasserstein(scale=scale))
    assert [shift.column for shift in told.shifts] == ["outdoor", "load"]
    assert told.shifts[0].amount == pytest.approx(2.5, rel=1e-6)
    assert "every day's outdoor lower by 2.5" in str(told)


def test_log_columns_and_labels() -> None:
    box = Box(price=Log(1.0, 100.0), kind=Categorical("a", "b"))
    data = {"price": np.exp(RNG.uniform(1, 3, 40)).tolist(), "kind": (["a"] * 3 + ["b"]) * 10}
    equal = {"price": 1.0, "kind": 1.0}
    told = drbo.explain_radius(0.1, Samples(data, within=box, support=4), drbo.Wasserstein(scale=equal))
    factor = told.shifts[0]
    assert factor.logarithmic
    assert factor.amount == pytest.approx(math.exp(0.1), rel=1e-6)
    assert "every day's price lower by 9.51%, or higher by 10.5%" in str(told)
    # to turn every day to "a" moves a quarter of the days by 1; to "b", three quarters
    assert [one.label for one in told.relabelled] == ["a", "b"]
    np.testing.assert_allclose([one.furthest for one in told.relabelled], [0.25, 0.75], atol=1e-9)
    assert [one.share for one in told.relabelled] == pytest.approx([0.4, 0.1 / 0.75], rel=1e-6)


@pytest.mark.parametrize(
    ("ambiguity", "radius", "most"),
    [
        (TotalVariation(), 0.1, 0.2),
        (CVaR(), 0.5, 0.2),
        (ChiSquare(), 0.1, 0.1 + math.sqrt(0.1 * 0.1 * 0.9)),  # (q - s)^2 / (s (1 - s)) = eps
        (KL(), 0.2 * math.log(2.0) + 0.8 * math.log(0.8 / 0.9), 0.2),
    ],
    ids=repr,
)
def test_sets_that_know_no_positions_are_told_by_how_likely_bad_days_are(
    ambiguity: drbo.AmbiguitySet, radius: float, most: float
) -> None:
    told = drbo.explain_radius(radius, PAST, ambiguity)
    tenth = next(one for one in told.likelier if one.share == 0.1)
    assert tenth.most == pytest.approx(most, rel=1e-6)
    assert f"the worst 10% of days up to {most / 0.1:.3g} times as likely" in str(told)
    assert not told.shifts
    assert not told.windows  # continuous days share no value: the set cannot compare windows
    if isinstance(ambiguity, TotalVariation):
        assert told.replaced == pytest.approx(0.1)
        assert "10% of the days may be replaced" in str(told)
    else:
        assert told.stays
        assert "a shift of all days is infinitely far away" in str(told)


def test_the_windows_of_the_past_that_moved_further() -> None:
    moving = np.concatenate([RNG.normal(0.0, 1.0, 60), RNG.normal(3.0, 1.0, 60)])
    told = drbo.explain_radius(0.6, Samples(moving, names=["load"]), window=30)
    assert told.window == 30
    assert [window.start for window in told.windows] == [30, 45, 60, 75, 90]
    distances = [
        dense_mmd(moving[w.start : w.stop], moving[w.start - 30 : w.start], 0.2 * np.ptp(moving)) for w in told.windows
    ]
    np.testing.assert_allclose([w.distance for w in told.windows], distances, atol=1e-6)
    assert [w.start for w in told.exceeded] == [60]
    assert "days 60 to 89" in str(told)
    assert told.by_chance <= 0.05
    assert told.resemblance > 0.2
    assert 'block="auto"' in str(told)
    with pytest.raises(ValueError, match="window must be at most half of the 120 days"):
        drbo.explain_radius(0.6, Samples(moving), window=61)


def test_the_place_between_nothing_and_everything() -> None:
    told = drbo.explain_radius(0.3, PAST)
    assert told.share == 0.3 / told.diameter
    assert f"this radius is {told.share:.0%} of it" in str(told)
    assert "That is everything" in str(drbo.explain_radius(2.0, PAST))
    assert "That is everything" in str(drbo.explain_radius(math.inf, PAST))
    assert drbo.explain_radius(0.0, PAST).shifts == ()
    assert "nothing else" in str(drbo.explain_radius(0.3, PAST, drbo.Expectation()))


GRID = np.linspace(0.0, 1.0, 9)


@pytest.mark.parametrize(
    ("contexts", "settings"),
    [
        (GRID, Simulator(np.ones(9), 0.3, pick="uncertain")),
        (GRID, Simulator(radius=0.3, history=[0, 1, 2, 3, 3, 2, 4, 5, 6, 6], pick="uncertain")),
        (PAST, Simulator(radius=0.3, pick="uncertain")),
        (PAST, drbo.DataDriven()),
        (Box(load=(0.0, 2.0)), drbo.DataDriven()),
        (Samples(RNG.random(20), within=Box(load=(0.0, 2.0))), Simulator(radius=0.3, pick="uncertain")),
    ],
    ids=repr,
)
def test_every_kind_of_contexts(contexts: Any, settings: drbo.Setting) -> None:
    opt = Optimizer(GRID, contexts, setting=settings)
    told = opt.under().explain_radius(0.3)
    assert told.radius == 0.3
    assert told.shifts[0].amount is not None
    assert opt.under().explain_radius().radius == opt.ask().radius
    assert str(copy.deepcopy(opt).under().explain_radius(0.3)) == str(told)


def test_labels() -> None:
    counts = {"young": 120, "old": 40}
    opt = Optimizer(GRID, counts, ambiguity=TotalVariation(), setting=Simulator(radius=0.2, pick="uncertain"))
    told = opt.under().explain_radius(0.2)
    assert told.replaced == pytest.approx(0.2)
    assert not told.windows  # counts are in no order of time
    in_order = (
        Optimizer(GRID, counts, ambiguity=drbo.Wasserstein(), setting=Simulator(radius=0.2, pick="uncertain"))
        .under()
        .explain_radius(0.2)
    )
    assert {one.label: one.furthest for one in in_order.relabelled} == pytest.approx({"young": 0.25, "old": 0.75})
    assert "80% of the days turned to context = young" in str(in_order)


def test_an_optimizer_says_the_same_as_its_samples_and_asks_as_before() -> None:
    opt = Optimizer(GRID, PAST, setting=Simulator(radius=0.2, pick="uncertain"))
    twin = copy.deepcopy(opt)
    for radius in (0.1, 0.4):
        assert opt.under().explain_radius(radius) == drbo.explain_radius(radius, PAST)
    assert len(opt.history) == 0
    assert opt.ask() == twin.ask()


def test_general_setting_needs_a_reference() -> None:
    opt = Optimizer(GRID, GRID, ambiguity=MMD(kernel=RBF(0.2)), setting=drbo.General())
    with pytest.raises(TypeError, match="reference is missing"):
        opt.under().explain_radius(0.3)
    amount = opt.under(reference=np.ones(9)).explain_radius(0.3).shifts[0].amount
    assert amount is not None
    placed = MMD(kernel=RBF(0.2)).on(GRID)
    assert supports(placed, SupportsShift)
    expected = placed.moved(empirical(np.arange(9), 9), GRID[:, None] - amount)
    assert expected == pytest.approx(0.3, rel=1e-6)


class Contamination(Divergence):
    """A set of one's own, with the two methods that it must have."""

    def _distance(self, p: np.ndarray, q: np.ndarray) -> float:
        grown = q > 0.0
        return float(np.max(1.0 - p[grown] / q[grown], initial=0.0))

    def _solve(self, values: np.ndarray, reference: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


def test_a_set_of_ones_own_gets_the_generic_parts() -> None:
    told = drbo.explain_radius(0.3, PAST, Contamination())
    assert "as Contamination measures it" in str(told)
    assert not told.shifts
    assert not told.likelier
    assert told.windows


def test_the_record_is_frozen_and_plain() -> None:
    told = drbo.explain_radius(0.3, PAST)
    with pytest.raises(FrozenInstanceError):
        told.radius = 1.0  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(told)) == told
    assert asdict(told)["shifts"][0]["column"] == "demand"


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="samples must be Samples"):
        drbo.explain_radius(0.3, DEMAND)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="radius must be zero or more"):
        drbo.explain_radius(-0.3, PAST)


OUTDOOR = Samples(np.column_stack([RNG.normal(8.0, 5.0, 60), RNG.beta(4, 3, 60)]), names=["outdoor", "load"])


def test_means_are_told_as_widths() -> None:
    told = drbo.explain_radius(1.5, OUTDOOR, drbo.Moments(outdoor=2.0))
    assert "mean outdoor is within 3 of the reference's" in str(told)
    assert "a factor on the widths" in str(told)
    assert told.shifts[0].amount == pytest.approx(3.0, rel=1e-6)
    assert told.shifts[1].amount is None  # the mean of the load is free
    assert told.windows


def test_an_intersection_is_told_by_its_ball_as_far_as_the_bounds_let_it() -> None:
    free = drbo.explain_radius(0.3, OUTDOOR).shifts[0].amount
    wide = drbo.explain_radius(0.3, OUTDOOR, drbo.Intersection(MMD(), drbo.Moments(outdoor=100.0)))
    assert wide.shifts[0].amount == pytest.approx(free, rel=1e-6)
    told = drbo.explain_radius(0.3, OUTDOOR, drbo.Intersection(MMD(), drbo.Moments(outdoor=0.5)))
    assert told.shifts[0].amount == pytest.approx(0.5, rel=1e-6)
    assert "The bounds hold as stated" in str(told)


def test_scenarios_are_told_round_the_reference() -> None:
    scenario = Samples(DEMAND[:20] - 30.0, names=["demand"])
    told = drbo.explain_radius(0.3, PAST, drbo.AnyOf([scenario], within=MMD(kernel=RBF(25.0))))
    alone = drbo.explain_radius(0.3, PAST, MMD(kernel=RBF(25.0)))
    assert told.shifts[0].amount == pytest.approx(alone.shifts[0].amount, rel=1e-6)
    assert "round each of 1 scenario(s)" in str(told)
    with pytest.raises(TypeError, match="has no answer for AnyOf"):
        drbo.radius.Bootstrap().for_samples(PAST, drbo.AnyOf([scenario], within=KL()))


def test_shares_are_told_as_stated() -> None:
    opt = Optimizer(
        GRID, {"young": 120, "old": 40}, ambiguity=drbo.Shares(old=(0.2, 0.5)), setting=Simulator(pick="uncertain")
    )
    told = opt.under().explain_radius()
    assert told.radius == 0.0
    assert "share of old is from 20.0% to 50.0%" in str(told)
    assert "0 is the set as stated" in str(told)
    assert "this radius is" not in str(told)
    assert "from 10.0% to 60.0%" in str(opt.under().explain_radius(0.1))


def test_several_radii_are_told_as_one_by_one() -> None:
    labelled = Samples({"demand": DEMAND, "kind": ["a", "b", "c"] * (len(DEMAND) // 3) + ["a"] * (len(DEMAND) % 3)})
    opt = Optimizer(GRID, labelled, setting=Simulator(radius=0.2, pick="uncertain"))
    radii = [0.0, 0.1, 0.2, 0.5, math.inf]
    told = opt.under().explain_radius(radii)
    assert told == tuple(opt.under().explain_radius(radius) for radius in radii)
    assert told[1].shifts[0].amount < told[2].shifts[0].amount  # type: ignore[operator]
    assert opt.under().explain_radius([]) == ()
    with pytest.raises(ValueError, match="radius"):
        opt.under().explain_radius([0.1, -0.1])


# --- every printed statement against an independent distance (REVIEW V1, V2, V3) --------------------------------------


def transport(a: np.ndarray, p: np.ndarray, b: np.ndarray, q: np.ndarray, order: float) -> float:
    """The Wasserstein distance of weights p on points a from weights q on points b, by a general linear program."""
    n, m = len(a), len(b)
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    plan = linprog((cdist(a, b) ** order).ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.append(p, q))
    assert plan.status == 0
    return math.pow(max(float(plan.fun or 0.0), 0.0), 1.0 / order)


def turned(data: np.ndarray, at: slice, level: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The days, of which a share has another label."""
    moved = data.copy()
    moved[:, at] = level
    n = len(data)
    return np.vstack([data, moved]), np.append(np.full(n, (1.0 - share) / n), np.full(n, share / n))


def printed_shares(told: drbo.analysis.RadiusExplanation) -> dict[str, float]:
    """The shares of days turned to each label, as a reader sees them."""
    found = re.findall(r"([\d.e+-]+)% of the days turned to .* = (\w+)$", str(told), re.MULTILINE)
    return {label: float(percent) / 100.0 for percent, label in found}


def inside(distance: float, radius: float) -> bool:
    """Whether it is inside, and at the border up to the three digits that are printed."""
    return 0.99 * radius <= distance <= radius * (1.0 + 1e-6)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("numbers", [False, True], ids=["labels", "mixed"])
@pytest.mark.parametrize("kind", [Categorical, drbo.Ordinal])
def test_printed_shares_of_days_are_inside_a_wasserstein_set(kind: Any, numbers: bool, order: float) -> None:
    labels = [*"aaabacabbc"]
    data: dict[str, Any] = {"kind": labels} | ({"load": RNG.normal(0.0, 0.3, 10)} if numbers else {})
    box = Box({"kind": kind("a", "b", "c")} | ({"load": (-3.0, 3.0)} if numbers else {}))
    family = drbo.Wasserstein(order=order, scale=dict.fromkeys(data, 0.5))
    told = drbo.explain_radius(0.6, Samples(data, within=box, support=4), family)
    index = np.array(["abc".index(label) for label in labels])
    # labels of a Categorical are 1 apart
    levels = np.eye(3) / math.sqrt(2.0) if kind is Categorical else np.arange(3.0)[:, None]
    positions = levels[index] if not numbers else np.column_stack([levels[index], data["load"]])
    shares = printed_shares(told)
    assert len(shares) + sum(one.share is None for one in told.relabelled) == 3
    for one in told.relabelled:
        label, at = "abc".index(one.label), slice(0, levels.shape[1])
        share = shares.get(one.label, 1.0)
        points, q = turned(positions / 0.5, at, levels[label] / 0.5, share)
        distance = transport(positions / 0.5, np.full(10, 0.1), points, q, order)
        assert inside(distance, 0.6) if one.label in shares else distance < 0.6, one
    if numbers:
        shift = float(re.findall(r"load lower by ([\d.]+), or higher by as much", str(told))[0])
        assert shift == pytest.approx(0.3, rel=1e-6)


def test_a_wasserstein_set_of_order_2_on_labels() -> None:
    """By hand: a share s of three quarters of the days moves by 1, so that the distance is sqrt(0.75 s)."""
    told = drbo.explain_radius(0.3, Samples({"kind": [*"aaab"]}), drbo.Wasserstein(order=2))
    assert [one.share for one in told.relabelled] == pytest.approx([0.09 / 0.25, 0.09 / 0.75], rel=1e-9)


PRICES = np.array([1.5, 2.0, 3.0, 2.0, 1.2, 4.0, 1.0, 2.2])
PRICED = Samples({"price": PRICES}, within=Box(price=Log(0.1, 100.0)))


@pytest.mark.parametrize(
    "ambiguity", [drbo.Moments(price=1.0), drbo.Intersection(drbo.Wasserstein(), drbo.Moments(price=1.0))], ids=repr
)
def test_both_shifts_of_a_logarithmic_column_keep_its_mean(ambiguity: drbo.AmbiguitySet) -> None:
    told = drbo.explain_radius(1.0, PRICED, ambiguity)
    ((lower, higher),) = re.findall(r"price lower by ([\d.]+)%, or higher by ([\d.]+)%", str(told))
    for moved in (PRICES * (1.0 - float(lower) / 100.0), PRICES * (1.0 + float(higher) / 100.0)):
        assert inside(abs(moved.mean() - PRICES.mean()), 1.0)
    (shift,) = told.shifts
    assert shift.amount == shift.higher == pytest.approx(1.0 + 1.0 / PRICES.mean(), rel=1e-6)
    assert shift.lower == pytest.approx(1.0 / (1.0 - 1.0 / PRICES.mean()), rel=1e-6)


def test_a_shift_that_only_one_way_is_that_far() -> None:
    """No price is negative, so that no mean falls by 3; it may rise by 3."""
    told = drbo.explain_radius(1.0, PRICED, drbo.Moments(price=3.0))
    assert told.shifts[0].lower is None
    assert told.shifts[0].amount == told.shifts[0].higher == pytest.approx(1.0 + 3.0 / PRICES.mean(), rel=1e-6)
    assert "every day's price higher by 142%; no shift that makes it lower is that far" in str(told)


GROUPS = [*"aaaabaaacb"]


@pytest.mark.parametrize("ball", [MMD(), drbo.Wasserstein(), drbo.Wasserstein(order=2)], ids=repr)
@pytest.mark.parametrize("most", [0.25, 0.9])
def test_printed_shares_of_days_keep_every_part_of_an_intersection(ball: drbo.AmbiguitySet, most: float) -> None:
    family = drbo.Intersection(ball, drbo.Shares(b=(0.0, most), free_inside=True))
    samples = Samples({"kind": GROUPS})
    told = drbo.explain_radius(0.25, samples, family)
    assert len(printed_shares(told)) == 3
    levels = np.eye(3) / math.sqrt(2.0)
    placed = ball.with_columns(samples.space.columns).on(levels, np.full(3, 1.0 / math.sqrt(3.0)))
    counts = np.array([GROUPS.count(label) for label in "abc"]) / 10.0
    scale = drbo.explain_radius(0.25, samples, ball).relabelled
    for i, (label, share) in enumerate(printed_shares(told).items()):
        q = (1.0 - share) * counts + share * np.eye(3)[i]
        assert q[1] <= most + 1e-6
        everything = placed.distance(np.eye(3)[i], counts)
        unit = scale[i].furthest / everything  # of an MMD, whose lengthscale goes by the range of the samples
        assert unit * placed.distance(q, counts) <= 0.25 * (1.0 + 1e-6)
        assert inside(unit * placed.distance(q, counts), 0.25) or (label == "b" and inside(q[1], most))


def test_where_the_reference_breaks_the_bounds_so_does_every_shift() -> None:
    samples = Samples({"kind": GROUPS, "load": RNG.random(10)})
    ball = drbo.Wasserstein(scale={"kind": 1.0, "load": 1.0})
    told = drbo.explain_radius(
        0.3, samples, drbo.Intersection(ball, drbo.Shares({"kind": {"b": 0.4}}, free_inside=True))
    )
    assert "no shift of load: each breaks the bounds" in str(told)
    assert printed_shares(told) == {"b": pytest.approx(0.25)}  # 20% + 25% of 80% is 40%
    assert "none of the days turned to kind = a: any share is outside of the set" in str(told)
