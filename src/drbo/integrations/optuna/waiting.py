"""Waiting for the suggestions of earlier running trials.

Two workers that read the same trials would make the same suggestion. So a trial waits until all earlier running trials
have stored theirs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from datetime import datetime

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from drbo.integrations.optuna.trials import SILENT, all_trials, heard_of, mark

_GIVEN_UP = 10.0
"""Multiple of the patience after which a silent trial is considered dead."""


def settled(
    study: optuna.Study, trial: FrozenTrial, space: Mapping[str, BaseDistribution], patience: float
) -> tuple[list[FrozenTrial], list[int]]:
    """Return the trials once all earlier running ones have stored suggestions, and the silent ones that may live.

    Trials are awaited one by one, the smallest number first. After `patience` seconds a trial is marked as silent, so
    no worker waits for it again.
    """
    awaited, end, pause = -1, 0.0, 0.01
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(study)
        trials = all_trials(study)
        unheard = [
            other
            for other in trials
            if other.number < trial.number and other.state == TrialState.RUNNING and not heard_of(other, space)
        ]
        silent = [other for other in unheard if SILENT not in other.system_attrs]
        if not silent:
            return trials, [other.number for other in unheard if _may_live(other, patience)]
        if silent[0].number != awaited:
            awaited, end, pause = silent[0].number, time.monotonic() + patience, 0.01
        if time.monotonic() >= end:
            mark(study, silent[0], SILENT, True)
            continue
        time.sleep(min(pause, max(end - time.monotonic(), 0.0)))
        pause = min(2.0 * pause, 0.5)


def _may_live(trial: FrozenTrial, patience: float) -> bool:
    """Return whether a silent trial may be alive: it started recently."""
    begun = trial.datetime_start
    return begun is not None and (datetime.now() - begun).total_seconds() < _GIVEN_UP * max(patience, 1.0)
