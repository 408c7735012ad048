"""Every sentence of `explain_radius` is built and measured: the shift that it names is inside the set."""

import math
import re
from typing import Any

import numpy as np
import pytest

import drbo
from drbo.contexts.sampled_contexts import contexts_of

RNG = np.random.default_rng(0)
N = 24
COLUMNS: dict[str, tuple[Any, Any]] = {
    "number": (RNG.normal(10.0, 4.0, N), (-20.0, 60.0)),
    "log": (np.exp(RNG.normal(1.0, 0.5, N)), drbo.Log(0.01, 500.0)),
    "whole": (RNG.integers(0, 9, N), drbo.Integer(-5, 30)),
    "sort": (RNG.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1]), drbo.Categorical("a", "b", "c")),
    "size": (RNG.choice(["S", "M", "L"], N), drbo.Ordinal("S", "M", "L")),
}
PAIRS = [("number",), ("log",), ("whole",), ("sort",), ("size",), ("number", "sort"), ("log", "size")]


def scales(names: Any) -> Any:
    return {name: {"number": 4.0, "log": 0.5, "whole": 3.0}.get(name, 1.0) for name in names}


def families(names: Any) -> dict[str, Any]:
    """Return the sets that know positions, and those with bounds on means where there is a number."""
    orders = (1.0, 2.0, math.inf)
    balls = {f"wasserstein {order}": drbo.Wasserstein(order=order, scale=scales(names)) for order in orders}
    made: dict[str, Any] = {**balls, "mmd": drbo.MMD()}
    first = names[0]
    if first in ("number", "log", "whole"):
        wide = {"number": 2.0, "log": 1.0, "whole": 1.5}[first]
        made["bounded"] = drbo.Intersection(balls["wasserstein 1.0"], drbo.Moments({first: wide}))
        made["scenario"] = drbo.AnyOf([samples(names, slice(0, 12))], within=drbo.Wasserstein(scale=scales(names)))
    if first == "sort":
        some = drbo.Shares({"sort": {"a": (0.2, 0.9), "b": (0.0, 0.6), "c": (0.0, 0.5)}}, free_inside=True)
        made["shares"] = drbo.Intersection(balls["wasserstein 1.0"], some)
    return made


def samples(names: Any, rows: Any = slice(None)) -> Any:
    box = drbo.Box({name: COLUMNS[name][1] for name in names})
    return drbo.Samples({name: list(COLUMNS[name][0][rows]) for name in names}, within=box, support=0)


def number_in(text: str) -> float:
    found = re.search(r"by ([0-9.e+-]+)(%?)", text)
    assert found is not None, text
    return float(found[1].rstrip(".")) / (100.0 if found[2] else 1.0)


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_every_shift_and_every_share_of_days_is_inside(names: Any) -> None:
    days = samples(names)
    checked = 0
    for name, ambiguity in families(names).items():
        family = ambiguity.with_columns(days.space.columns)
        contexts = contexts_of(days, family)
        reference, space = contexts.seen([]), contexts.space
        placed: Any = family.on(space.measured(reference.points), space.scales)
        here, p = space.measured(reference.points), reference.weights
        for radius in (0.05, 0.3, 0.8, 1.5):
            told = drbo.explain_radius(radius, days, ambiguity)
            if radius >= told.diameter:
                continue
            for shift in told.shifts:
                column = next(c for c in space.columns if c.name == shift.column)
                for way, sign in (("lower", -1.0), ("higher", 1.0)):
                    text = str(shift).split("; no shift")[0]
                    if f"{way} by" not in text and not (way == "higher" and "higher by as much" in text):
                        continue
                    part = text.split(f"{way} by", 1)[-1] if "as much" not in text else text.split("lower by", 1)[-1]
                    amount = number_in("by" + part)
                    if shift.logarithmic:
                        amount = abs(math.log1p(sign * amount))
                    there = here.copy()
                    there[:, column.first] += sign * amount
                    assert placed.moved(p, there) <= radius * (1.0 + 1e-6), (name, radius, str(shift))
                    checked += 1
            for one in told.relabelled:
                found = re.search(r"([0-9.e+-]+)% of the days", str(one))
                share = float(found[1]) / 100.0 if found else 0.0 if "none of the days" in str(one) else None
                column = next(c for c in space.columns if c.name == one.column)
                there = here.copy()
                levels: Any = column.levels
                there[:, column.first : column.first + column.width] = levels[column.labels.index(one.label)]  # type: ignore[union-attr]
                if share is None:  # not even every day
                    assert placed.moved(p, there) <= radius * (1.0 + 1e-6), (name, radius, str(one))
                else:
                    both: Any = family.on(np.concatenate([here, there]), space.scales)
                    moved = np.append((1.0 - share) * p, share * p)
                    distance = both.distance(moved, np.append(p, np.zeros(len(p))))
                    assert distance <= radius * (1.0 + 1e-6), (name, radius, str(one))
                checked += 1
    assert checked >= 8


@pytest.mark.parametrize("ambiguity", [drbo.TotalVariation(), drbo.KL(), drbo.ChiSquare(), drbo.CVaR()], ids=repr)
def test_likelier_and_replaced_days_are_inside(ambiguity: Any) -> None:
    """A worst share of days as likely as it is said is a distribution of the set, and a likelier one is not."""
    days = drbo.Samples(np.arange(200.0), support=0)
    p = np.full(200, 1.0 / 200)
    for radius in (0.05, 0.2, 0.5):
        told = drbo.explain_radius(radius, days, ambiguity)
        for one in told.likelier:
            bad = np.arange(200) < round(one.share * 200)
            q = np.where(bad, one.most / bad.sum(), (1.0 - one.most) / (~bad).sum())
            assert ambiguity.distance(q, p) <= radius + 1e-6
            if one.most < 0.999:
                more = min(one.most * 1.02, 1.0)
                q = np.where(bad, more / bad.sum(), (1.0 - more) / (~bad).sum())
                assert ambiguity.distance(q, p) > radius
        if told.replaced is not None:
            beyond = np.append((1.0 - told.replaced) * p, told.replaced)
            assert ambiguity.distance(beyond, np.append(p, 0.0)) <= radius + 1e-9
