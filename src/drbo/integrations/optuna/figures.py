"""Plotly figures of a study, in the manner of `optuna.visualization`: each takes a study and returns a figure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.trial import TrialState

import drbo
from drbo import validation
from drbo._extras import require
from drbo.integrations.optuna.studies import sampler_of
from drbo.integrations.optuna.trials import SUGGESTION

if TYPE_CHECKING:
    import plotly.graph_objects as go

_SHOWN = 30
"""How many conditions a figure of a worst case shows."""


def plot_guarantees(study: optuna.Study) -> go.Figure:
    """Return a figure of what each trial gave, and of what was guaranteed for its action when it was suggested.

    A value holds for the conditions of its own trial. The guarantee is for all distributions of the trial's set. The
    line is the guarantee of today's recommendation.
    """
    plotly = require("plotly.graph_objects", "optuna")
    sampler = sampler_of(study)
    trials = study.get_trials(deepcopy=False)
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    asked = [trial for trial in trials if "asked" in trial.system_attrs.get(SUGGESTION, {})]
    guarantees = [
        drbo.from_json(trial.system_attrs[SUGGESTION]["asked"]["proposals"][0]["guarantee"]) for trial in asked
    ]
    today = sampler.recommend(study)
    numbers, values = [trial.number for trial in done], [trial.value for trial in done]
    figure = plotly.Figure(layout=_layout("Values and guarantees", "Trial", "Objective value"))
    figure.add_trace(plotly.Scatter(x=numbers, y=values, mode="markers", name="value in the trial's conditions"))
    figure.add_trace(
        plotly.Scatter(
            x=[trial.number for trial in asked],
            y=guarantees,
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 9},
            name="guarantee of its action at that time",
        )
    )
    figure.add_hline(y=today.value, annotation_text=f"{_word(today)}: {today.value:.4g}")
    return figure


def plot_worst_case(study: optuna.Study) -> go.Figure:
    """Return a figure of the conditions in which the recommended parameters would do worst, beside the reference."""
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
    """Return a figure of what each radius costs: the guarantee of the best action for it, and of today's action.

    For a study in the simulator setting.
    """
    plotly = require("plotly.graph_objects", "optuna")
    x = validation.radii(radii).tolist()
    opt = sampler_of(study).optimizer(study)
    today = sampler_of(study).recommend(study)
    best = [opt.recommend(radius=radius).value for radius in x]
    kept = [opt.certify(today.action, radius=radius).value for radius in x]
    figure = plotly.Figure(layout=_layout("Guarantee by radius", "Radius", "Guarantee"))
    figure.add_trace(plotly.Scatter(x=x, y=best, mode="lines+markers", name="best parameters for the radius"))
    figure.add_trace(plotly.Scatter(x=x, y=kept, mode="lines+markers", name="parameters recommended today"))
    return figure


def _layout(title: str, x: str, y: str) -> dict[str, Any]:
    return {"title": {"text": title}, "xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}


def _word(found: drbo.Recommendation) -> str:
    return "guaranteed today" if found.claim.proven else "estimated today"


def _row(context: Any) -> str:
    """Return conditions in words, such that Plotly, which knows some markup, shows them as they are."""
    said = (f"{k} = {v:.3g}" if isinstance(v, float) else f"{k} = {v}" for k, v in context.items())
    return html.escape(", ".join(said), quote=False)
