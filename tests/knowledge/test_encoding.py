"""Values <-> JSON: what goes in comes out, and nothing else is made of a file."""

import functools
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import drbo
from bits import bits
from drbo.knowledge.encoding import decode, encode

C = np.linspace(0.0, 1.0, 5)
BOX = drbo.Box(
    {"set point": (18.0, 24.0)}, gain=drbo.Log(1e-3, 1.0), stages=drbo.Integer(1, 4), mode=drbo.Categorical("a", "b")
)


@dataclass(frozen=True)
class Own:
    """A class of the user's."""

    value: float = 1.0


def through_json(value: Any, classes: tuple[type, ...] = ()) -> Any:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)), classes)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, "text", 0.1, math.inf, -math.inf, (1, (2.5, "x")), {"a": 1, "b": (2,)},
        np.arange(6.0).reshape(2, 3), np.arange(3), drbo.RBF((0.1, 0.2), 2.0), drbo.Matern(0.3, nu=1.5),
        drbo.LearnedGP(), drbo.General(),
        drbo.DataDriven(radius=drbo.radius.Bootstrap(0.1, 20)), drbo.Simulator([0.5, 0.5], 0.1, pick="informative"),
        drbo.Simulator(radius=drbo.radius.Calibrated(0.9), history=[0, 1, 1], pick="uncertain"), drbo.MMD(C),
        drbo.MMD(kernel=drbo.RBF(3.0)), drbo.MMD(), drbo.Wasserstein(C), drbo.Wasserstein(), drbo.Neighbourhood(C),
        drbo.CVaR(), drbo.KL(), drbo.Moments(outdoor=2.0, load=0.1), drbo.Moments([2.0, math.inf]),
        drbo.Shares(old=(0.2, 0.5)), drbo.Shares({"age": {"old": (0.2, 0.5), 3: 0.1}}, free_inside=True),
        drbo.AnyOf([[0.5, 0.5], {"young": 1.0}, drbo.Samples([[1.0, 2.0]])], within=drbo.MMD()), drbo.AnyOf([[1.0]]),
        drbo.Intersection(drbo.MMD(), drbo.Moments(2.0), drbo.Shares(old=0.3, free_inside=True)),
        drbo.Wasserstein(scale={"outdoor": 3.0, "load": 0.1}), drbo.Wasserstein(C, scale=[2.0]),
        drbo.Simulator([0.5, 0.5], pick="uncertain"), drbo.DataDriven(),
        drbo.Optimism(drbo.Informative()), drbo.Thompson(drbo.Pessimistic()), drbo.TheoreticalBeta(1.0, 0.1), BOX,
        drbo.Samples([[1.0, 2.0]], names=["a", "b"]),
        drbo.Samples([[20.0, 0.1, 2, "b"]], within=BOX, weights=[1.0]),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_goes_in_comes_out(value: Any) -> None:
    assert bits(through_json(value)) == bits(value)
    assert type(through_json(value)) is type(value)


def test_nan() -> None:
    assert math.isnan(through_json(math.nan))


def test_a_class_of_the_users_own_must_be_handed_over() -> None:
    assert through_json(Own(2.0), (Own,)) == Own(2.0)
    with pytest.raises(TypeError, match=r"needs the class .*Own: pass it"):
        through_json(Own(2.0))


@pytest.mark.parametrize(("written", "read"), [("__main__", "job"), ("job", "__main__")])
def test_a_program_and_the_module_of_the_same_file_read_what_the_other_wrote(written: str, read: str) -> None:
    """The module of a program is "__main__" while it runs; `drbo show` and a notebook import it by its name."""

    def named(module: str) -> type:
        return type("Own", (), {"__module__": module, "__qualname__": "Own", "arguments": lambda _: {}})

    value, other = named(written)(), named(read)
    assert isinstance(decode(encode(value), (other,)), other)
    for wrong in (named("another"), type("Other", (), {"__module__": read})):
        with pytest.raises(TypeError, match="needs the class"):
            decode(encode(named("job")()), (wrong,))
    both = other, type(value)
    assert type(decode(encode(value), both)) is type(value)


def test_the_name_alone_does_not_make_it_ours() -> None:
    """S8."""
    impostor = type("KL", (Own,), {})
    assert encode(impostor())["kind"] == "class"
    with pytest.raises(TypeError, match="needs the class"):
        through_json(impostor())


@pytest.mark.parametrize(
    "value",
    [[1, 2], {"kind": "Bomb", "arguments": {}}, {"kind": "os.system"}, {"no kind": 1}, {"kind": "array", "values": []}],
    ids=str,
)
def test_what_is_no_value(value: Any) -> None:
    with pytest.raises((ValueError, KeyError)):
        decode(value, ())


def test_what_cannot_be_written() -> None:
    for value in (lambda: 3, object(), drbo.TotalVariation, drbo.MMD, functools.partial(print, 1)):
        with pytest.raises(TypeError, match="save cannot write"):
            encode(value)
