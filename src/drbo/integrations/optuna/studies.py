"""Functions of a study with a `RobustSampler`: observed conditions, recommendations and figures."""

from __future__ import annotations

import copy
import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

import drbo
from drbo import validation
from drbo._messages import listed, require
from drbo.integrations.optuna.robust_sampler import RobustSampler
from drbo.integrations.optuna.trials import SUGGESTION, all_trials, check_study

if TYPE_CHECKING:
    import plotly.graph_objects as go


def observe(trial: optuna.Trial, conditions: Mapping[str, Any]) -> None:
    """Report the conditions that nature picked for a trial, by name; they become user attributes of the trial."""
    validation.of_kind("trial", trial, optuna.Trial, "a trial of Optuna that is under way")
    validation.of_kind("conditions", conditions, Mapping, "a mapping from names to values")
    sampler = sampler_of(trial.study)
    names = sampler.names
    if set(conditions) != set(names):
        raise ValueError(f"conditions must name {listed(names)}, got {listed(conditions) or 'none'}")
    suggested = [name for name in names if name in trial.params]
    if suggested:
        raise ValueError(f"{listed(suggested)} was suggested for trial {trial.number}, and cannot also be observed")
    sampler.contexts.encode("conditions", dict(conditions))
    for name in names:
        value = conditions[name]
        trial.set_user_attr(name, value.item() if isinstance(value, np.generic) else value)


def get_robust_params(study: optuna.Study) -> dict[str, Any]:
    """Return the parameters to deploy: those of `sampler.recommend(study)`. Conditions are not among them."""
    return dict(sampler_of(study).recommend(study).action)


def get_robust_trial(study: optuna.Study) -> FrozenTrial:
    """Return the completed trial whose action has the best bound; actions likely to fail come last."""
    sampler = sampler_of(study)
    opt = sampler.optimizer(study)
    sign = 1.0 if opt.configuration.maximize else -1.0
    done = {result.number: result.action for result in opt.results if not result.failed}
    if not done:
        raise ValueError("no trial has completed with known conditions")
    values: dict[str, tuple[bool, float]] = {}
    for action in done.values():
        if repr(action) not in values:
            found = opt.bound(action)
            works = found.success is None or found.success >= opt.configuration.least_success
            values[repr(action)] = works, sign * found.value
    best = max(done, key=lambda number: values[repr(done[number])])
    return copy.deepcopy(next(trial for trial in all_trials(study) if trial.number == best))


def sampler_of(study: optuna.Study) -> RobustSampler:
    """Return the sampler of a study, or a sampler of the stored configuration."""
    check_study(study)
    own = study.sampler
    return own if isinstance(own, RobustSampler) else RobustSampler.from_study(study)


_SHOWN = 30
"""Number of conditions in the figure of a worst case."""


def plot_bounds(study: optuna.Study) -> go.Figure:
    """Return a figure of each trial's value, and of its action's bound when it was suggested.

    A value holds for the conditions of its own trial. The bound is for all distributions of the trial's set. The line
    is the bound of the present recommendation.
    """
    plotly = require("plotly.graph_objects", "optuna")
    sampler = sampler_of(study)
    trials = study.get_trials(deepcopy=False)
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    asked = [trial for trial in trials if "asked" in trial.system_attrs.get(SUGGESTION, {})]
    proposals = [trial.system_attrs[SUGGESTION]["asked"]["proposals"][0] for trial in asked]
    bounds = [drbo.knowledge.from_json(p["bound"] if "bound" in p else p["guarantee"]) for p in proposals]
    today = sampler.recommend(study)
    numbers, values = [trial.number for trial in done], [trial.value for trial in done]
    figure = plotly.Figure(layout=_layout("Values and bounds", "Trial", "Objective value"))
    figure.add_trace(plotly.Scatter(x=numbers, y=values, mode="markers", name="value in the trial's conditions"))
    figure.add_trace(
        plotly.Scatter(
            x=[trial.number for trial in asked],
            y=bounds,
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 9},
            name="bound of its action at that time",
        )
    )
    figure.add_hline(y=today.value, annotation_text=f"today, {today.statement}")
    return figure


def plot_worst_case(study: optuna.Study) -> go.Figure:
    """Return a figure of the recommended parameters' worst conditions, beside the reference."""
    plotly = require("plotly.graph_objects", "optuna")
    found = sampler_of(study).recommend(study)
    order = np.argsort(-np.maximum(found.weights, found.reference), kind="stable")[:_SHOWN]
    order = order[np.maximum(found.weights, found.reference)[order] > 0.0]
    labels = [f"{i}: {_row(found.contexts[j])}" for i, j in enumerate(order.tolist())]
    figure = plotly.Figure(layout=_layout("Worst case of the recommended parameters", "Conditions", "Probability"))
    figure.add_trace(plotly.Bar(x=labels, y=found.reference[order], name="reference"))
    figure.add_trace(plotly.Bar(x=labels, y=found.weights[order], name="worst case"))
    return figure


def plot_radii(study: optuna.Study, radii: Sequence[float]) -> go.Figure:
    """Return a figure of the bound against the radius: of the best action per radius, and of the present one.

    The study must have the simulator setting.
    """
    plotly = require("plotly.graph_objects", "optuna")
    x = validation.radii(radii).tolist()
    opt = sampler_of(study).optimizer(study)
    today = sampler_of(study).recommend(study)
    best = [opt.recommend(radius=radius).value for radius in x]
    kept = [opt.bound(today.action, radius=radius).value for radius in x]
    figure = plotly.Figure(layout=_layout("Bound by radius", "Radius", "Bound"))
    figure.add_trace(plotly.Scatter(x=x, y=best, mode="lines+markers", name="best parameters for the radius"))
    figure.add_trace(plotly.Scatter(x=x, y=kept, mode="lines+markers", name="parameters recommended today"))
    return figure


def _layout(title: str, x: str, y: str) -> dict[str, Any]:
    return {"title": {"text": title}, "xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}


def _row(context: Any) -> str:
    """Return conditions as text, escaped for Plotly's markup."""
    said = (f"{k} = {v:.3g}" if isinstance(v, float) else f"{k} = {v}" for k, v in context.items())
    return html.escape(", ".join(said), quote=False)
