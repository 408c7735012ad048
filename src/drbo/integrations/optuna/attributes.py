"""What is read from the storage of a study and written there, beside what Optuna itself does.

The configuration of the sampler is a text of any length. It is stored in parts, and a head names them, which is written
last: a study whose head is there has all parts.
"""

from __future__ import annotations

import contextlib
import hashlib
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


def damage(study_name: str, attribute: str, why: str, copied: str = "new.add_trials(old.trials)") -> ValueError:
    """Return the error for an attribute that does not hold what was stored; `copied` is how to copy the trials."""
    return ValueError(
        f"study {study_name!r}: attribute {attribute} is damaged: {why}. Nothing is read from it: restore the study "
        f"from a backup, or begin a study of another name with RobustSampler(...) and copy the trials, {copied}"
    )


def digest_of(text: str) -> str:
    """Return what tells the text of a configuration from others."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def store_configuration(study: optuna.Study, text: str, digest: str) -> None:
    """Store the text of a configuration, and its digest."""
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
    head, name = attributes[CONFIGURATION], study.study_name
    if not isinstance(head, Mapping):
        raise damage(name, CONFIGURATION, f"it must be a mapping, got {type(head).__name__}")
    digest, count = head.get("digest"), head.get("parts")
    if not isinstance(digest, str):
        raise damage(name, CONFIGURATION, f"its 'digest' must be a text, got {digest!r}")
    if not isinstance(count, int) or count < 1:
        raise damage(name, CONFIGURATION, f"its 'parts' must be a whole number from 1 on, got {count!r}")
    keys = [f"{CONFIGURATION}:{digest}:{i}" for i in range(min(count, len(attributes)))]
    for key in keys:
        if not isinstance(attributes.get(key), str):
            raise damage(name, key, "it must be a text, and is missing or something else")
    text = "".join(attributes[key] for key in keys)
    if digest_of(text) != digest:
        raise damage(
            name, CONFIGURATION, f"the configuration was changed after the study began: its digest is {digest}"
        )
    return text, digest
