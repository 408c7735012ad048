"""The sampler for Optuna: what it suggests, what it keeps, and what it believes."""

import copy
import hashlib
import importlib
import json
import math
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

import drbo
from drbo.integrations.optuna import RobustSampler, get_robust_params, get_robust_trial, observe, plot_bounds
from drbo.integrations.optuna.studies import sampler_of
from drbo.integrations.optuna.trials import CONFIGURATION, FAILED, SILENT, SUGGESTION, all_trials, store_configuration
from drbo.models.regression import ExactPosterior
from integrations.weather import FIXED, HISTORY, ROWS, cost, derived, make, objective, recommended, study_of

SPACE: Any = {"setpoint": FloatDistribution(18.0, 24.0), "gain": FloatDistribution(1e-3, 1.0, log=True)}
CONDITIONS: Any = {"outdoor": FloatDistribution(-20.0, 35.0), "load": FloatDistribution(0.0, 1.0)}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'study.db'}"


# --- what it suggests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_whole_row_of_conditions_is_drawn_and_robust_parameters_are_found(direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0
    study = study_of(make(surrogate=drbo.LearnedGP(noise=0.01)), direction=direction)
    study.optimize(lambda t: sign * objective(t), n_trials=18)
    rows = {(round(t.params["outdoor"], 9), round(t.params["load"], 9)) for t in study.trials}
    first = {(t.params["outdoor"], t.params["load"]) for t in study.trials[:1]}
    assert all(any(np.allclose(row, known) for known in ROWS) for row in first)
    low, high = np.min(list(ROWS), axis=0), np.max(list(ROWS), axis=0)
    assert all(low[0] <= a <= high[0] and low[1] <= b <= high[1] for a, b in rows)
    found = get_robust_params(study)

    def mean(setpoint: float, gain: float) -> float:
        return float(np.mean([cost(setpoint, gain, *row) for row in ROWS]))

    best = min(mean(s, g) for s in np.linspace(18, 24, 61) for g in np.geomspace(1e-3, 1.0, 61))
    assert set(found) == {"setpoint", "gain"}
    assert mean(**found) < best + 0.1
    r = recommended(study)
    assert r.action == found
    assert sign * r.value >= mean(**found)


def test_the_first_trials_are_spread_over_the_space() -> None:
    study = study_of(make())
    asked = [study.ask({**SPACE, **CONDITIONS}) for _ in range(8)]  # nothing has completed: the space is not known
    quarters = {(t.params["setpoint"] > 21.0, math.log10(t.params["gain"]) > -1.5) for t in asked}
    assert len(quarters) == 4
    assert len({(t.params["outdoor"], t.params["load"]) for t in asked}) == 8


EVERY: Any = {
    "real": FloatDistribution(-1.0, 2.0),
    "log": FloatDistribution(1e-5, 1e2, log=True),
    "step": FloatDistribution(0.0, 1.0, step=0.25),
    "whole": IntDistribution(-3, 4),
    "even": IntDistribution(2, 10, step=4),
    "size": IntDistribution(1, 200, log=True),
    "kind": CategoricalDistribution(["a", None, 3, 2.5, True]),
}


def test_every_distribution_and_the_optimizer_speaks_its_values() -> None:
    study = study_of(make())
    for _ in range(6):
        t = study.ask({**EVERY, **CONDITIONS})
        for name, distribution in EVERY.items():
            assert distribution._contains(distribution.to_internal_repr(t.params[name]))
        study.tell(t, float(t.number))
    opt = derived(study)
    for result, done in zip(opt.results, study.trials, strict=True):
        for name, value in result.action.items():
            wanted = done.params[name]
            assert value == (pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float) else wanted), name
        assert type(result.action["size"]) is int
    assert EVERY["kind"]._contains(EVERY["kind"].to_internal_repr(get_robust_params(study)["kind"]))


def test_integers_on_a_logarithmic_scale_are_learned_on_that_scale() -> None:
    study = study_of(make())
    for size in (1, 10, 100):
        params = {"size": size, "outdoor": 1.0, "load": 0.5}
        space = {"size": IntDistribution(1, 100, log=True), **CONDITIONS}
        study.add_trial(create_trial(value=0.0, params=params, distributions=space))
    opt = derived(study)
    posterior = opt.posterior
    assert isinstance(posterior, ExactPosterior)
    x = posterior.observed_actions[:, 0]
    assert x.tolist() == pytest.approx([0.0, 0.5, 1.0])


def test_running_trials_count_as_pending_and_no_two_are_the_same() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=3)
    asked = [study.ask({**SPACE, **CONDITIONS}) for _ in range(5)]
    assert len({json.dumps(t.params) for t in asked}) == 5
    opt = derived(study)
    assert [s.number for s in opt.pending] == [3, 4, 5, 6, 7]
    for shown in study.trials[3:]:  # what a dashboard shows
        (proposal,) = shown.system_attrs[SUGGESTION]["asked"]["proposals"]
        assert shown.user_attrs == {"drbo:bound": proposal["bound"], "drbo:radius": pytest.approx(0.1)}
    for t, s in zip(asked, opt.pending, strict=True):
        assert {**s.action, **s.context} == pytest.approx(t.params)
    study.tell(asked[3], 1.0)
    assert [s.number for s in derived(study).pending] == [3, 4, 5, 7]


def test_a_batch_that_is_asked_first_and_suggests_backwards_does_not_wait() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=2)
    asked = [study.ask() for _ in range(3)]
    begun = time.monotonic()
    values = [objective(t) for t in reversed(asked)]
    assert time.monotonic() - begun < 15.0  # it would wait for 30 s
    assert len(set(values)) == 3


def test_it_is_deterministic() -> None:
    runs = []
    for _ in range(2):
        study = study_of(make())
        study.optimize(objective, n_trials=6)
        runs.append([t.params for t in study.trials])
    assert runs[0] == runs[1]


def test_another_sampler_can_take_over_and_back() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=3)
    sampler, study.sampler = study.sampler, optuna.samplers.RandomSampler(seed=0)
    study.optimize(objective, n_trials=2)
    running = study.ask({**SPACE, **CONDITIONS})
    study.sampler = sampler
    study.optimize(objective, n_trials=1)
    opt = derived(study)
    assert [r.number for r in opt.results] == [0, 1, 2, 3, 4, 6]
    assert [s.number for s in opt.pending] == [running.number]
    assert SILENT not in study.trials[5].system_attrs


# --- enqueued and fixed ---------------------------------------------------------------------------------------------


def test_enqueued_trials_whole_and_in_part() -> None:
    study = study_of(make())
    study.enqueue_trial({"setpoint": 19.0, "gain": 0.01, "outdoor": -5.0, "load": 0.25})
    study.optimize(objective, n_trials=3)
    assert study.trials[0].params == {"setpoint": 19.0, "gain": 0.01, "outdoor": -5.0, "load": 0.25}
    study.enqueue_trial({"setpoint": 22.5})
    study.enqueue_trial({"outdoor": 30.0})
    t, u = study.ask({**SPACE, **CONDITIONS}), study.ask({**SPACE, **CONDITIONS})
    assert (t.params["setpoint"], u.params["outdoor"]) == (22.5, 30.0)
    pending = derived(study).pending
    assert pending[0].action["setpoint"] == pytest.approx(22.5)
    assert pending[1].context["outdoor"] == pytest.approx(30.0)


def test_an_enqueued_trial_that_runs_late_has_its_place_by_its_number() -> None:
    study = study_of(make(setting=drbo.DataDriven(radius=0.2), patience=0.1))
    for _ in range(3):
        t = study.ask(SPACE)
        observe(t, {"outdoor": 3.0, "load": 0.5})
        study.tell(t, 1.0)
    study.enqueue_trial({"setpoint": 22.5})
    late = study._pop_waiting_trial_id()
    u = study.ask(SPACE)
    observe(u, {"outdoor": 4.0, "load": 0.1})
    study.tell(u, 1.0)
    assert late is not None
    t = optuna.Trial(study, late)
    t.suggest_float("setpoint", 18.0, 24.0)
    opt = derived(study)
    assert [s.number for s in opt.pending] == [3]
    assert math.isnan(opt.pending[0].radius)  # its set holds a later result: certificates are for the present one
    assert np.isfinite(opt.recommend_iterate().radius)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_partial_fixed_sampler_searches_the_rest() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=6)
    study.sampler = optuna.samplers.PartialFixedSampler({"setpoint": 23.0, "load": 0.9}, study.sampler)
    study.optimize(objective, n_trials=5)
    fixed = study.trials[6:]
    assert all((t.params["setpoint"], t.params["load"]) == (23.0, 0.9) for t in fixed)
    assert len({t.params["gain"] for t in fixed}) == 5
    for t in fixed:
        stored = t.system_attrs[SUGGESTION]
        assert {**stored["action"], **stored["context"]} == pytest.approx(t.params)


# --- failed, pruned, killed -----------------------------------------------------------------------------------------


def test_failed_trials_are_not_asked_again_and_never_recommended() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=4)

    def broken(t: optuna.Trial) -> float:
        objective(t)
        raise RuntimeError("the simulator crashed")

    study.optimize(broken, n_trials=2, catch=RuntimeError)
    t = study.ask({**SPACE, **CONDITIONS})
    study.tell(t, math.inf)
    study.optimize(objective, n_trials=1)
    opt = derived(study)
    assert [r.number for r in opt.results if r.failed] == [4, 5, 6]
    assert study.trials[4].system_attrs[FAILED]
    assert len({json.dumps(t.params) for t in study.trials}) == len(study.trials)


def test_a_failure_before_the_conditions_are_known() -> None:
    study = study_of(make(setting=drbo.DataDriven(radius=0.2)))
    for number in range(3):
        t = study.ask(SPACE)
        observe(t, {"outdoor": float(number), "load": 0.5})
        study.tell(t, 1.0)
    study.tell(study.ask(SPACE), state=TrialState.FAIL)
    assert [r.failed for r in derived(study).results] == [False] * 3 + [True]
    study.ask(SPACE)


def test_a_trial_that_failed_without_its_worker_stops_counting() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=3)
    t = study.ask({**SPACE, **CONDITIONS})
    study._storage.set_trial_state_values(t._trial_id, TrialState.FAIL)  # as another process does for a stale one
    opt = derived(study)
    assert (opt.n_told, opt.pending) == (3, ())
    assert study.ask({**SPACE, **CONDITIONS}).params == pytest.approx(t.params)  # it is worth asking again


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning", "ignore:Heartbeat of storage is supposed")
def test_a_stale_trial_stops_counting(tmp_path: Path) -> None:
    storage = optuna.storages.RDBStorage(sqlite(tmp_path), heartbeat_interval=1, grace_period=1)
    study = study_of(make(), storage=storage)
    study.optimize(objective, n_trials=2)
    t = study.ask({**SPACE, **CONDITIONS})
    storage.record_heartbeat(t._trial_id)
    time.sleep(2.1)
    u = study.ask({**SPACE, **CONDITIONS})
    assert study.trials[t.number].state == TrialState.FAIL
    assert [s.number for s in derived(study).pending] == [u.number]
    storage.engine.dispose()


def test_pruned_trials_stay_pending_and_may_be_recommended() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=3)

    def pruned(t: optuna.Trial) -> float:
        t.report(objective(t), 0)
        raise optuna.TrialPruned

    study.optimize(pruned, n_trials=2)
    study.optimize(objective, n_trials=1)
    opt = derived(study)
    assert ([r.number for r in opt.results], [s.number for s in opt.pending]) == ([0, 1, 2, 5], [3, 4])
    assert len({json.dumps(t.params) for t in study.trials}) == 6


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_pruner_that_shows_samplers_a_part_of_the_trials() -> None:
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9, reduction_factor=3)
    study = study_of(make(), pruner=pruner)
    study.optimize(objective, n_trials=6)
    assert len({json.dumps(t.params) for t in study.trials}) == 6


# --- waiting --------------------------------------------------------------------------------------------------------


def test_a_trial_waits_for_the_suggestions_of_those_before_it() -> None:
    study = study_of(make(patience=20.0))
    study.optimize(objective, n_trials=2)
    silent = study._storage.create_new_trial(study._study_id)  # a worker that has not stored its suggestion yet

    def later() -> None:
        time.sleep(0.3)
        optuna.Trial(study, silent)

    worker = threading.Thread(target=later)
    worker.start()
    t = study.ask({**SPACE, **CONDITIONS})
    worker.join()
    stored = study.trials[t.number].system_attrs[SUGGESTION]
    assert stored["asked"]["awaited"] == [2]
    assert "unheard" not in stored
    assert [s.number for s in derived(study).pending] == [2, 3]


def test_a_silent_trial_is_given_up_and_marked_and_nobody_waits_for_it_again() -> None:
    study = study_of(make(patience=0.2))
    study.optimize(objective, n_trials=2)
    study._storage.create_new_trial(study._study_id)
    t = study.ask({**SPACE, **CONDITIONS})
    assert study.trials[2].system_attrs[SILENT]
    other = study_of(make())
    other.add_trials(study.trials[:2])
    first = other.ask({**SPACE, **CONDITIONS})  # what the silent worker may be about to suggest
    assert t.params != pytest.approx(first.params)
    assert study.trials[t.number].system_attrs[SUGGESTION]["unheard"] == [2]
    sampler_of(study)._patience = 60.0
    u = study.ask({**SPACE, **CONDITIONS})
    assert study.trials[u.number].system_attrs[SUGGESTION]["unheard"] == [2]  # it may still suggest the first one
    assert u.params != pytest.approx(first.params)
    assert u.params != pytest.approx(t.params)


def test_a_trial_that_was_silent_for_long_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(make(patience=0.2))
    study.optimize(objective, n_trials=2)
    study._storage.create_new_trial(study._study_id)
    monkeypatch.setattr("drbo.integrations.optuna.trials._GIVEN_UP", 0.0)
    t = study.ask({**SPACE, **CONDITIONS})
    assert "unheard" not in study.trials[t.number].system_attrs[SUGGESTION]


def test_trials_that_wait_for_the_same_silent_one_still_wait_for_each_other(tmp_path: Path) -> None:
    study = study_of(make(patience=1.0), storage=sqlite(tmp_path))
    study.optimize(objective, n_trials=2)
    study._storage.create_new_trial(study._study_id)  # its worker was killed before it stored a suggestion
    study.optimize(objective, n_trials=4, n_jobs=4)
    assert len({json.dumps(t.params, sort_keys=True) for t in study.trials}) == 7


def test_threads(tmp_path: Path) -> None:
    study = study_of(make(), storage=sqlite(tmp_path))
    study.optimize(objective, n_trials=12, n_jobs=4)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 12
    assert len({json.dumps(t.params, sort_keys=True) for t in study.trials}) == 12
    assert all("unheard" not in t.system_attrs[SUGGESTION] for t in study.trials)


# --- one truth ------------------------------------------------------------------------------------------------------


def test_any_process_derives_the_same_belief(tmp_path: Path) -> None:
    """A worker that saw every trial as it came, and one that reads the study for the first time, go on alike."""
    study = study_of(make(surrogate=None), storage=sqlite(tmp_path), study_name="one")
    study.optimize(objective, n_trials=4)
    asked = [study.ask({**SPACE, **CONDITIONS}) for _ in range(3)]
    for t in (asked[2], asked[0]):  # results arrive in another order than that of the numbers
        study.tell(t, cost(**t.params))
        study.optimize(objective, n_trials=1)
    other = optuna.load_study(storage=sqlite(tmp_path), study_name="one", sampler=make(surrogate=None))
    mine, theirs = derived(study), derived(other)
    assert [r.number for r in mine.results] == [0, 1, 2, 3, 4, 6, 7, 8]
    followed = sampler_of(study)._followed
    assert followed is not None
    followed[1].follow(study._storage.get_all_trials(study._study_id))
    for opt in (mine, followed[1].optimizer):
        assert opt.records() == theirs.records()
        assert opt.recommend().value == theirs.recommend().value
    assert mine.ask().same_as(theirs.ask())
    assert any(record["kind"] == "asked" and record["fits"] for record in theirs.records())


def test_the_belief_is_that_of_an_optimizer_that_was_told_the_same() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=8)
    opt = drbo.Optimizer(
        drbo.Box(gain=drbo.Log(1e-3, 1.0), setpoint=(18.0, 24.0)), drbo.Samples(HISTORY, support=8),
        setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED, maximize=False,
    )  # fmt: skip
    for t in study.trials:
        action = {name: t.params[name] for name in SPACE}
        opt.tell(action, t.value, context={name: t.params[name] for name in CONDITIONS}, drawn=False)
    ours = derived(study)
    p, q = (o.predict({"setpoint": 20.0, "gain": 0.1}, {"outdoor": 0.0, "load": 0.3}) for o in (ours, opt))
    assert (p.mean, p.std) == pytest.approx((q.mean, q.std), rel=1e-9)


def test_queries_write_nothing(tmp_path: Path) -> None:
    study = study_of(optuna.samplers.RandomSampler(seed=0), storage=sqlite(tmp_path))
    study.optimize(objective, n_trials=4)
    before = copy.deepcopy((study.trials, study._storage.get_study_system_attrs(study._study_id)))
    sampler = make()
    opt = sampler.optimizer(study)
    opt.ask()
    sampler.recommend(study)
    assert (study.trials, study._storage.get_study_system_attrs(study._study_id)) == before


# --- the configuration ----------------------------------------------------------------------------------------------


def test_another_configuration_is_an_error_that_names_what_differs(tmp_path: Path) -> None:
    study = study_of(make(), storage=sqlite(tmp_path), study_name="one")
    study.optimize(objective, n_trials=1)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"setting": drbo.Simulator(radius=0.2, pick="uncertain")}, "started with another setting"),
        ({"seed": 3, "beta": 1.0}, "started with another beta and seed"),
    ]
    for more, words in cases:
        other = optuna.load_study(storage=sqlite(tmp_path), study_name="one", sampler=make(**more))
        with pytest.raises(ValueError, match=words):
            other.ask()
    optuna.load_study(storage=sqlite(tmp_path), study_name="one", sampler=make(patience=1.0)).ask()


def test_a_study_knows_its_sampler(tmp_path: Path) -> None:
    long = {"outdoor": np.linspace(-20.0, 35.0, 1200), "load": np.linspace(0.0, 1.0, 1200)}
    sampler = RobustSampler(
        drbo.Samples(long, atoms=30), setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED
    )
    study = study_of(sampler, storage=sqlite(tmp_path), study_name="one")
    study.optimize(objective, n_trials=2)
    attributes = study._storage.get_study_system_attrs(study._study_id)
    assert attributes[CONFIGURATION]["parts"] > 1
    assert max(len(json.dumps(value)) for value in attributes.values()) < 65_535
    plain = optuna.load_study(storage=sqlite(tmp_path), study_name="one")
    assert get_robust_params(plain) == get_robust_params(study)
    assert RobustSampler.from_study(plain)._text == sampler._text
    with pytest.raises(ValueError, match="has not been run with a RobustSampler"):
        get_robust_params(study_of(None, storage=sqlite(tmp_path), study_name="two"))


def test_a_study_of_0_2_with_a_pick_and_a_policy_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """REVIEW V8: version 0.2 took both, and the policy counted."""
    with monkeypatch.context() as patch:
        patch.setattr(drbo.Simulator, "check_policy", lambda *_: None)
        sampler = make(policy=drbo.Optimism(drbo.Informative()))
        study = study_of(sampler)
        study.optimize(objective, n_trials=2)
    with pytest.warns(UserWarning, match="Only one of them may be given"):
        again = RobustSampler.from_study(study)
    assert again._text == sampler._text
    with pytest.warns(UserWarning, match="Only one of them may be given"):
        assert again.optimizer(study).configuration.policy == drbo.Optimism(drbo.Informative())


def _damaged(study: optuna.Study, how: str) -> str:
    """Damage the configuration that a study holds; return the attribute that the error must name."""
    attributes = study._storage.get_study_system_attrs(study._study_id)
    head = attributes[CONFIGURATION]
    part = f"{CONFIGURATION}:{head['digest']}:0"
    changes: dict[str, tuple[str, Any]] = {
        "an edited radius": (part, attributes[part].replace('["value", 0.15]', '["value", 0.0]')),
        "bad JSON": (part, "{"),
        "a part of another type": (part, 3),
        "a part that is missing": (CONFIGURATION, {**head, "parts": 2}),
        "no parts": (CONFIGURATION, {"digest": head["digest"]}),
        "no digest": (CONFIGURATION, {"parts": 1}),
        "parts of another type": (CONFIGURATION, {**head, "parts": "1"}),
        "a negative number of parts": (CONFIGURATION, {**head, "parts": -1}),
        "another digest": (CONFIGURATION, {**head, "digest": "0" * 16}),
        "a digest of another type": (CONFIGURATION, {**head, "digest": 3}),
        "a list in place of the head": (CONFIGURATION, [1, 2]),
        "None in place of the head": (CONFIGURATION, None),
        "no configuration": (part, "[]"),
    }
    key, value = changes[how]
    assert value != attributes[key]
    study._storage.set_study_system_attr(study._study_id, key, value)
    if how in ("no configuration", "bad JSON"):  # with the digest of its own
        digest = hashlib.sha256(value.encode()).hexdigest()[:16]
        study._storage.set_study_system_attr(study._study_id, f"{CONFIGURATION}:{digest}:0", value)
        study._storage.set_study_system_attr(study._study_id, CONFIGURATION, {"digest": digest, "parts": 1})
    return CONFIGURATION


@pytest.mark.parametrize(
    "how",
    [
        "an edited radius",
        "bad JSON",
        "a part of another type",
        "a part that is missing",
        "no parts",
        "no digest",
        "parts of another type",
        "a negative number of parts",
        "another digest",
        "a digest of another type",
        "a list in place of the head",
        "None in place of the head",
        "no configuration",
    ],
)
def test_a_damaged_configuration_is_named_and_never_used(how: str) -> None:
    """REVIEW V5: an edited radius changed the certified value in silence, other damage raised a raw KeyError."""
    sampler = make(setting=drbo.Simulator(radius=0.15, pick="uncertain"))
    study = study_of(sampler, study_name="heating")
    study.optimize(objective, n_trials=2)
    words = rf"study 'heating': attribute {_damaged(study, how)}.* is damaged: .*restore the study from a backup"
    plain = optuna.load_study(storage=study._storage, study_name="heating", sampler=optuna.samplers.RandomSampler())
    for read in (RobustSampler.from_study, get_robust_params, get_robust_trial):
        with pytest.raises(ValueError, match=words):
            read(plain)
    with pytest.raises(ValueError, match=words):
        study.ask()
    again = study_of(sampler)  # what the error says to do
    again.add_trials(study.trials)
    assert len(sampler.optimizer(again).results) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "it is a list"),
        ({"space": 1}, "it lacks 'action'"),
        ({"action": {}, "context": {}, "space": None, "asked": 3}, "'asked'"),
        ("without asked", "it lacks 'asked'"),
        ("no proposal", "proposal"),
        ("another radius", "holds 'wide' instead of a number"),
        ("an action of another type", "'action'"),
    ],
)
def test_a_damaged_suggestion_is_named_with_its_trial(value: Any, words: str) -> None:
    """REVIEW V5: what the storage holds of a trial, edited by hand."""
    sampler = make()
    study = study_of(sampler, study_name="heating")
    study.optimize(objective, n_trials=3)
    last = study.trials[2]
    good = copy.deepcopy(last.system_attrs[SUGGESTION])
    if value == "without asked":
        value = {name: part for name, part in good.items() if name != "asked"}
    elif value == "no proposal":
        value = {**good, "asked": {**good["asked"], "proposals": []}}
    elif value == "another radius":
        value = {**good, "asked": {**good["asked"], "proposals": [{**good["asked"]["proposals"][0], "radius": "wide"}]}}
    elif value == "an action of another type":
        value = {**good, "action": 3}
    last.system_attrs[SUGGESTION] = value
    other = study_of(sampler, study_name="cooling")
    other.add_trials([*study.trials[:2], last])
    found = (
        rf"study 'cooling': attribute {SUGGESTION} of trial 2 is damaged: .*{words}.*restore the study from a backup"
    )
    with pytest.raises(ValueError, match=found):
        sampler.recommend(other)
    with pytest.raises(ValueError, match=found):
        other.ask()
    again, t = study_of(sampler), other.trials[2]  # what the error says to do
    again.add_trials(other.trials[:2])
    again.add_trial(
        create_trial(
            params=t.params, distributions=t.distributions, user_attrs=t.user_attrs, state=t.state, values=t.values
        )
    )
    assert len(sampler.optimizer(again).results) == 3


def test_copies_of_a_sampler() -> None:
    sampler = make()
    study = study_of(sampler)
    study.optimize(objective, n_trials=3)
    for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert other.recommend(study).value == sampler.recommend(study).value


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"contexts": np.eye(2)}, TypeError, "contexts must have names"),
        ({"contexts": drbo.Samples(np.eye(2))}, TypeError, "contexts must have names"),
        ({"setting": drbo.General()}, TypeError, "setting must be drbo.Simulator"),
        ({"setting": 3}, TypeError, "setting must be"),
        ({"seed": -1}, ValueError, "seed"),
        ({"patience": -1.0}, ValueError, "patience must be zero or more"),
    ],
)
def test_errors_in_the_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {"contexts": drbo.Samples(HISTORY), "setting": drbo.Simulator(radius=0.1, pick="uncertain"), **arguments}
    with pytest.raises(error, match=words):
        RobustSampler(**given)


# --- conditions -----------------------------------------------------------------------------------------------------


def test_nature_picks_the_conditions() -> None:
    study = study_of(make(setting=drbo.DataDriven(radius=0.2)))
    days = iter(np.column_stack(list(HISTORY.values())).tolist())

    def day(t: optuna.Trial) -> float:
        setpoint, gain = t.suggest_float("setpoint", 18.0, 24.0), t.suggest_float("gain", 1e-3, 1.0, log=True)
        outdoor, load = next(days)
        observe(t, {"outdoor": np.float64(outdoor), "load": load})
        return cost(setpoint, gain, float(outdoor), float(load))

    study.optimize(day, n_trials=5)
    opt = derived(study)
    assert [record["drawn"] for record in opt.records() if record["kind"] == "told"] == [True] * 5
    assert [r.context["outdoor"] for r in opt.results] == pytest.approx(HISTORY["outdoor"][:5].tolist())


def test_conditions_that_the_sampler_draws_are_no_evidence_of_nature() -> None:
    study = study_of(make(setting=drbo.DataDriven(radius=0.2)))
    study.optimize(objective, n_trials=4)
    opt = derived(study)
    assert not any(record["drawn"] for record in opt.records() if record["kind"] == "told")
    rows = [(t.params["outdoor"], t.params["load"]) for t in study.trials]
    assert all(any(np.allclose(row, known) for known in ROWS) for row in rows)


def test_a_box_of_conditions() -> None:
    box = drbo.Box(outdoor=(-20.0, 35.0), load=(0.0, 1.0))
    study = study_of(RobustSampler(box, setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED))
    study.optimize(objective, n_trials=4)
    assert np.isfinite(recommended(study).value)


def test_labels_and_whole_numbers_as_conditions() -> None:
    box = drbo.Box(tariff=drbo.Categorical("day", "night"), guests=drbo.Integer(0, 9))
    samples = drbo.Samples({"tariff": ["day", "night", "day"], "guests": [3, 0, 9]}, within=box)
    study = study_of(RobustSampler(samples, setting=drbo.Simulator(radius=0.1, pick="uncertain"), surrogate=FIXED))

    def stay(t: optuna.Trial) -> float:
        tariff, guests = t.suggest_categorical("tariff", ["night", "day"]), t.suggest_int("guests", 0, 9)
        return float(abs(t.suggest_float("x", 0.0, 1.0) - 0.1 * guests) + (tariff == "day"))

    study.optimize(stay, n_trials=5)
    assert derived(study).n_told == 5


def test_conditions_outside_the_suggested_range_are_an_error() -> None:
    study = study_of(make())

    def narrow(t: optuna.Trial) -> float:
        return t.suggest_float("setpoint", 18.0, 24.0) + t.suggest_float("outdoor", 34.0, 35.0)

    with pytest.raises(ValueError, match=r"outdoor = .* suggest outdoor from a range that holds all of `contexts`"):
        study.optimize(narrow, n_trials=1)


def test_errors_of_observe() -> None:
    study = study_of(make(setting=drbo.DataDriven(radius=0.2)))
    t = study.ask(SPACE)
    with pytest.raises(ValueError, match="conditions must name outdoor, load, got outdoor"):
        observe(t, {"outdoor": 1.0})
    with pytest.raises(ValueError, match=r"conditions|finite|nan"):
        observe(t, {"outdoor": math.nan, "load": 0.1})
    assert t.user_attrs == {}
    u = study.ask({**SPACE, **CONDITIONS})
    with pytest.raises(ValueError, match="outdoor, load was suggested for trial 1"):
        observe(u, {"outdoor": 1.0, "load": 0.1})


def test_a_trial_without_conditions_does_not_count_and_says_so() -> None:
    study = study_of(make())
    with pytest.warns(UserWarning, match="trial 0 has no values of outdoor, load and does not count"):
        study.optimize(lambda t: t.suggest_float("setpoint", 18.0, 24.0), n_trials=1)
    assert derived(study).n_told == 0


# --- define-by-run --------------------------------------------------------------------------------------------------


def test_a_study_of_0_2_goes_on(tmp_path: Path) -> None:
    """Version 0.2 had other names for the width and the bound, recorded `pick` always, and one fit without a name."""
    sampler = make(setting=drbo.Simulator(radius=0.1))
    made = study_of(sampler)
    made.optimize(objective, n_trials=4)
    old = optuna.create_study(storage=sqlite(tmp_path), study_name="heating", sampler=optuna.samplers.RandomSampler())
    trials = copy.deepcopy(made.trials)
    for trial in trials:
        asked = trial.system_attrs[SUGGESTION].get("asked")
        if asked is not None:
            fits = asked.pop("fits")
            asked["fit"] = fits.get("")
            for proposal in asked["proposals"]:
                proposal["guarantee"] = proposal.pop("bound")
                proposal.pop("reason", None)
    old.add_trials(trials)
    text = sampler._text.replace('"bound_beta"', '"certificate_beta"').replace(
        '["pick", null]', '["pick", "informative"]'
    )
    assert text.count("certificate_beta") == text.count('"informative"') == 1
    store_configuration(old, text, hashlib.sha256(text.encode()).hexdigest()[:16])
    again = RobustSampler.from_study(old)
    assert again._text == sampler._text
    assert again.recommend(old).value == pytest.approx(sampler.recommend(made).value, rel=1e-9)
    assert list(plot_bounds(old).data[1].y) == list(plot_bounds(made).data[1].y)
    optuna.load_study(storage=old._storage, study_name="heating", sampler=sampler).optimize(objective, n_trials=1)


def test_parameters_outside_the_common_space_leave_no_bound() -> None:
    study = study_of(make())

    def branches(t: optuna.Trial) -> float:
        extra = t.suggest_float("low", 0.0, 1.0) if t.number % 2 else t.suggest_int("steps", 1, 9)
        return objective(t) + 0.01 * extra

    study.optimize(objective, n_trials=2)
    assert "NO BOUND" not in str(recommended(study))
    study.optimize(branches, n_trials=4)
    r = recommended(study)
    assert "NO BOUND, as low, steps differ between trials" in str(r)
    assert (r.claim.proven, set(r.action)) == (False, {"setpoint", "gain"})


def test_a_space_that_shrinks_keeps_the_results() -> None:
    study = study_of(make())
    study.optimize(lambda t: objective(t) + t.suggest_float("extra", 0.0, 1.0), n_trials=3)
    running = study.ask({**SPACE, **CONDITIONS, "extra": FloatDistribution(0.0, 1.0)})
    study.optimize(objective, n_trials=3)
    opt = derived(study)
    assert (opt.n_told, opt.configuration.actions.names) == (6, ("gain", "setpoint"))
    assert running.number in [s.number for s in opt.pending]


def test_constants_are_no_parameters() -> None:
    study = study_of(make())
    study.optimize(lambda t: objective(t) + t.suggest_float("one", 1.0, 1.0), n_trials=3)
    assert derived(study).configuration.actions.names == ("gain", "setpoint")
    assert "NO BOUND" not in str(recommended(study))


def test_the_space_must_be_known() -> None:
    study = study_of(make())
    with pytest.raises(RuntimeError, match="the search space is not known: no trial has completed"):
        recommended(study)
    with pytest.raises(ValueError, match="several"):
        optuna.create_study(directions=["minimize", "minimize"], sampler=make()).ask()


# --- existing studies -----------------------------------------------------------------------------------------------


def test_a_study_of_another_sampler_is_taken_over_in_one_call() -> None:
    study = study_of(optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    for number in range(2):
        t = study.ask(SPACE)
        t.set_user_attr("outdoor", 3.0 + number)
        t.set_user_attr("load", 0.5)
        study.tell(t, 1.0)
    opt = make(setting=drbo.DataDriven(radius=0.1)).optimizer(study)
    assert [record["drawn"] for record in opt.records()] == [False] * 3 + [True] * 2
    assert opt.results[4].context == pytest.approx({"outdoor": 4.0, "load": 0.5})


def test_a_value_outside_its_range_is_told_back() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=2)
    study.enqueue_trial({"setpoint": 30.0})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(objective, n_trials=1)
    with pytest.warns(UserWarning, match=r"trial 2 does not count: action\['setpoint'\] must be from 18.0 to 24.0"):
        study.optimize(objective, n_trials=1)
    study.optimize(objective, n_trials=1)  # once is enough


# --- robust counterparts --------------------------------------------------------------------------------------------


def test_the_robust_trial_is_not_the_luckiest_one() -> None:
    study = study_of(make())
    study.optimize(objective, n_trials=10)
    best = get_robust_trial(study)
    opt = derived(study)
    values = {r.number: opt.bound(r.action).value for r in opt.results}
    assert values[best.number] == min(values.values())
    assert best.params == study.trials[best.number].params
    assert opt.recommend().value <= values[best.number] + 1e-9
    with pytest.raises(RuntimeError, match="not known"):
        get_robust_trial(study_of(make()))


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["attribute", "constraint", "function"])
def test_limited_outcomes_of_trials(way: str, tmp_path: Path) -> None:
    """All three ways tell the same values; another process reads them from the study."""

    def peak(params: dict[str, Any]) -> float:
        return float(3.0 * params["setpoint"] + params["load"])

    def beyond(trial: Any) -> list[float]:
        return [peak(trial.params) - 68.0, 1.0 - trial.params["gain"]]

    def told(trial: optuna.Trial) -> float:
        value = objective(trial)
        if way == "attribute":
            trial.set_user_attr("peak", peak(trial.params))
            trial.set_user_attr("gain*", trial.params["gain"])
        elif way == "constraint":
            trial.set_constraint("gain*", 1.0 - trial.params["gain"])
            trial.set_constraint("peak", peak(trial.params) - 68.0)
        return value

    limits = {"peak": drbo.AtMost(68.0), "gain*": drbo.AtLeast(1.0)}
    function = beyond if way == "function" else None
    sampler = make(surrogate=FIXED, limits=limits, constraints_func=function)
    study = optuna.create_study(storage=sqlite(tmp_path), study_name="limits", sampler=sampler)
    study.optimize(told, n_trials=5)
    other = optuna.load_study(storage=sqlite(tmp_path), study_name="limits")
    opt = RobustSampler.from_study(other).optimizer(other)
    for result, trial in zip(opt.results, study.trials, strict=True):
        assert result.limits["peak"] == pytest.approx(peak(trial.params))
        assert result.limits["gain*"] == pytest.approx(trial.params["gain"])
    assert opt.configuration.limits == limits
    with pytest.raises(drbo.NotReachedError):
        recommended(study)


def test_bad_limits_of_a_sampler() -> None:
    with pytest.raises(TypeError, match=r"limits\['peak'\] must be a drbo\.AtMost"):
        make(limits={"peak": 3.0})
    with pytest.raises(TypeError, match="constraints_func must be a function of a trial, and needs limits"):
        make(constraints_func=lambda _: [0.0])


@pytest.mark.parametrize("seconds", [[1.0] * 15, [0.1] * 15, [3.0, *[0.2] * 14], [0.2] * 14 + [3.0]])
def test_a_worker_with_many_before_it_looks_seldom_and_is_not_late(
    seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """15 running trials get their suggestions one after the other; a clock of our own counts."""
    trials = importlib.import_module("drbo.integrations.optuna.trials")
    done = np.cumsum(seconds)
    clock, looked = [0.0], list[float]()
    study = optuna.create_study()
    started = [study.ask() for _ in range(16)]
    known = all_trials(study)

    def look(_: optuna.Study) -> list[Any]:
        looked.append(clock[0])
        for trial, ends in zip(known[:15], done, strict=True):
            trial.system_attrs = {SUGGESTION: {}} if clock[0] >= ends else {}
        return known

    monkeypatch.setattr(trials, "all_trials", look)
    monkeypatch.setattr(trials.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(trials.time, "sleep", lambda pause: clock.__setitem__(0, clock[0] + pause))
    assert trials.settled(study, known[15], SPACE, 60.0) == (known, [])
    assert len(started) == 16
    assert len(looked) <= 40
    assert clock[0] - done[-1] <= 0.5
