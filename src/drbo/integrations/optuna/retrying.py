"""A storage that outlives a restart of its database.

Optuna's `RDBStorage` raises when the database is away. Then a worker ends, or the thread of its heartbeat does, and a
result that was just computed is lost. `RetryingStorage` repeats the call until the database answers.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import exc, make_url

from drbo import validation

_LONGEST_PAUSE = 2.0
"""Longest time in seconds between two attempts."""


class RetryingStorage(RDBStorage):
    """Optuna's `RDBStorage`, which waits while the database is away.

    Parameters
    ----------
    url, engine_kwargs, heartbeat_interval, grace_period, heartbeat_stale_trial_callback : as for `RDBStorage`. A
        grace period must be longer than a restart of the database, otherwise running trials count as dead
    wait : the longest time in seconds that one call waits; then the error is raised
    """

    def __init__(
        self,
        url: str,
        engine_kwargs: Mapping[str, Any] | None = None,
        *,
        heartbeat_interval: int | None = None,
        grace_period: int | None = None,
        heartbeat_stale_trial_callback: Callable[[optuna.Study, FrozenTrial], None] | None = None,
        wait: float = 300.0,
    ) -> None:
        self.wait = validation.radius(wait, "wait")
        try:
            make_url(url)
        except exc.ArgumentError:  # its message may show a password
            raise ValueError("url must be the address of a database such as 'postgresql://host/name'") from None
        named: dict[str, Any] = {"heartbeat_interval": heartbeat_interval, "grace_period": grace_period}
        if heartbeat_stale_trial_callback is not None:
            named[_CALLBACK] = heartbeat_stale_trial_callback
        _until_answered(lambda: RDBStorage.__init__(self, url, dict(engine_kwargs or {}), **named), self.wait)

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Any = None) -> bool:
        """Set the state and the values of a trial.

        A database may have stored them before the connection was lost. The second attempt then finds a finished trial.
        This is an error only if another process finished it.
        """
        failed = False

        def attempt() -> bool:
            nonlocal failed
            try:
                return RDBStorage.set_trial_state_values(self, trial_id, state, values)
            except optuna.exceptions.UpdateFinishedTrialError:
                found = RDBStorage.get_trial(self, trial_id)
                if failed and found.state == state and (values is None or found.values == list(values)):
                    return True
                raise
            except _TROUBLE:
                failed = True
                raise

        return bool(_until_answered(attempt, self.wait))


_CALLBACK = (  # the name before Optuna 4.9 is the second one
    "heartbeat_stale_trial_callback"
    if hasattr(optuna.storages, "RetryHeartbeatStaleTrialCallback")
    else "failed_trial_callback"
)
_TROUBLE = (optuna.exceptions.StorageInternalError, exc.DBAPIError)


def _is_away(error: BaseException) -> bool:
    """Return whether an error says that the database did not answer, and not that the call was wrong.

    Optuna answers some errors of a database by another query, so the first error is looked for behind the last one.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, exc.OperationalError | exc.InterfaceError):
            return True
        if isinstance(found, exc.DBAPIError) and found.connection_invalidated:
            return True
        found = found.__cause__ or found.__context__
    return False


def _until_answered(attempt: Callable[[], Any], wait: float) -> Any:
    """Return what an attempt returns; repeat it while the database is away, for `wait` seconds."""
    end, pause = time.monotonic() + wait, 0.05
    while True:
        try:
            return attempt()
        except _TROUBLE as error:
            if not _is_away(error) or time.monotonic() + pause > end:
                raise
        time.sleep(pause)
        pause = min(2.0 * pause, _LONGEST_PAUSE)


def _retried(name: str) -> Callable[..., Any]:
    method = getattr(RDBStorage, name)

    @functools.wraps(method)
    def call(self: RetryingStorage, *args: Any, **kwargs: Any) -> Any:  # the arguments are Optuna's
        return _until_answered(functools.partial(method, self, *args, **kwargs), self.wait)

    return call


# The calls of a running worker. Those of Optuna's cache have underscores. A study is created by a person, who sees an
# error; a repeated call would find its own study and say that it exists.
for _name in (
    "_create_new_trial",
    "_get_best_trial_id",
    "_get_stale_trial_ids",
    "_get_trials",
    "_set_trial_param",
    "get_all_studies",
    "get_study_directions",
    "get_study_id_from_name",
    "get_study_name_from_id",
    "get_study_system_attrs",
    "get_study_user_attrs",
    "get_trial",
    "get_trial_id_from_study_id_trial_number",
    "record_heartbeat",
    "set_study_system_attr",
    "set_study_user_attr",
    "set_trial_intermediate_value",
    "set_trial_system_attr",
    "set_trial_user_attr",
):
    setattr(RetryingStorage, _name, _retried(_name))
