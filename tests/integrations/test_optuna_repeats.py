"""A running or a failed trial of a study is not repeated."""

import optuna

import drbo
from drbo.integrations.optuna import RobustSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


def test_neither_running_nor_failed_trials_are_repeated() -> None:
    """REVIEW W6: whole numbers and three conditions, four trials at a time; one value of the parameter always fails."""
    sampler = RobustSampler(drbo.Samples({"t": [0.0, 0.5, 1.0]}, support=0), setting=drbo.Simulator(radius=0.1), seed=0)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    seen: list[tuple[int, float]] = []
    for _ in range(4):
        running = [study.ask() for _ in range(4)] if seen else [study.ask()]
        for trial in running:
            pair = trial.suggest_int("n", 1, 8), trial.suggest_float("t", 0.0, 1.0)
            seen.append(pair)
        for trial, (n, t) in zip(running, seen[-len(running) :], strict=True):
            if n == 8:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, float(n + 0.1 * t))
    assert len(set(seen)) == len(seen)
