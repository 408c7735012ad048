"""Constraints as a user gives them, and what is refused."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from drbo import AtMostActive, Box, Categorical, Integer, LinearConstraint, Log, Ordinal, Samples, Total
from drbo.knowledge.encoding import decode, encode
from drbo.spaces import Point


def half(action: dict[str, Any]) -> bool:
    """Return whether an action is in the lower half."""
    return bool(action["a"] <= 0.5)


def broken(action: dict[str, Any]) -> bool:
    return bool(action["q"])


REFUSED: list[tuple[Any, str]] = [
    ([Total("a", "b", equals=5.0)], r"no action: Total\('a', 'b', equals=5\) cannot hold.* from 0 to 2"),
    ([Total("a", "n", equals=0.5), LinearConstraint({"n": 1}, at_least=1)], "cannot hold together"),
    ([LinearConstraint({"n": 2}, equals=3)], r"cannot hold for whole numbers"),
    ([Total("a", "b", equals=1.5), AtMostActive("a", "b", count=1)], "cannot hold and the numbers that must be zero"),
    ([Total("a", "missing", equals=1.0)], r"constraints\[0\] names 'missing', which is not a parameter"),
    ([Total("a", "k", equals=1.0)], r"names 'k', which is Categorical\('x', 'y'\): only numbers"),
    ([Total("a", "o", equals=1.0)], r"names 'o', which is Ordinal\('S', 'M'\): only numbers"),
    ([Total("a", "l", equals=1.0)], "must not name l on a logarithmic scale"),
    ([AtMostActive("a", "l", count=1)], "numbers that can be zero, and 'l' is Log"),
    ([AtMostActive("a", "p", count=1)], "numbers that can be zero, and 'p' is Real"),
    ([broken], r"constraints\[0\], the function broken, raised KeyError: 'q' for \{'a': "),
    ([lambda _: 1], r"constraints\[0\], the function .* must return True or False, got 1"),
    ([lambda _: False], r"too few actions: 0 of 20,480 actions tried satisfy the function"),
    ([3], r"constraints\[0\] must be a Total, .* got 3"),
    ((0.0, 1.0), r"constraints\[0\] must be a Total, .*Box\(\{'constraints': \.\.\.\}\)"),
    ("total", "constraints must be a list"),
    ([Total], r"constraints\[0\] must be a Total"),
]


@pytest.mark.parametrize(("constraints", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused(constraints: Any, message: str) -> None:
    parameters: Any = {
        "a": (0.0, 1.0), "b": (0.0, 1.0), "p": (1.0, 2.0), "n": Integer(0, 3), "l": Log(0.1, 1.0),
        "k": Categorical("x", "y"), "o": Ordinal("S", "M"),
    }  # fmt: skip
    with pytest.raises((TypeError, ValueError), match=message) as error:
        Box(parameters, constraints=constraints)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearConstraint({"a": 1}), "needs at_least, at_most or equals"),
        (lambda: Total("a"), "needs at_least, at_most or equals"),
        (lambda: Total(equals=1.0), "needs the names"),
        (lambda: Total("a", "a", equals=1.0), "name each parameter once"),
        (lambda: LinearConstraint({}, equals=1.0), "coefficients must map names"),
        (lambda: LinearConstraint({"a": 0.0}, equals=1.0), "must not all be zero"),
        (lambda: LinearConstraint({"a": float("inf")}, equals=1.0), r"coefficients\['a'\] must be finite"),
        (lambda: LinearConstraint({"a": 1}, equals=1.0, at_most=2.0), "equals must not be given together"),
        (lambda: LinearConstraint({"a": 1}, at_least=1.0, at_most=0.0), "at_least must not exceed at_most"),
        (lambda: LinearConstraint({1: 1}, at_least=1.0), "named by text"),  # type: ignore[dict-item]
        (lambda: AtMostActive("a", "b", count=3), "count must be"),
        (lambda: AtMostActive(count=0), "needs the names"),
    ],
)
def test_a_constraint_that_says_nothing_is_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_contexts_have_no_constraints() -> None:
    box = Box(t=(0.0, 1.0), u=(0.0, 1.0), constraints=[Total("t", "u", at_most=1.0)])
    with pytest.raises(TypeError, match="contexts must not have constraints"):
        Samples([], within=box)


def test_constraints_are_saved() -> None:
    constraints = [Total("a", "b", equals=1.0), LinearConstraint({"a": 1, "n": -2}, at_most=0.5), half]
    constraints.append(AtMostActive("a", "b", "n", count=2))
    box = Box(a=(0.0, 1.0), b=(0.0, 1.0), n=Integer(0, 3), constraints=constraints)
    again = decode(encode(box), [half])
    assert again.constraints == box.constraints
    assert repr(again) == repr(box)
    for other in (again, copy.deepcopy(box), pickle.loads(pickle.dumps(box))):
        np.testing.assert_array_equal(other.sample(64, 3), box.sample(64, 3))
    with pytest.raises(TypeError, match=r"needs the function .*half: pass it"):
        decode(encode(box))
    with pytest.raises(TypeError, match="cannot write a lambda"):
        encode(Box(a=(0.0, 1.0), constraints=[lambda _: True]))
    assert "constraints" not in encode(Box(a=(0.0, 1.0)))["arguments"]  # files without constraints stay as they were


def test_a_narrowed_box_keeps_its_constraints() -> None:
    box = Box(a=(0.0, 1.0), n=Integer(0, 3), k=Categorical("x", "y"),
              constraints=[LinearConstraint({"a": 1, "n": 0.25}, equals=1.0)])  # fmt: skip
    narrow = box.narrowed({"n": 2, "k": "y"})
    assert {tuple(narrow.decode(Point(row)).items()) for row in narrow.sample(16, 0)} == {
        (("a", 0.5), ("n", 2), ("k", "y"))
    }
    with pytest.raises(ValueError, match="no action"):
        Box(a=(0.0, 0.1), n=Integer(0, 3), constraints=[Total("a", "n", equals=2.5)]).narrowed({"n": 2})


def test_the_order_of_numbers_in_a_message() -> None:
    box = Box(a=(0.0, 1.0), b=(0.0, 1.0), constraints=[Total("a", "b", at_most=1.0)])
    with pytest.raises(ValueError, match=r"baseline must satisfy .* breaks Total\(.*\): the sum is 1\.7"):
        box.check_permitted("baseline", box.encode("baseline", {"a": 0.8, "b": 0.9}))
