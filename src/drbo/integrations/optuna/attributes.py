"""What is read from the storage of a study and written there, beside what Optuna itself does.

The configuration of the sampler is a text of any length. It is stored in parts, and a head names them, which is written
last: a study whose head is there has all parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from drbo import validation

CONFIGURATION = "drbo:configuration"
"""The system attribute of a study that names its configuration."""
_PART = 30_000
"""A text is kept in parts of so many characters: some databases have room for 65,535 bytes per attribute."""


def check_study(study: Any) -> None:
    """Raise unless this is a study of Optuna."""
    validation.of_kind("study", study, optuna.Study, "a study of Optuna, such as optuna.load_study returns")


def all_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return all trials in the order of their numbers, also where a pruner shows samplers some of them only."""
    return sorted(study._storage.get_all_trials(study._study_id, deepcopy=False), key=lambda trial: trial.number)


def mark(study: optuna.Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Store an attribute of a trial; a trial that has finished meanwhile needs none."""
    with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
        study._storage.set_trial_system_attr(trial._trial_id, key, value)


def store_configuration(study: optuna.Study, text: str, digest: str) -> None:
    """Store the text of a configuration, and the digest that tells it from others."""
    parts = [text[i : i + _PART] for i in range(0, len(text), _PART)]
    for i, part in enumerate(parts):
        study._storage.set_study_system_attr(study._study_id, f"{CONFIGURATION}:{digest}:{i}", part)
    head: dict[str, Any] = {"digest": digest, "parts": len(parts)}
    study._storage.set_study_system_attr(study._study_id, CONFIGURATION, head)


def stored_configuration(study: optuna.Study) -> tuple[str, str] | None:
    """Return the text and the digest of the configuration that a study has; None if it has none."""
    attributes: Mapping[str, Any] = study._storage.get_study_system_attrs(study._study_id)
    if CONFIGURATION not in attributes:
        return None
    head = attributes[CONFIGURATION]
    text = "".join(attributes[f"{CONFIGURATION}:{head['digest']}:{i}"] for i in range(head["parts"]))
    return text, head["digest"]
