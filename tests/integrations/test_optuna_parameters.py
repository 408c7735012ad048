"""Optuna's distributions as parameters: values come back, on the scale of the distribution."""

from typing import Any

import numpy as np
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

import drbo
from drbo.integrations.optuna.search_spaces import Levels, box_of, digest, fitted, parameter_of, value_at

EVERY: list[BaseDistribution] = [
    FloatDistribution(-1.0, 2.0),
    FloatDistribution(1e-5, 1e2, log=True),
    FloatDistribution(-10.2, 10.2, step=0.1),
    IntDistribution(-3, 4),
    IntDistribution(2, 10, step=4),
    IntDistribution(1, 200, log=True),
    CategoricalDistribution(["a", None, 3, 2.5, True]),
    CategoricalDistribution([1, True, 1.0, 2]),
]


@pytest.mark.parametrize("distribution", EVERY, ids=repr)
def test_values_there_and_back(distribution: BaseDistribution) -> None:
    parameter = parameter_of(distribution)
    for share in np.linspace(0.0, 1.0, 23):
        value = value_at(distribution, float(share))
        assert distribution._contains(distribution.to_internal_repr(value))
        assert type(value) in (int, float, str, bool, type(None))
        back = parameter.decode(np.array(parameter.encode("value", value)))
        assert back == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)
        fits, same = fitted(value, distribution)
        assert fits
        assert same == value
    if parameter.count is not None:
        levels = parameter.levels(np.arange(parameter.count))
        values = [parameter.decode(row) for row in levels]
        assert len(set(map(repr, values))) == parameter.count
        np.testing.assert_allclose([parameter.encode("value", v) for v in values], levels, rtol=0, atol=1e-12)


def test_levels_are_placed_as_the_distribution_says() -> None:
    assert parameter_of(IntDistribution(1, 100, log=True)).encode("n", 10) == pytest.approx([0.5])
    assert parameter_of(FloatDistribution(0.0, 1.0, step=0.25)).encode("x", 0.75) == pytest.approx([0.75])
    assert parameter_of(IntDistribution(2, 10, step=4)) == Levels(2, 10, 4, log=False, whole=True)
    for value in (0.3, -0.25, 1.25):
        with pytest.raises(ValueError, match=r"x must be 0.0, 0.25, ..., 1.0"):
            parameter_of(FloatDistribution(0.0, 1.0, step=0.25)).encode("x", value)


@pytest.mark.parametrize(
    ("value", "distribution", "wanted"),
    [
        (35.0 + 1e-12, FloatDistribution(-20.0, 35.0), (True, 35.0)),
        (35.1, FloatDistribution(-20.0, 35.0), (False, 35.0)),
        (3.0000000001, IntDistribution(0, 9), (True, 3)),
        (3.4, IntDistribution(0, 9), (False, 3)),
        (3, IntDistribution(0, 8, step=2), (False, 3)),
        (0.5, FloatDistribution(0.0, 1.0, step=0.25), (True, 0.5)),
        (0.4, FloatDistribution(0.0, 1.0, step=0.25), (False, 0.5)),
        ("b", CategoricalDistribution(["a"]), (False, "b")),
        (None, FloatDistribution(0.0, 1.0), (False, None)),
        (True, IntDistribution(0, 9), (False, True)),
    ],
)
def test_a_value_fits_a_distribution_or_not(value: Any, distribution: BaseDistribution, wanted: Any) -> None:
    assert fitted(value, distribution) == wanted


def test_a_pinned_parameter_keeps_the_coordinates_of_others_and_is_searched_at_one_value() -> None:
    space = {"x": FloatDistribution(0.0, 1.0), "kind": CategoricalDistribution(["a", "b"])}
    free, pinned = box_of(space, {}), box_of(space, {"x": 0.25, "kind": "b"})
    action = {"x": 0.75, "kind": "a"}
    assert pinned.encode("action", action).same_as(free.encode("action", action))
    assert {tuple(row) for row in pinned.sample(9, 0).tolist()} == {(0.25, 0.0, 1.0)}
    opt = drbo.Optimizer(
        box_of(space, {"x": 0.25}), np.arange(3.0), setting=drbo.Simulator([1, 1, 1], 0.1, pick="uncertain")
    )
    opt.tell(action, 9.0, context=1.0)  # the best one known has another value of x
    opt.tell({"x": 0.1, "kind": "b"}, 0.0, context=1.0)
    for _ in range(3):
        s = opt.ask()
        assert s.action["x"] == 0.25
        opt.tell(s, 1.0)


def test_spaces_are_told_apart() -> None:
    one, other = {"x": FloatDistribution(0.0, 1.0)}, {"x": FloatDistribution(0.0, 2.0)}
    assert digest(one) == digest({"x": FloatDistribution(0.0, 1.0)}) != digest(other)
