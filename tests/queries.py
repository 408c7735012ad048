"""Every query of an optimizer and of a question: it appends no fact and does not change the next ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drbo
from drbo import Optimizer

Query = Callable[[Optimizer], Any]

QUICK: dict[str, Query] = {
    "recommend": lambda opt: opt.recommend(),
    "recommend_iterate": lambda opt: opt.recommend_iterate(),
    "predict": lambda opt: opt.predict(opt.results[-1].action, opt.results[-1].context),
    "results": lambda opt: opt.results,
    "history": lambda opt: opt.history,
    "records": lambda opt: opt.records(),
    "pending": lambda opt: opt.pending,
    "posterior": lambda opt: opt.posterior,
    "to_frame": lambda opt: opt.to_frame(),
    "n_told": lambda opt: opt.n_told,
    "repr": repr,
    "html": lambda opt: opt._repr_html_(),
}
"""Queries that are asked after every step of many runs."""


def _first(opt: Optimizer) -> Any:
    return opt.results[0].action


def _middle(opt: Optimizer) -> float:
    return float(opt.predict(opt.results[-1].action, opt.results[-1].context).mean)


def _past(opt: Optimizer) -> list[Any]:
    return [result.context for result in opt.results]


QUERIES: dict[str, Query] = {
    **QUICK,
    "bound": lambda opt: opt.bound(_first(opt)),
    "recommend_for": lambda opt: opt.under().recommend_for(opt.bound(_first(opt)).value),
    "probability": lambda opt: opt.under().probability(_first(opt), above=_middle(opt)),
    "value_at_risk": lambda opt: opt.under().value_at_risk(_first(opt), level=0.2),
    "classify": lambda opt: opt.under().classify(drbo.Chance(0.5, above=_middle(opt)), [_first(opt)]),
    "compare": lambda opt: opt.under().compare(_first(opt), opt.results[-1].action),
    "narrowing": lambda opt: opt.under().narrowing(_first(opt)),
    "leave_one_out": lambda opt: opt.leave_one_out(),
    "regret_bound": lambda opt: opt.under().regret_bound(),
    "profile": lambda opt: opt.under().profile([0.0, 0.1]),
    "sensitivity": lambda opt: opt.under().sensitivity(),
    "explain_radius": lambda opt: opt.under().explain_radius(0.1),
    "backtest": lambda opt: opt.under().backtest([0.0, 0.1], 2, past=_past(opt)),
    "watch": lambda opt: opt.watch(_past(opt)[:2]),
    "under": lambda opt: opt.under(),
    "plot": lambda opt: opt.plot.progress(),
}
"""All queries."""
NO_QUERIES = {
    "commands": {"ask", "tell", "cancel", "retract", "amend", "append", "replay"},
    "files": {"save", "load", "resume", "from_frame", "report"},
    "configuration": {"configuration"},
}
