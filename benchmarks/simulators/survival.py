"""Survival after a heart attack (scikit-survival, the Worcester study inside the package), scored by group of patients.

Decision: learning rate, number and depth of trees, and subsample of gradient boosting. Conditions: groups of patients,
labels. Outcome: the concordance of predicted risk and survival within the group, on patients held out, mean over two
splits.
"""

from __future__ import annotations

import functools
import json
import warnings

import numpy as np

import drbo
from simulators import Action, Context, Simulator

_GROUPS = ("men under 65", "men of 65 or more", "women under 70", "women of 70 or more")


@functools.cache
def _data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from sksurv.datasets import load_whas500

    frame, outcome = load_whas500()
    age, woman = frame["age"].to_numpy(float), frame["gender"].astype(float).to_numpy() == 1.0
    old = np.where(woman, age >= 70.0, age >= 65.0)
    return frame.astype(float).to_numpy(), outcome, 2 * woman + old


@functools.lru_cache(maxsize=4096)
def _scores(key: str) -> tuple[float, ...]:
    """Return the concordance of an action in each group."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis
    from sksurv.metrics import concordance_index_censored

    action = json.loads(key)
    x, y, group = _data()
    scores = []
    for split in range(2):
        test = np.random.default_rng([split, 6]).random(len(x)) < 0.4
        model = GradientBoostingSurvivalAnalysis(
            learning_rate=action["rate"],
            n_estimators=action["trees"],
            max_depth=action["depth"],
            subsample=action["subsample"],
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            risk = model.fit(x[~test], y[~test]).predict(x[test])
        own = [group[test] == g for g in range(len(_GROUPS))]
        held = y[test]
        scores.append([concordance_index_censored(held["fstat"][g], held["lenfol"][g], risk[g])[0] for g in own])
    return tuple(np.mean(scores, axis=0).tolist())


def concordance(action: Action, context: Context) -> float:
    """Return the concordance in a group."""
    return _scores(json.dumps(action, sort_keys=True))[_GROUPS.index(context)]


def make() -> Simulator:
    """Return the simulator; raise ImportError without scikit-survival."""
    import sksurv  # noqa: F401  # imported to raise without it

    counts = np.bincount(_data()[2], minlength=len(_GROUPS))
    return Simulator(
        name="survival",
        version=1,
        actions=drbo.Box(
            rate=drbo.Log(0.01, 1.0),
            trees=drbo.Integer(5, 120),
            depth=drbo.Integer(1, 5),
            subsample=(0.3, 1.0),
        ),
        contexts=dict(zip(_GROUPS, (counts / counts.sum()).tolist(), strict=True)),
        ambiguity=drbo.TotalVariation(),
        radii=(0.1, 0.3),
        meaning=("one patient in ten is of another group", "three in ten: a hospital in an older town"),
        shifted=("men of 65 or more",) * 3 + ("women of 70 or more",) * 5 + ("men under 65", "women under 70"),
        function=concordance,
    )
