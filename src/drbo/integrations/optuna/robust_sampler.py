"""The sampler.

All state is derived from the trials of the study (`trials.py`). The sampler adds these attributes:

    of the study     drbo:configuration     the arguments of the sampler, once
    of a trial       drbo:suggestion        the suggested action and conditions, and drbo's record of the round: its
                                            radius, its bound, and the hyper-parameters learned for it
                     drbo:bound             user attributes for dashboards: the worst-case bound of the action at that
                     drbo:radius            time, and the radius of its set
                     drbo:failed            the evaluation failed, as reported by its worker
                     drbo:silent            other workers gave up waiting for its suggestion

A suggestion is made when a trial starts (`before_trial`), so it is stored before the objective runs.
"""

from __future__ import annotations

import json
import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, PartialFixedSampler
from optuna.trial import FrozenTrial, TrialState

import drbo
from drbo import validation
from drbo._messages import listed, printable
from drbo.integrations.optuna.search_spaces import box_of, digest, fitted, value_at, well_spread
from drbo.integrations.optuna.trials import (
    CONFIGURATION,
    CONSTRAINTS,
    FAILED,
    SUGGESTION,
    Replayed,
    all_trials,
    check_study,
    common_space,
    conditions,
    damage,
    digest_of,
    mark,
    settled,
    store_configuration,
    stored_configuration,
    suggestion_of,
    under_way,
    varying,
)
from drbo.knowledge.encoding import handed_over
from drbo.models import Surrogate, check_surrogate
from drbo.spaces import Point
from drbo.spaces.constraints import checked

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class RobustSampler(BaseSampler):
    """An Optuna sampler for parameters that are robust to changing conditions.

    Conditions are variables that nobody controls, such as the weather. In the objective they are ordinary parameters
    with the names of `contexts`: the sampler picks one row of them per trial. If nature picks them, report them with
    `observe(trial, {...})`.

    Any number of processes may share a study. Each derives the same posterior from the trials; running trials count as
    pending. All processes need a sampler with the same arguments.

    Parameters
    ----------
    contexts : `drbo.Samples` of past conditions with named columns, or a `drbo.Box` of possible conditions
    setting : `drbo.Simulator(radius=...)`: the sampler picks the conditions; `drbo.DataDriven(...)`: nature does
    ambiguity, surrogate, beta, bound_beta, policy, seed : as for `drbo.Optimizer`
    limits : limits of further outcomes, as for `drbo.Optimizer`. The value of "peak" is the user attribute "peak" of a
        trial, `trial.set_user_attr("peak", 61.0)`. Otherwise it is the constraint of this name, `trial.set_constraint(
        "peak", peak - 68.0)`, or the one at the position of the limit: a constraint of Optuna is the distance beyond
        the threshold, and zero or less if the limit holds
    constraints_func : returns the constraints of a trial, in the order of `limits`, as for other samplers of Optuna
    constraints : constraints on the parameters, as for `drbo.Box`. A search space is known after the first completed
        trial; until then parameters are suggested one by one, and constraints may not hold. Enqueue a first trial if
        that matters
    patience : the longest time, in seconds, that a trial waits for the suggestion of an earlier running trial
    """

    def __init__(
        self,
        contexts: drbo.Samples | drbo.Box,
        *,
        setting: drbo.Setting,
        ambiguity: drbo.AmbiguitySet | None = None,
        surrogate: Surrogate | None = None,
        beta: float | drbo.TheoreticalBeta | None = None,
        bound_beta: float | drbo.TheoreticalBeta | None = None,
        policy: drbo.Policy | None = None,
        seed: int = 0,
        constraints: Sequence[Any] = (),
        patience: float = 30.0,
        limits: Mapping[str, drbo.AtMost | drbo.AtLeast] | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
    ) -> None:
        if not isinstance(contexts, drbo.Samples | drbo.Box) or not contexts.names:
            raise TypeError(
                "contexts must have names, by which the objective suggests them: drbo.Samples(frame), "
                f"drbo.Samples(array, names=[...]) or drbo.Box(...), got {contexts!r}"
            )
        if getattr(contexts, "keys", None) is not None:
            raise TypeError(
                "contexts must have no keys: a trial holds the values of its conditions, and not which row they came "
                "from. Give the key as a column of labels, or replay days with drbo.Optimizer"
            )
        if isinstance(setting, drbo.General):
            raise TypeError(
                "setting must be drbo.Simulator(...) or drbo.DataDriven(...): the general setting needs a reference "
                "per round, which a sampler does not get"
            )
        if surrogate is not None:
            check_surrogate(surrogate)
        self._arguments: dict[str, Any] = {
            "contexts": contexts,
            "setting": setting,
            "ambiguity": ambiguity,
            "surrogate": surrogate,
            "beta": beta,
            "bound_beta": bound_beta,
            "policy": policy,
            "seed": seed,
            **({} if limits is None else {"limits": limits}),
        }
        if constraints_func is not None and not (callable(constraints_func) and limits):
            raise TypeError(
                "constraints_func must be a function of a trial, and needs limits with its thresholds: "
                f'limits={{"peak": drbo.AtMost(68.0)}}, got {constraints_func!r}'
            )
        self._constraints_func = constraints_func
        self._constraints = checked(constraints)
        # Raises if an argument is wrong; arguments that depend on the actions' dimension are checked with the space.
        drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), **{**self._arguments, "surrogate": None})
        self._samples = drbo.Samples([], within=contexts) if isinstance(contexts, drbo.Box) else contexts
        self._patience = validation.radius(patience, "patience")
        stored = {**self._arguments, "constraints": self._constraints} if self._constraints else self._arguments
        self._text = json.dumps(drbo.knowledge.to_json(stored), allow_nan=False)
        self._digest = digest_of(self._text)
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._followed: tuple[Any, Replayed] | None = None  # the study, space, direction and fixed values
        self._warned: set[tuple[str, int]] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "arguments": self._arguments,
            "patience": self._patience,
            "constraints_func": self._constraints_func,
            "constraints": self._constraints,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        function = state["constraints_func"]
        arguments = {**state["arguments"], "constraints": state["constraints"]}
        RobustSampler.__init__(self, **arguments, patience=state["patience"], constraints_func=function)

    @classmethod
    def from_study(cls, study: optuna.Study, *, classes: Sequence[Callable[..., Any]] = ()) -> Self:
        """Return the sampler of a study; `classes` are your own classes that it uses."""
        check_study(study)
        own = handed_over(classes)
        stored = stored_configuration(study)
        if stored is None:
            raise ValueError(f"study {study.study_name!r} has not been run with a RobustSampler")
        try:
            arguments = drbo.knowledge.from_json(json.loads(stored[0]), own)
        except ValueError as error:
            raise damage(study.study_name, CONFIGURATION, str(error)) from None
        if not isinstance(arguments, dict):
            raise damage(study.study_name, CONFIGURATION, "it must be the arguments of a RobustSampler by name")
        return cls(**arguments)

    @property
    def contexts(self) -> drbo.Samples | drbo.Box:
        """The conditions, in the user's form."""
        given: drbo.Samples | drbo.Box = self._arguments["contexts"]
        return given

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the conditions."""
        names: tuple[str, ...] = self._arguments["contexts"].names  # the constructor refuses contexts without names
        return names

    # --- read-only queries of a study ---------------------------------------------------------------------------------

    def optimizer(self, study: optuna.Study) -> drbo.Optimizer:
        """Return a `drbo.Optimizer` with the trials of a study as its history, for profiles, predictions and reports.

        Any study works if its trials have their conditions among their parameters or user attributes, with any sampler.
        The optimizer is independent: its asks and tells do not change the study.
        """
        check_study(study)
        trials = all_trials(study)
        space = self._known_space(trials)
        made = self._replayed(study, space, {})
        made.follow(trials)
        self._warn_of(study, made)
        return made.optimizer

    def recommend(self, study: optuna.Study) -> drbo.analysis.Recommendation:
        """Return the action of the search space to deploy, with its bound.

        If parameters outside the common search space differ between trials, the model lacks inputs of the outcomes. The
        recommendation then says that its bound does not count.
        """
        found = self.optimizer(study).recommend()
        trials = all_trials(study)
        others = varying(trials, self._known_space(trials), self.names)
        if not others:
            return found
        named = listed(others).replace("{", "{{").replace("}", "}}")
        text = f"NO BOUND, as {named} differ between trials and are not in the model: {found.claim.text}"
        claim = replace(found.claim, proven=False, source="parameters outside the model", text=text)
        return replace(found, claim=claim, delta=None)

    # --- Optuna's side ------------------------------------------------------------------------------------------------

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Choose the action and the conditions of the trial, and store them with it."""
        self._check(study)
        self._suggestion(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters and conditions that the completed trials have in common."""
        del trial
        return {
            name: distribution
            for name, distribution in optuna.search_space.intersection_search_space(all_trials(study)).items()
            if not distribution.single()
        }

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the action and the conditions of the trial that the search space includes."""
        self._check(study)
        if not search_space:
            return {}
        suggestion = self._suggestion(study, trial)
        values = {**(suggestion["action"] or {}), **(suggestion["context"] or {})}
        fitting = {name: fitted(values[name], d) for name, d in search_space.items() if name in values}
        return {name: value for name, (fits, value) in fitting.items() if fits}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a condition of the trial's row, or a value of a well-spread sequence for another parameter."""
        self._check(study)
        suggestion = self._suggestion(study, trial)
        if param_name in self.names:
            row = suggestion["context"] or self._row(trial.number)
            fits, value = fitted(row[param_name], param_distribution)
            if not fits:
                name = printable(param_name)
                raise ValueError(
                    f"{name} = {row[param_name]!r} of the conditions drawn for trial {trial.number} is not a value of "
                    f"{param_distribution}: suggest {name} from a range that holds all of `contexts`"
                )
            return value
        fits, value = fitted((suggestion["action"] or {}).get(param_name), param_distribution)
        if fits:
            return value
        position = len([name for name in trial.params if name not in self.names])
        return value_at(param_distribution, well_spread(self._arguments["seed"], position, trial.number))

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Mark a failure and store constraints; a trial whose worker was killed has no mark and does not count."""
        del values
        if self._constraints_func is not None and state == TrialState.COMPLETE:
            found = [validation.finite_float("constraints_func", one) for one in self._constraints_func(trial)]
            study._storage.set_trial_system_attr(trial._trial_id, CONSTRAINTS, found)
        if state == TrialState.FAIL:
            mark(study, trial, FAILED, True)
        if state == TrialState.COMPLETE and conditions(trial, self.names)[0] is None:
            warnings.warn(
                f"trial {trial.number} has no values of {listed(self.names)} and does not count: suggest them in "
                "the objective, or call observe(trial, {...})",
                UserWarning,
                stacklevel=2,
            )

    # --- one suggestion -----------------------------------------------------------------------------------------------

    def _suggestion(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        """Return the stored suggestion of the trial; without one, choose and store it."""
        stored = suggestion_of(study._storage.get_trial(trial._trial_id), study.study_name)
        if not stored:
            stored = self._choose(study, trial)
            mark(study, trial, SUGGESTION, stored)
            if "asked" in stored:  # dashboards show user attributes only
                (proposal,) = stored["asked"]["proposals"]
                for name in ("bound", "radius"):
                    study._storage.set_trial_user_attr(trial._trial_id, f"drbo:{name}", proposal[name])
        return stored

    def _choose(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        trials = all_trials(study)
        space, unheard = common_space(trials, self.names), list[int]()
        if space:
            trials, unheard = settled(study, trial, space, self._patience)
            space = common_space(trials, self.names)
        if not space:  # every trial number has its own point of a well-spread sequence
            return {"space": None, "action": None, "context": self._row(trial.number)}
        fixed = self._fixed(study, trial, space)
        pinned = {name: value for name, value in fixed.items() if name in space}
        with self._lock:
            followed = self._followed_by(study, space, pinned)
            followed.follow(trials)
            self._warn_of(study, followed)
            opt, before = followed.optimizer, len(followed.optimizer.history)
            # A silent worker that is alive would suggest the first ask here: skip one per silent worker.
            suggested = [opt.ask() for _ in range(1 + len(unheard))][-1]
            records = opt.records(before)
        asked = {**records[-1], "fits": records[0]["fits"]}
        context = suggested.context or (self._row(trial.number) if self._names_are_parameters(trials) else None)
        known = {name: fixed[name] for name in self.names if name in fixed}
        if context is not None and known:
            context = {**context, **known}
        (proposal,) = asked["proposals"]
        proposal["number"] = trial.number
        if known and context is not None:
            proposal["context"] = {"value": context}
        if any(other.number > trial.number and other.state.is_finished() for other in trials):
            # an enqueued trial: results after it belong to its set
            proposal["radius"] = drbo.knowledge.to_json(math.nan)
        awaited = under_way(trials, trial.number)
        if awaited:
            asked["awaited"] = awaited
        more = {"unheard": unheard} if unheard else {}
        action = dict(suggested.action)
        return {"space": digest(space), "action": action, "context": context, "asked": asked, **more}

    def _fixed(self, study: optuna.Study, trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
        """Return the values fixed for this trial by `enqueue_trial` or by a `PartialFixedSampler`."""
        fixed = dict(trial.system_attrs.get("fixed_params", {}))
        outer = study.sampler
        if isinstance(outer, PartialFixedSampler):
            mine = self.infer_relative_search_space(study, trial)
            left = outer.infer_relative_search_space(study, trial)
            for name in mine.keys() - left.keys():
                fixed.setdefault(name, outer.sample_independent(study, trial, name, mine[name]))
        return {name: value for name, value in fixed.items() if name not in space or fitted(value, space[name])[0]}

    def _names_are_parameters(self, trials: Sequence[FrozenTrial]) -> bool:
        """Return whether a trial has conditions as parameters."""
        return any(name in trial.params for trial in trials for name in self.names)

    def _row(self, number: int) -> dict[str, Any]:
        """Return the default conditions of a trial: one row, well spread over the trials."""
        samples, seed = self._samples, self._arguments["seed"]
        if not len(samples.points):
            return dict(samples.space.decode(Point(samples.space.sample(1, seed + number)[0])))
        reached = np.cumsum(samples.weights) >= (number * _GOLDEN + 0.5) % 1.0 * (1.0 - 1e-12)
        return dict(samples.space.decode(Point(samples.points[int(np.argmax(reached))])))

    # --- the optimizer of the trials ----------------------------------------------------------------------------------

    def _known_space(self, trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
        space = common_space(trials, self.names)
        if not space:
            raise RuntimeError(
                "the search space is not known: no trial has completed yet, or the completed ones have no parameter in "
                "common besides the conditions"
            )
        return space

    def _replayed(
        self, study: optuna.Study, space: Mapping[str, BaseDistribution], pinned: Mapping[str, Any]
    ) -> Replayed:
        maximize = study.direction == optuna.study.StudyDirection.MAXIMIZE
        opt = drbo.Optimizer(box_of(space, pinned, self._constraints), **self._arguments, maximize=maximize)
        return Replayed(opt, study.study_name, space, self.contexts, self.names, self._row)

    def _followed_by(
        self, study: optuna.Study, space: Mapping[str, BaseDistribution], pinned: Mapping[str, Any]
    ) -> Replayed:
        """Return the `Replayed` of the trials so far, or a new one if the space has changed."""
        key = study.study_name, digest(space), study.direction, repr(pinned)
        if self._followed is None or self._followed[0] != key:
            self._followed = key, self._replayed(study, space, pinned)
        return self._followed[1]

    def _warn_of(self, study: optuna.Study, replayed: Replayed) -> None:
        """Warn once of each completed trial that cannot be used."""
        for number, why in replayed.unusable.items():
            if (study.study_name, number) not in self._warned:
                self._warned.add((study.study_name, number))
                warnings.warn(f"trial {number} does not count: {why}", UserWarning, stacklevel=4)

    # --- the configuration --------------------------------------------------------------------------------------------

    def _check(self, study: optuna.Study) -> None:
        """Store the configuration with the study; raise if the study has another one."""
        if len(study.directions) > 1:
            raise ValueError("RobustSampler is for one objective, and this study has several")
        stored = stored_configuration(study)
        if stored is None:
            store_configuration(study, self._text, self._digest)
            return
        text, own = stored
        if own != self._digest:
            raise ValueError(self._difference(study, text))

    def _difference(self, study: optuna.Study, text: str) -> str:
        try:
            theirs, own = (dict(json.loads(one)["items"]) for one in (text, self._text))
        except (ValueError, TypeError, KeyError) as error:
            raise damage(study.study_name, CONFIGURATION, f"it is not a configuration ({error})") from None
        differing = [name for name in {**own, **theirs} if own.get(name) != theirs.get(name)]
        return (
            f"study {study.study_name!r} was started with another {' and '.join(differing)}: give RobustSampler the "
            "same arguments, use RobustSampler.from_study(study), or start a study with another name"
        )
