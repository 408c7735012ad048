"""What changed between two runs, or between two states of one run: the decision, its bound, and the reason."""

from __future__ import annotations

import math
from typing import Any

from drbo import Optimizer
from drbo.report.contents import PageContents
from drbo.report.phrases import rounded
from drbo.spaces.space import row, text, words

_SHOWN = 200
"""Longest text of an argument that is shown."""


def changes(now: PageContents, before: PageContents) -> dict[str, Any]:
    """Return paragraphs on each change with its reason, and a table of both runs: name, before, now."""
    said = [_history(now.opt, before.opt), *_arguments(now.opt, before.opt)]
    said += _decision(now, before)
    rows = [("evaluations", *(str(len(one.course.outcomes)) for one in (before, now)))]
    actions = [{} if one.recommended is None else row(one.recommended.action, "action") for one in (before, now)]
    for name in dict.fromkeys([*actions[0], *actions[1]]):
        rows.append((name, *(text(one[name]) if name in one else "none" for one in actions)))
    pairs = {name: (before.deploy().get(key), now.deploy().get(key)) for name, key in _ROWS.items()}
    rows += [(name, *(text(value) if value else "none" for value in pair)) for name, pair in pairs.items()]
    lights = [one.deploy().get("verdict") for one in (before, now)]
    rows.append(("verdict", *("none" if one is None else f"{one.light.name.capitalize()}. {one}" for one in lights)))
    return {"paragraphs": said, "rows": rows}


_ROWS = {"on a usual day": "usual", "under a shift": "shifted", "the shift": "shifted_if", "the bound is": "word"}
"""Names in the table, and of the answers."""


def _history(now: Optimizer, before: Optimizer) -> str:
    """Return how the two histories are related."""
    mine, theirs = now.records(), before.records()
    if mine == theirs:
        return f"Both files have the same {_more(now.n_told)}."
    if mine[: len(theirs)] == theirs:
        return f"The other file is an earlier state of this run: {_more(now.n_told - before.n_told)} came since then."
    if theirs[: len(mine)] == mine:
        return f"The other file is a later state of this run: it has {_more(before.n_told - now.n_told)} more."
    return f"These are two separate runs: this one has {_more(now.n_told)}, the other has {_more(before.n_told)}."


def _more(count: int) -> str:
    return f"{count} evaluation{'' if count == 1 else 's'}"


def _arguments(now: Optimizer, before: Optimizer) -> list[str]:
    """Return the arguments that differ."""
    mine, theirs = PageContents.arguments(now), PageContents.arguments(before)
    different = [name for name in {**theirs, **mine} if mine.get(name) != theirs.get(name)]
    return [
        f"The argument {name} is {_short(mine.get(name, 'none'))} here and {_short(theirs.get(name, 'none'))} there."
        for name in different
    ]


def _short(value: str) -> str:
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]} ..."


def _decision(now: PageContents, before: PageContents) -> list[str]:
    """Return whether the decision changed, and why: both actions, each by both models."""
    new, old = now.recommended, before.recommended
    if new is None or old is None:
        return ["Only one of the two has a recommendation."] if new is not old else []
    if now.words != before.words:
        return ["The two runs have different outcomes, so their bounds cannot be compared."]
    if words(row(new.action, "action")) == words(row(old.action, "action")):
        amounts = now.words.amount(new.value), now.words.amount(old.value)
        return [
            f"The recommended action is the same. Its bound is {amounts[0]} in this run and {amounts[1]} in the other.",
            *_largest_change(now, before),
        ]
    said = ["The recommended action is different. Actions are ranked by the bound of the model alone."]
    try:
        old_now, new_then = now.opt.bound(old.action), before.opt.bound(new.action)
    except (TypeError, ValueError):
        return ["The recommended action is different.", "The two runs choose among different actions."]
    amount = now.words.amount
    by_now, by_then, mine, theirs = (one.trust.guess for one in (old_now, new_then, new, old))
    said.append(
        f"With the results of this run, this bound is {amount(by_now)} for the other run's action and {amount(mine)} "
        f"for this run's action. With the results of the other run, it is {amount(theirs)} for the other run's action "
        f"and {amount(by_then)} for this run's action."
    )
    if (old_now.value > new.value) == now.words.maximize and f"{old_now.value:.3g}" != f"{new.value:.3g}":
        said.append(
            f"The stated bounds also allow for untried conditions. With the results of this run they are "
            f"{amount(old_now.value)} for the other run's action and {amount(new.value)} for this run's action: try "
            "this run's action in more conditions, or keep the other one."
        )
    learned = abs(by_now - theirs) > abs(mine - by_now)
    reason = "what this run has learned about the other run's action" if learned else "the better action of this run"
    return [*said, f"Most of the change comes from {reason}."]


def _largest_change(now: PageContents, before: PageContents) -> list[str]:
    """Return the part of the bound of the same action that differs most; nothing if no part is finite or differs."""
    assert now.recommended is not None  # the caller looked
    assert before.recommended is not None
    new, old = now.recommended.explain(), before.recommended.explain()
    parts = {
        f"the expected {now.words.name} on a usual day": (new.expected, old.expected),
        "the cost of a shift of the conditions": (new.shift, old.shift),
        "the cost of the model's own uncertainty": (new.ignorance, old.ignorance),
        "the cost of untried conditions": (new.untried, old.untried),
    }
    changes = {name: abs(a - b) for name, (a, b) in parts.items() if math.isfinite(a - b)}
    name = max(changes, key=lambda one: changes[one], default=None)
    if name is None or changes[name] == 0.0:
        return []
    here, there = (now.words.amount(rounded(value, new.value)) for value in parts[name])
    return [f"The largest difference is {name}: {here} in this run and {there} in the other."]
