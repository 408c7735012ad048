"""The sampler's data in the storage of a study.

The configuration of the sampler is a text of any length. It is stored in parts. A head that names the parts is written
last, so a study with a head has all parts.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.search_space import intersection_search_space
from optuna.trial import FrozenTrial, TrialState

import drbo
from drbo import validation
from drbo.integrations.optuna.search_spaces import digest
from drbo.knowledge.storage import of_format_3

CONFIGURATION = "drbo:configuration"
"""The system attribute of a study that names its configuration."""
_PART = 30_000
"""Characters per part: some databases limit an attribute to 65,535 bytes."""


def check_study(study: Any) -> None:
    """Raise unless this is a study of Optuna."""
    validation.of_kind("study", study, optuna.Study, "a study of Optuna, such as optuna.load_study returns")


def all_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return all trials by number, including those that a pruner hides from samplers."""
    return sorted(study._storage.get_all_trials(study._study_id, deepcopy=False), key=lambda trial: trial.number)


def mark(study: optuna.Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Store an attribute of a trial; do nothing if the trial has finished."""
    with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
        study._storage.set_trial_system_attr(trial._trial_id, key, value)


def damage(study_name: str, attribute: str, why: str, copied: str = "new.add_trials(old.trials)") -> ValueError:
    """Return the error for a damaged attribute; `copied` is the code that copies the trials."""
    return ValueError(
        f"study {study_name!r}: attribute {attribute} is damaged: {why}. Nothing is read from it: restore the study "
        f"from a backup, or start a study with another name and RobustSampler(...) and copy the trials, {copied}"
    )


def digest_of(text: str) -> str:
    """Return the digest of a configuration's text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def store_configuration(study: optuna.Study, text: str, digest: str) -> None:
    """Store the text of a configuration, and its digest."""
    parts = [text[i : i + _PART] for i in range(0, len(text), _PART)]
    for i, part in enumerate(parts):
        study._storage.set_study_system_attr(study._study_id, f"{CONFIGURATION}:{digest}:{i}", part)
    head: dict[str, Any] = {"digest": digest, "parts": len(parts)}
    study._storage.set_study_system_attr(study._study_id, CONFIGURATION, head)


def stored_configuration(study: optuna.Study) -> tuple[str, str] | None:
    """Return the text and the digest of a study's configuration; None if it has none."""
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
    if '["certificate_beta", ' in text:  # of version 0.2
        text = json.dumps(of_format_3(json.loads(text)), allow_nan=False)
        digest = digest_of(text)
    return text, digest


SUGGESTION = "drbo:suggestion"
"""The system attribute of a trial with the suggestion and its record."""
FAILED = "drbo:failed"
"""The system attribute of a trial whose worker reported a failure."""
SILENT = "drbo:silent"
"""The system attribute of a running trial that other workers gave up waiting for."""
CONSTRAINTS = "constraints"
"""The system attribute of a trial with the values of `constraints_func`; one constraint is `constraints:name`."""
LARGEST_VALUE = 1e100
"""Largest value that counts as an outcome."""


def common_space(trials: Sequence[FrozenTrial], names: Sequence[str]) -> dict[str, BaseDistribution]:
    """Return the common parameters of all completed trials, without conditions and constants."""
    space = intersection_search_space(list(trials))
    return {name: d for name, d in space.items() if name not in names and not d.single()}


def varying(trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution], names: Sequence[str]) -> list[str]:
    """Return the parameters outside the common space whose values differ between completed trials."""
    done = [trial.params for trial in trials if trial.state == TrialState.COMPLETE]
    outside = {name for params in done for name in params} - set(space) - set(names)
    return sorted(name for name in outside if len({repr(params.get(name, "absent")) for params in done}) > 1)


def conditions(trial: FrozenTrial, names: Sequence[str]) -> tuple[dict[str, Any] | None, bool]:
    """Return the conditions of a trial, None if some are unknown, and whether nature drew them."""
    found = {**trial.user_attrs, **trial.params}
    if not all(name in found for name in names):
        return None, False
    return {name: found[name] for name in names}, not any(name in trial.params for name in names)


def heard_of(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    """Return whether the action of a running trial is known."""
    return SUGGESTION in trial.system_attrs or all(name in trial.params for name in space)


def suggestion_of(trial: FrozenTrial, study_name: str) -> dict[str, Any]:
    """Return the stored suggestion of a trial; empty if it has none."""
    if SUGGESTION not in trial.system_attrs:
        return {}
    stored = trial.system_attrs[SUGGESTION]
    wrong = _wrong(stored)
    if wrong:
        raise _damage(trial, study_name, wrong)
    return dict(stored)


def _wrong(stored: Any) -> str:
    """Return the fault in the form of a stored suggestion as text; empty if there is none."""
    if not isinstance(stored, Mapping):
        return f"it is a {type(stored).__name__}, and must be a mapping"
    for name in ("space", "action", "context"):
        if name not in stored:
            return f"it lacks {name!r}"
    for name in ("action", "context"):
        if not isinstance(stored[name], Mapping | None):
            return f"its {name!r} must be a mapping or null, got {stored[name]!r}"
    if stored["space"] is not None and "asked" not in stored:
        return "it lacks 'asked'"
    asked = stored.get("asked", {"proposals": [{}]})
    proposals = asked.get("proposals") if isinstance(asked, Mapping) else None
    if not isinstance(proposals, list) or len(proposals) != 1:
        return "its 'asked' must be a record of one proposal"
    return ""


def _damage(trial: FrozenTrial, study_name: str, why: str) -> ValueError:
    """Return the error for a damaged suggestion; the trial also counts without it."""
    copied = (
        f"trial {trial.number} without its system attributes: optuna.trial.create_trial(params=t.params, "
        "distributions=t.distributions, user_attrs=t.user_attrs, state=t.state, values=t.values)"
    )
    return damage(study_name, f"{SUGGESTION} of trial {trial.number}", why, copied)


@dataclass
class Replayed:
    """An optimizer that follows the trials of a study.

    Attributes
    ----------
    optimizer : the optimizer with the facts of the trials
    study_name : the name for errors
    space : the search space of the actions
    contexts, names : the contexts, and the names of the conditions
    guess : maps the number of a trial to conditions, for failures in unknown ones
    """

    optimizer: drbo.Optimizer
    study_name: str
    space: Mapping[str, BaseDistribution]
    contexts: drbo.Samples | drbo.Box
    names: Sequence[str]
    guess: Any
    unusable: dict[int, str] = field(default_factory=dict)
    _entries: list[tuple[Any, ...]] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def follow(self, trials: Sequence[FrozenTrial]) -> None:
        """Update the facts: rewrite them from the first changed trial on.

        Results are ordered by trial number, also late ones. So two processes that read the same trials have the same
        posterior, bit for bit.
        """
        entries = [self._entry(trial) for trial in trials]
        pairs = zip(entries, self._entries, strict=False)
        same = next((i for i, (new, old) in enumerate(pairs) if new != old), min(len(entries), len(self._entries)))
        keep = self._ends[same - 1] if same else 0
        records, ends = [], self._ends[:same]
        space = digest(self.space)
        for trial in trials[same:]:
            records += self._records(trial, space)
            ends.append(keep + len(records))
        if records or keep < len(self.optimizer.history):
            try:
                self.optimizer.replay(records, keep=keep)
            except ValueError:
                self._name_damage(trials[same:])
                raise
        self._entries, self._ends = entries, ends

    def _name_damage(self, trials: Sequence[FrozenTrial]) -> None:
        """Raise an error that names the first trial whose suggestion is not a valid record."""
        alone = copy.deepcopy(self.optimizer)
        for trial in trials:
            stored = suggestion_of(trial, self.study_name)
            try:
                alone.replay([stored["asked"]] if "asked" in stored else [])
            except ValueError as error:
                raise _damage(trial, self.study_name, str(error)) from None

    def _entry(self, trial: FrozenTrial) -> tuple[Any, ...]:
        """Return a key that changes whenever a trial changes."""
        known = trial.state.is_finished() or heard_of(trial, self.space)
        return trial.number, trial.state, trial.datetime_start, trial.datetime_complete, known

    def _records(self, trial: FrozenTrial, space: str) -> list[dict[str, Any]]:
        suggestion = suggestion_of(trial, self.study_name)
        asked = [suggestion["asked"]] if suggestion.get("space") == space else []
        if trial.state == TrialState.WAITING:
            return []
        if trial.state in (TrialState.RUNNING, TrialState.PRUNED):
            return asked or self._pending(trial)
        failed = not _is_outcome(trial)
        if failed and trial.state == TrialState.FAIL and FAILED not in trial.system_attrs:
            return [*asked, {"kind": "cancelled", "time": None, "number": trial.number}] if asked else []
        told = self._told(trial, suggestion if asked else {}, failed)
        return [*asked, told] if told else asked

    def _told(self, trial: FrozenTrial, suggestion: Mapping[str, Any], failed: bool) -> dict[str, Any] | None:
        """Return the record of a result; None if it lacks an action or conditions."""
        context, drawn = conditions(trial, self.names)
        action = self._action(trial)
        if failed:
            action = action or suggestion.get("action")
            context = context or suggestion.get("context") or self.guess(trial.number)
        if action is None or context is None:
            return None
        try:
            self.optimizer.configuration.actions.encode("action", action)
            self.contexts.encode("context", context)
        except (TypeError, ValueError) as error:
            self.unusable[trial.number] = str(error)
            return None
        return {
            "kind": "told",
            "time": trial.datetime_complete.timestamp() if trial.datetime_complete else None,
            "number": trial.number,
            "action": {"value": action},
            "contexts": [{"value": context}],
            "outcomes": {} if failed else {"": {"values": [trial.value]}, **self._limited(trial)},
            "drawn": drawn,
        }

    def _limited(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the values of limited outcomes: of user attributes, or of Optuna's constraints."""
        own, found = self.optimizer.configuration, {}
        by_position = trial.system_attrs.get(CONSTRAINTS) or ()
        for i, name in enumerate(own.measured):
            limit, value = own.limits[name], trial.user_attrs.get(name)
            if value is None:
                beyond = trial.system_attrs.get(
                    f"{CONSTRAINTS}:{name}", by_position[i] if i < len(by_position) else None
                )
                value = beyond if beyond is None else limit.threshold - limit.sign * beyond
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_VALUE:
                found[name] = {"values": [float(value)]}
        return found

    def _pending(self, trial: FrozenTrial) -> list[dict[str, Any]]:
        """Return the record of a running trial of another sampler: it is pending, but never the incumbent."""
        action, (context, _) = self._action(trial), conditions(trial, self.names)
        if action is None:
            return []
        last = -math.inf if self.optimizer.configuration.maximize else math.inf
        proposal = {
            "number": trial.number,
            "action": {"value": action},
            "context": None if context is None else {"value": context},
            "radius": drbo.knowledge.to_json(math.nan),
            "score": drbo.knowledge.to_json(math.nan),
            "bound": drbo.knowledge.to_json(last),
            "further": [],
        }
        return [{"kind": "asked", "time": None, "reference": None, "radius": None, "fits": {}, "proposals": [proposal]}]

    def _action(self, trial: FrozenTrial) -> dict[str, Any] | None:
        if not all(name in trial.params for name in self.space):
            return None
        return {name: trial.params[name] for name in self.space}


def _is_outcome(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.COMPLETE and abs(trial.values[0]) <= LARGEST_VALUE


def under_way(trials: Sequence[FrozenTrial], number: int) -> list[int]:
    """Return the trials of smaller numbers without results."""
    return [trial.number for trial in trials if trial.number < number and not trial.state.is_finished()]


_LONGEST_PAUSE = 0.5
"""Longest time in seconds between two looks at a study, per suggestion that is waited for."""
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
    begun, most = time.monotonic(), 0
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
        # Suggestions come one after the other: who has many before it looks less often, and spares the database.
        now, most = time.monotonic(), max(most, len(silent))
        each = (now - begun) / (most - len(silent)) if most > len(silent) else 0.0  # seconds of a suggestion
        longest = 0.5 * _LONGEST_PAUSE * (len(silent) - 1)
        time.sleep(min(max(pause, longest * min(each, 1.0)), max(end - now, 0.0)))
        pause = min(2.0 * pause, _LONGEST_PAUSE * len(silent))


def _may_live(trial: FrozenTrial, patience: float) -> bool:
    """Return whether a silent trial may be alive: it started recently."""
    begun = trial.datetime_start
    return begun is not None and (datetime.now() - begun).total_seconds() < _GIVEN_UP * max(patience, 1.0)
