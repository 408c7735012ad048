"""Every setting through one contract, and what each of them adds."""

import math

import numpy as np
import pytest

from drbo import MMD, RBF, DataDriven, Expectation, General, Simulator
from drbo.radius import Constant, Theoretical, empirical
from drbo.rounds.settings import Known, Setting

MMD3 = MMD([0.0, 0.5, 1.0])
NONE = np.empty(0, dtype=np.intp)


@pytest.mark.parametrize(
    ("setting", "picks", "events"),
    [
        (General(), False, 2),
        (DataDriven(), False, 3),
        (Simulator([0.2, 0.3, 0.5], 0.1), True, 1),
        (Simulator([0.2, 0.3, 0.5], 0.1, pick="informative"), True, 1),
    ],
    ids=repr,
)
def test_contract(setting: Setting, picks: bool, events: int) -> None:
    assert setting.picks_context is picks
    assert setting.events == events
    reference, radius = (np.array([0.2, 0.3, 0.5]), 0.1) if setting.needs_ball else (None, None)
    p, eps = setting.ball(reference, radius, Known(np.array([1, 1, 2]), MMD3, 3))
    assert p.shape == (3,)
    assert p.sum() == pytest.approx(1.0)
    assert eps >= 0.0


def test_general_needs_both() -> None:
    with pytest.raises(TypeError, match="reference is missing"):
        General().ball(None, 0.1, Known(NONE, MMD3, 3))
    with pytest.raises(TypeError, match="radius is missing"):
        General().ball([0.2, 0.3, 0.5], None, Known(NONE, MMD3, 3))
    with pytest.raises(ValueError, match="reference must hold 3 weights"):
        General().ball([0.5, 0.5], 0.1, Known(NONE, MMD3, 3))


def test_data_driven_reference_is_empirical() -> None:
    p, eps = DataDriven(delta=0.2).ball(None, None, Known(np.array([1, 1, 2, 0]), MMD3, 3))
    np.testing.assert_array_equal(p, [0.25, 0.5, 0.25])
    assert eps == pytest.approx((2 + math.sqrt(2 * math.log(6 * 16 / 0.2))) / 2)


def test_before_the_first_context_everything_is_possible() -> None:
    p, eps = DataDriven().ball(None, None, Known(NONE, MMD3, 3))
    np.testing.assert_allclose(p, 1 / 3)
    assert eps == math.inf


def test_data_driven_takes_any_rule() -> None:
    assert DataDriven(radius=0.3).ball(None, None, Known(NONE, MMD3, 3))[1] == 0.3
    assert DataDriven(radius=Constant(0.4)).ball(None, None, Known(NONE, MMD3, 3))[1] == 0.4
    seen = np.array([0, 1])
    full = Theoretical(0.1).radius(seen, MMD3, 3)
    assert Theoretical(0.1, factor=0.25).radius(seen, MMD3, 3) == pytest.approx(full / 4)


def test_theoretical_radius_scales_with_the_kernel() -> None:
    seen = np.array([0, 1])
    large = MMD([0.0, 0.5, 1.0], RBF(0.1, amplitude=3.0))
    assert Theoretical().radius(seen, large, 3) == pytest.approx(3 * Theoretical().radius(seen, MMD3, 3))
    assert Theoretical().radius(seen, Expectation(), 3) == Theoretical().radius(seen, MMD3, 3)


def test_the_truth_is_within_the_theoretical_radius_at_all_times() -> None:
    """Corollary 4 gives the radius a third of delta; every run of 200 should be covered, and a tenth of it not."""
    rng = np.random.default_rng(0)
    contexts = np.linspace(0, 1, 20)
    mmd, truth = MMD(contexts, RBF(0.1)), rng.dirichlet(np.ones(20))
    covered = {1.0: 0, 0.1: 0}
    for _ in range(200):
        seen = rng.choice(20, size=30, p=truth)
        distances = [mmd.distance(empirical(seen[:t], 20), truth) for t in range(1, 31)]
        for factor in covered:
            radii = [Theoretical(0.1, factor).radius(seen[:t], mmd, 20) for t in range(1, 31)]
            covered[factor] += bool((np.array(distances) <= radii).all())
    assert covered[1.0] == 200
    assert covered[0.1] < 100


def test_simulator_from_history() -> None:
    p, eps = Simulator(radius=0.2, history=[0, 0, 2, 2]).ball(None, None, Known(NONE, MMD3, 3))
    np.testing.assert_array_equal(p, [0.5, 0.0, 0.5])
    assert eps == 0.2


@pytest.mark.parametrize("setting", [DataDriven(), Simulator([0.2, 0.3, 0.5], 0.1)], ids=repr)
def test_a_ball_that_the_setting_knows_must_not_be_given(setting: Setting) -> None:
    with pytest.raises(TypeError, match="reference must not be given"):
        setting.ball([0.2, 0.3, 0.5], None, Known(NONE, MMD3, 3))
    with pytest.raises(TypeError, match="radius must not be given"):
        setting.ball(None, 0.1, Known(NONE, MMD3, 3))


def test_bad_construction() -> None:
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        DataDriven(delta=0.0)
    with pytest.raises(ValueError, match="radius must be zero or more"):
        DataDriven(radius=-0.1)
    with pytest.raises(TypeError, match="radius must be a number"):
        DataDriven(radius="large")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="radius must be zero or more"):
        Simulator([1.0], float("nan"))
    with pytest.raises(TypeError, match="Simulator needs a radius"):
        Simulator([1.0])
    with pytest.raises(TypeError, match="Simulator needs a reference"):
        Simulator(radius=0.1).check(3, sampled=False)
    with pytest.raises(TypeError, match="reference must not be given to Simulator: the samples are"):
        Simulator([1.0], radius=0.1).check(1, sampled=True)
    with pytest.raises(ValueError, match='pick must be "uncertain" or "informative", got \'best\''):
        Simulator([1.0], 0.1, pick="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="history must be a flat sequence"):
        Simulator(radius=0.1, history=[0.5])
    with pytest.raises(ValueError, match="history must hold indices from 0 to 2"):
        Simulator(radius=0.1, history=[3]).check(3, sampled=False)
    with pytest.raises(ValueError, match="reference must hold 2 weights"):
        Simulator([0.2, 0.3, 0.5], radius=0.1).check(2, sampled=False)
