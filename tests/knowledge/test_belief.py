"""What is derived from the facts may be dropped at any moment, and no query changes what follows."""

import contextlib
import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import heating
import robos
from bits import bits
from drbo import DataDriven, General, LearnedGP, Optimizer, Setting, Simulator
from drbo.optimizer.question import Question
from golden.runs import BY_NAME, Run, drive
from queries import NO_QUERIES, QUERIES, QUICK

pytestmark = pytest.mark.usefixtures("still")

NAMES = [
    "grid_general_tv_pending_failed_cancelled",
    "grid_simulator_chi_informative_learned",
    "box_general_mmd_pending",
    "box_simulator_tv_learned_failed",
    "samples_data_mmd_compressed",
    "samples_general_kl_minimise",
    "range_general_mmd",
    "range_data_wasserstein",
    "range_data_mmd_box_learned",
]
_STEPS = 14
"""How far each run goes here, long enough for failures, refits and further contexts."""
SHORT = [dataclasses.replace(BY_NAME[name], script=BY_NAME[name].script[:_STEPS]) for name in NAMES]
every_run = pytest.mark.parametrize("run", SHORT, ids=lambda run: run.name)


def test_the_bits_agree_with_two_threads_too() -> None:
    """P3: the bits must not rest on OPENBLAS_NUM_THREADS=1, which the Makefile sets."""
    run = SHORT[1]
    with threadpool_limits(2, user_api="blas"):
        live, lost = step_by_step(run, lambda opt: opt), step_by_step(run, dropped)
        assert answers(run, lost) == answers(run, live)


def ask_again(run: Run, opt: Optimizer) -> Any:
    step = len(run.script)
    return opt.ask(**({} if run.ball is None else run.ball(step - step % 4 + 1)))


def answers(run: Run, opt: Optimizer) -> Any:
    """Return all facts, what is recommended, and what is asked next, to the last bit."""
    return bits([opt.history, opt.pending, opt.recommend(), opt.recommend_iterate(), ask_again(run, opt)])


def step_by_step(run: Run, between: Callable[[Optimizer], Optimizer]) -> Optimizer:
    """Return the optimizer of a run on which `between` was called before every step."""
    opt = run.make()
    for step in range(len(run.script)):
        opt = between(opt)
        drive(run, opt, step, step + 1)
    return between(opt)


@functools.cache
def undisturbed(name: str) -> Any:
    """Return the answers of a run that went on without a break."""
    run = next(run for run in SHORT if run.name == name)
    opt = run.make()
    drive(run, opt)
    return answers(run, opt)


def dropped(opt: Optimizer) -> Optimizer:
    opt._start_anew()
    return opt


@every_run
def test_a_belief_dropped_before_every_call_changes_nothing(run: Run) -> None:
    assert answers(run, step_by_step(run, dropped)) == undisturbed(run.name)


@every_run
def test_a_file_saved_and_loaded_before_every_call_changes_nothing(run: Run, tmp_path: Path) -> None:
    def loaded(opt: Optimizer) -> Optimizer:
        opt.save(tmp_path / "state.json")
        return Optimizer.load(tmp_path / "state.json")

    assert answers(run, step_by_step(run, loaded)) == undisturbed(run.name)
    assert len((tmp_path / "state.json").read_bytes()) > 1000


def queried(opt: Optimizer) -> Optimizer:
    """Return the optimizer after every query; before the first ask some have no answer."""
    for query in QUICK.values():
        try:
            query(opt)
        except (RuntimeError, TypeError, IndexError):
            assert not opt.n_told or not any(type(fact).__name__ == "Asked" for fact in opt.history)
    return opt


@every_run
def test_no_query_changes_what_follows(run: Run, tmp_path: Path) -> None:
    """S9: the saved bytes and the next ask are the same with and without queries, after every step."""
    without, asked = run.make(), step_by_step(run, queried)
    drive(run, without)
    for name, query in QUICK.items():
        query(asked)
        for number, opt in enumerate((without, asked)):
            opt.save(tmp_path / f"{name}-{number}.json")
        assert (tmp_path / f"{name}-0.json").read_bytes() == (tmp_path / f"{name}-1.json").read_bytes()
    assert bits(ask_again(run, without)) == bits(ask_again(run, asked))
    assert bits(without.history) == bits(asked.history)


def test_every_query_is_tried() -> None:
    """A new method or property of the optimizer that is no query must be named as such."""
    public = {name for kind in (Optimizer, Question) for name in dir(kind) if not name.startswith("_")}
    assert public == (QUERIES.keys() - {"repr", "html"}).union(*NO_QUERIES.values())


@pytest.mark.parametrize(
    "name",
    ["grid_simulator_cvar", "box_simulator_tv_learned_failed", "samples_data_mmd_compressed", "range_general_mmd"],
)
def test_no_other_query_changes_what_follows(name: str, tmp_path: Path) -> None:
    """S9 for all other queries, one after the other: the saved bytes and the next ask are as without them."""
    run = dataclasses.replace(BY_NAME[name], script=BY_NAME[name].script[:9])
    one, two = run.make(), run.make()
    answered = set()
    for opt in (one, two):
        drive(run, opt)
    for query in QUERIES.keys() - QUICK.keys():
        with contextlib.suppress(TypeError):  # no answer where contexts are more than the atoms
            QUERIES[query](two)
            answered.add(query)
    for number, opt in enumerate((one, two)):
        opt.save(tmp_path / f"{number}.json")
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()
    assert bits(ask_again(run, one)) == bits(ask_again(run, two))
    assert QUERIES.keys() - QUICK.keys() - answered <= {"probability", "value_at_risk", "classify", "watch"}


@pytest.mark.parametrize("query", QUICK)
@pytest.mark.parametrize("name", ["grid_simulator_cvar", "range_data_mmd_box_learned"])
def test_each_query_alone_changes_nothing(name: str, query: str) -> None:
    """S9: from the same live state, each query by itself."""
    run = BY_NAME[name]
    one, two = run.make(), run.make()
    for opt in (one, two):
        drive(run, opt, 0, 8)
    for _ in range(2):
        QUICK[query](two)
        assert bits(one.ask()) == bits(two.ask())


@pytest.mark.parametrize(
    ("setting", "surrogate", "rounds"),
    [
        (General(), robos.SURROGATE, 80),
        (DataDriven(radius=0.3), robos.SURROGATE, 80),
        (Simulator(robos.REFERENCE, 0.3, pick="uncertain"), robos.SURROGATE, 140),
        (Simulator(robos.REFERENCE, 0.3, pick="uncertain"), LearnedGP(), 80),
    ],
    ids=["general", "data-driven", "simulator", "learned"],
)
def test_a_long_run_dropped_now_and_then(setting: Setting, surrogate: Any, rounds: int, tmp_path: Path) -> None:
    """More than one block of 64 results, or two, some of them failures: taken in by blocks, or one by one."""
    live, dropped = (robos.make(setting, surrogate=surrogate) for _ in range(2))
    saved = robos.make(setting, surrogate=surrogate)
    generators = [np.random.default_rng(3) for _ in range(3)]
    for number in range(rounds):
        every = 1 if number > rounds - 20 or number % 20 == 0 else 0
        if every:
            dropped._start_anew()
            saved.save(tmp_path / "state.json")
            saved = Optimizer.load(tmp_path / "state.json")
        asked = [robos.ask(opt) for opt in (live, dropped, saved)]
        if every:
            assert bits(asked[0]) == bits(asked[1]) == bits(asked[2]), number
        for opt, s, rng in zip((live, dropped, saved), asked, generators, strict=True):
            if number % 17 == 16:
                opt.tell(s, failed=True)
            else:
                robos.tell(opt, s, rng)
    answers_of = [bits([opt.history, opt.recommend(), opt.recommend_iterate()]) for opt in (live, dropped, saved)]
    assert answers_of[0] == answers_of[1] == answers_of[2]
    means = [robos.posterior(opt).mean for opt in (live, dropped, saved)]
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_array_equal(means[0], means[2])


def test_failures_do_not_enter_a_certificate() -> None:
    """S1, as far as beliefs go: what failed shrinks the deviation of the next ask, and of no certificate."""
    opt = robos.make(Simulator(robos.REFERENCE, robos.RADIUS, pick="uncertain"))
    robos.run(opt, 5)
    before = opt.recommend()
    deviation = robos.posterior(opt).std.copy()
    for _ in range(3):
        opt.tell(opt.ask(), failed=True)
    np.testing.assert_array_equal(robos.posterior(opt).std, deviation)
    after = opt.recommend()
    if after.action_index == before.action_index:
        assert after.value == before.value
    assert after.value <= before.value


@pytest.mark.parametrize("setting", [General(), DataDriven(radius=0.2)], ids=repr)
def test_pending_actions_do_not_matter_for_a_recommendation(setting: Setting) -> None:
    """S5: with beta = 0 both bounds are the mean, and the next ask is what is recommended."""
    opt = heating.make(setting, beta=0.0)
    heating.run(opt, 6)
    alone = opt.recommend(radius=0.2) if isinstance(setting, General) else opt.recommend()
    twin = copy.deepcopy(opt)
    asked = [heating.ask(twin) for _ in range(3)]
    apart = [np.abs(s.action_point.coordinates - alone.action_point.coordinates).max() for s in asked]
    assert min(apart) < 0.02  # something pending is where the best action is
    pending = twin.recommend()
    assert pending.value == pytest.approx(alone.value, abs=1e-6)
    assert np.abs(pending.action_point.coordinates - alone.action_point.coordinates).max() < 0.005


def test_the_posterior_is_that_of_the_facts() -> None:
    """Whatever was asked of it before, a posterior is on the same contexts."""
    run = BY_NAME["samples_data_mmd_compressed"]
    opt = run.make()
    drive(run, opt)
    live = opt.posterior
    opt._start_anew()
    np.testing.assert_array_equal(live.contexts, opt.posterior.contexts)


def test_rounds_differ() -> None:
    """The runs above would notice: suggestions are not all alike."""
    run = BY_NAME["range_data_wasserstein"]
    opt = run.make()
    drive(run, opt)
    proposals = [p for fact in opt.history for p in getattr(fact, "proposals", ())]
    assert all(bits(a) != bits(b) for a, b in itertools.pairwise(proposals))
