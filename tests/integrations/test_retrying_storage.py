"""A storage whose database goes away: calls wait, nothing is told twice, and other errors are not hidden."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy import exc

from drbo.integrations.optuna import RetryingStorage, retrying

pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed to be used:UserWarning")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drbo.integrations.optuna.retrying.time.sleep", lambda _: None)


@pytest.fixture
def made(tmp_path: Path) -> RetryingStorage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RetryingStorage(f"sqlite:///{tmp_path / 'study.db'}", heartbeat_interval=60, grace_period=120, wait=60.0)


def away() -> optuna.exceptions.StorageInternalError:
    """Return the error of Optuna when a database does not answer."""
    error = optuna.exceptions.StorageInternalError("An exception is raised during the commit.")
    error.__cause__ = exc.OperationalError("select", {}, Exception("server closed the connection"))
    return error


def failing(monkeypatch: pytest.MonkeyPatch, name: str, times: int, *, after: bool = False) -> list[Any]:
    """Let a call of Optuna fail some times: before its work, or after."""
    real, calls = getattr(RDBStorage, name), list[Any]()

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) > times:
            return real(self, *args, **kwargs)
        if after:
            real(self, *args, **kwargs)
        raise away()

    monkeypatch.setattr(RDBStorage, name, call)
    return calls


def test_a_study_goes_on_after_each_call_failed_once(made: RetryingStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(storage=made, study_name="one")
    calls = failing(monkeypatch, "set_trial_state_values", 1)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 3
    assert len(calls) == 4


def test_a_result_that_was_stored_before_the_connection_broke_is_no_error(
    made: RetryingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = optuna.create_study(storage=made)
    failing(monkeypatch, "set_trial_state_values", 1, after=True)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE]


def test_a_trial_that_somebody_else_finished_is_one(made: RetryingStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(storage=made)
    trial = study.ask()
    made.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    failing(monkeypatch, "set_trial_state_values", 1)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        made.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [1.0])


def test_other_errors_are_raised_at_once(made: RetryingStorage) -> None:
    with pytest.raises(KeyError):
        made.get_trial(99)
    with pytest.raises(KeyError):
        made.get_study_id_from_name("none")


def test_an_error_behind_another_one_is_found() -> None:
    """Optuna answers a failed query by another one, whose error is the one that is raised."""
    outer = optuna.exceptions.StorageInternalError("commit")
    outer.__cause__ = exc.PendingRollbackError("rollback")
    outer.__cause__.__context__ = exc.OperationalError("select", {}, Exception("closed"))
    assert retrying._is_away(outer)
    broken = exc.DatabaseError("select", {}, Exception("server closed the connection"), connection_invalidated=True)
    assert retrying._is_away(broken)  # psycopg2, if the server stopped at once
    assert not retrying._is_away(exc.DatabaseError("select", {}, Exception("no such table")))
    assert not retrying._is_away(exc.DataError("insert", {}, Exception("too long")))
    assert not retrying._is_away(optuna.exceptions.StorageInternalError("alone"))


def test_patience_ends(made: RetryingStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(storage=made)
    trial = study.ask()
    made.wait = 0.0
    failing(monkeypatch, "record_heartbeat", 99)
    monkeypatch.setattr(RetryingStorage, "record_heartbeat", retrying._retried("record_heartbeat"))
    with pytest.raises(optuna.exceptions.StorageInternalError):
        made.record_heartbeat(trial._trial_id)


def test_it_is_cached_like_optunas_own_and_can_be_pickled(made: RetryingStorage) -> None:
    assert type(optuna.create_study(storage=made)._storage).__name__ == "_CachedStorage"
    copied = pickle.loads(pickle.dumps(made))
    assert isinstance(copied, RetryingStorage)
    assert copied.wait == made.wait


def test_all_calls_that_optunas_cache_makes_are_retried() -> None:
    import inspect
    import re

    text = inspect.getsource(optuna.storages._CachedStorage)
    called = set(re.findall(r"_backend\.(\w+)", text)) - {"create_new_study", "delete_study"}
    constant = {"get_heartbeat_interval", "get_heartbeat_stale_trial_callback", "get_failed_trial_callback"}
    # reads of no database, and older names
    assert {name for name in called - constant if name not in vars(RetryingStorage)} <= {"remove_session"}
