"""Model selection under a shift of the mix of groups: the loss on held-out rows in the worst mix, at equal candidates.

    python benchmarks/model_selection.py --candidates 20 --seeds 3 --out out/model_selection.json

Half of the rows of a data set train and are cross-validated; the other half are held out. Three groups are bands of a
covariate, or have other relations of y to X by construction. The share of the rarest group may grow to 60%. The worst
mix on held-out rows is one of the two ends of this range, as the mean loss is linear in the share. Every method fits
the same number of candidates on the same three folds. "Worst mix" searches are the fair peer: each fit reveals the loss
of every group.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import loguniform, randint, wilcoxon
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  # imported for its effect
from sklearn.model_selection import HalvingRandomSearchCV, StratifiedKFold

import drbo
from drbo.integrations.sklearn import RobustSearchCV

SHARE = (0.1, 0.6)
"""The range of the share of the rarest group."""
SPACE = {
    "learning_rate": drbo.Log(1e-2, 1.0),
    "max_leaf_nodes": drbo.Integer(2, 31),
    "min_samples_leaf": drbo.Integer(2, 40),
    "l2_regularization": drbo.Log(1e-3, 100.0),
}
DISTRIBUTIONS: dict[str, Any] = {
    "learning_rate": loguniform(1e-2, 1.0),
    "max_leaf_nodes": randint(2, 32),
    "min_samples_leaf": randint(2, 41),
    "l2_regularization": loguniform(1e-3, 100.0),
}


@dataclass(frozen=True, eq=False)
class Data:
    """Rows with their groups "a", "b" and "rare"."""

    X: Any
    y: Any
    group: Any
    regression: bool

    def rows(self, at: Any) -> Data:
        return Data(self.X[at], self.y[at], self.group[at], self.regression)


def bands(values: Any) -> Any:
    """Return groups by a covariate: the lower 60% of rows, 25%, and the upper 15%."""
    low, high = np.quantile(values, [0.6, 0.85])
    return np.where(values <= low, "a", np.where(values <= high, "b", "rare"))


def shifted(seed: int, regression: bool, strength: float) -> Data:
    """Return rows whose relation of y to X differs by group."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "rare"], size=600, p=[0.6, 0.25, 0.15])
    X = rng.normal(size=(600, 6))
    turn = strength * np.select([group == "a", group == "b"], [0.0, 0.5], 1.0)
    signal = np.cos(turn) * X[:, 0] + np.sin(turn) * X[:, 1] * X[:, 2] + 0.3 * X[:, 3]
    X[:, 5] = np.select([group == "a", group == "b"], [-1.0, 0.0], 1.0) + 0.5 * rng.normal(size=600)
    noise = np.where(group == "rare", 1.0, 0.4) * rng.normal(size=600)
    return Data(X, signal + noise if regression else (signal + noise > 0).astype(int), group, regression)


def _of(loaded: Any, column: int, regression: bool = False, most: int = 600) -> Data:
    X, y = loaded
    at = np.random.default_rng(0).permutation(len(X))[:most]
    X, y = X[at], y[at]
    rng = np.random.default_rng(1)
    return Data(X, y, bands(X[:, column] + 1e-9 * rng.normal(size=len(X))), regression)


DATA: dict[str, Callable[[int], Data]] = {
    "breast cancer": lambda _: _of(load_breast_cancer(return_X_y=True), 0),
    "wine": lambda _: _of(load_wine(return_X_y=True), 9),
    "iris": lambda _: _of(load_iris(return_X_y=True), 1),
    "digits": lambda _: _of(load_digits(return_X_y=True), 20),
    "diabetes": lambda _: _of(load_diabetes(return_X_y=True), 0, regression=True),
    "friedman": lambda seed: _of(make_friedman1(600, noise=1.0, random_state=seed), 0, regression=True),
    "turned classes": lambda seed: shifted(seed, False, 1.5),
    "turned numbers": lambda seed: shifted(seed, True, 1.5),
}


def model(data: Data) -> Any:
    """Return the estimator; its own seed makes a fit reproducible."""
    kind = HistGradientBoostingRegressor if data.regression else HistGradientBoostingClassifier
    return kind(max_iter=40, early_stopping=False, random_state=0)


def losses(fitted: Any, data: Data) -> Any:
    """Return the loss of each row: squared error, or log loss."""
    if data.regression:
        return (data.y - fitted.predict(data.X)) ** 2
    p = np.clip(fitted.predict_proba(data.X), 1e-15, 1.0)
    at = np.searchsorted(fitted.classes_, data.y)
    known = fitted.classes_[np.minimum(at, len(fitted.classes_) - 1)] == data.y
    return -np.log(np.where(known, p[np.arange(len(p)), np.minimum(at, len(fitted.classes_) - 1)], 1e-15))


def mixes(values: Any, group: Any, reference: Any) -> tuple[float, float]:
    """Return the mean loss on the training mix, and in the worst mix; `reference` are the groups of training rows."""
    mean = {name: float(values[group == name].mean()) for name in ("a", "b", "rare")}
    share = {name: float((reference == name).mean()) for name in mean}
    rest = (share["a"] * mean["a"] + share["b"] * mean["b"]) / (share["a"] + share["b"])
    return sum(share[k] * mean[k] for k in mean), max(s * mean["rare"] + (1.0 - s) * rest for s in SHARE)


def cross_validated(data: Data, splits: Any, params: dict[str, Any]) -> tuple[float, float]:
    """Return the cross-validated loss on the training mix and in the worst mix."""
    values = np.empty(len(data.y))
    for train, test in splits:
        fitted = clone(model(data)).set_params(**params).fit(data.X[train], data.y[train])
        values[test] = losses(fitted, data.rows(test))
    return mixes(values, data.group, data.group)


def random_params(rng: Any) -> dict[str, Any]:
    return {name: d.rvs(random_state=rng) for name, d in DISTRIBUTIONS.items()}


def chosen(
    data: Data, splits: Any, candidates: int, seed: int, only_drbo: bool, widths: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Return the hyper-parameters that each method chooses, and the bounds that drbo prints."""
    found, bounds = drbo_chosen(data, splits, candidates, seed, widths)
    return ({**peers_chosen(data, splits, candidates, seed), **found} if not only_drbo else found), bounds


def peers_chosen(data: Data, splits: Any, candidates: int, seed: int) -> dict[str, dict[str, Any]]:
    """Return the hyper-parameters that each peer chooses."""
    found = {}
    rng = np.random.RandomState(seed)
    tried = [random_params(rng) for _ in range(candidates)]
    scores = np.array([cross_validated(data, splits, params) for params in tried])
    found["random search, mean"] = tried[int(scores[:, 0].argmin())]
    found["random search, worst mix"] = tried[int(scores[:, 1].argmin())]
    scoring = "neg_mean_squared_error" if data.regression else "neg_log_loss"
    halving = HalvingRandomSearchCV(
        model(data), DISTRIBUTIONS, n_candidates=2 * candidates, cv=3, scoring=scoring, refit=False, random_state=seed,
        min_resources=len(data.y) // 4, error_score=-1e9,
    )  # fmt: skip
    found["HalvingRandomSearchCV"] = halving.fit(data.X, data.y).best_params_
    try:
        import optuna
    except ImportError:
        return found
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for at, name in enumerate(("Optuna's TPE, mean", "Optuna's TPE, worst mix")):

        def objective(trial: Any, at: int = at) -> float:
            own = {
                "learning_rate": trial.suggest_float("learning_rate", 1e-2, 1.0, log=True),
                "max_leaf_nodes": trial.suggest_int("max_leaf_nodes", 2, 31),
                "min_samples_leaf": trial.suggest_int("min_samples_leaf", 2, 40),
                "l2_regularization": trial.suggest_float("l2_regularization", 1e-3, 100.0, log=True),
            }
            return cross_validated(data, splits, own)[at]

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(objective, n_trials=candidates)
        found[name] = study.best_params
    return found


def drbo_chosen(
    data: Data, splits: Any, candidates: int, seed: int, widths: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Return the hyper-parameters that drbo chooses, and the bounds that it prints."""
    found, bounds = {}, {}
    scoring = "neg_mean_squared_error" if data.regression else "neg_log_loss"
    sets: dict[str, dict[str, Any]] = {
        "drbo, radius 0": {"ambiguity": drbo.TotalVariation(), "radius": 0.0, "z": 0.0},
        "drbo, z = 0": {"ambiguity": drbo.Shares(rare=SHARE), "z": 0.0},
        "drbo, z = 2": {"ambiguity": drbo.Shares(rare=SHARE), "z": 2.0},
        "drbo": {"ambiguity": drbo.Shares(rare=SHARE)},
    }
    if not widths:
        sets = {name: arguments for name, arguments in sets.items() if "z = " not in name}
    for name, arguments in sets.items():
        search = RobustSearchCV(
            model(data), SPACE, n_iter=candidates, scoring=scoring, cv=splits, refit=False, random_state=seed,
            **arguments,
        )  # fmt: skip
        search.fit(data.X, data.y, contexts=data.group)
        found[name], bounds[name] = search.best_params_, -search.best_score_
    return found, bounds


def run(name: str, candidates: int, seed: int, only_drbo: bool = False, widths: bool = True) -> list[dict[str, Any]]:
    """Return one row per method: the held-out loss on the training mix and in the worst mix, and the bound."""
    data = DATA[name](seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.y))
    strata = data.group if data.regression else np.char.add(data.group.astype(str), data.y.astype(str))
    kept = np.zeros(len(order), dtype=bool)
    for stratum in np.unique(strata):
        own = order[strata[order] == stratum]
        kept[own[: math.ceil(len(own) / 2)]] = True
    train, test = data.rows(kept), data.rows(~kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splits = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(train.X, strata[kept]))
        found, bounds = chosen(train, splits, candidates, seed, only_drbo, widths)
    rows = []
    for method, params in found.items():
        fitted = clone(model(train)).set_params(**params).fit(train.X, train.y)
        mean, worst = mixes(losses(fitted, test), test.group, train.group)
        rows.append(
            {"data": name, "seed": seed, "candidates": candidates, "method": method, "mean": mean, "worst": worst,
             "bound": bounds.get(method)}
        )  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table: losses relative to random search on the mean, paired tests, and false bounds."""
    key = {(r["data"], r["seed"], r["method"]): r for r in rows}
    pairs = sorted({(r["data"], r["seed"]) for r in rows})
    lines = [
        "| method | worst mix | training mix | better than drbo | p (drbo is better) | false bounds |",
        "|---|" + "---|" * 5,
    ]
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [key[*pair, method] for pair in pairs]
        base = [key[*pair, "random search, mean"] for pair in pairs]
        ours = [key[*pair, "drbo"] for pair in pairs]
        ratio = {
            what: math.exp(np.mean([math.log(a[what] / b[what]) for a, b in zip(own, base, strict=True)]))
            for what in ("worst", "mean")
        }
        gain = np.array([math.log(a["worst"] / b["worst"]) for a, b in zip(own, ours, strict=True)])
        p = float(wilcoxon(gain, alternative="greater").pvalue) if (gain != 0.0).sum() > 5 else math.nan
        claimed = "mean" if method == "drbo, radius 0" else "worst"  # what its bound is about
        false = [a[claimed] > a["bound"] for a in own if a["bound"] is not None]
        share = f"{sum(false)} of {len(false)}" if false else ""
        wins = f"{int((gain < 0.0).sum())} of {len(gain)}"
        lines.append(f"| {method} | {ratio['worst']:.3f} | {ratio['mean']:.3f} | {wins} | {p:.3f} | {share} |")
    return "\n".join(lines)


def by_data(rows: list[dict[str, Any]]) -> str:
    """Return the worst-mix loss of drbo relative to that of each other method, per data set."""
    others = [method for method in dict.fromkeys(r["method"] for r in rows) if method != "drbo"]
    lines = ["| data | runs | " + " | ".join(others) + " |", "|---" * (len(others) + 2) + "|"]
    for name in dict.fromkeys(r["data"] for r in rows):
        worst = {(r["seed"], r["method"]): r["worst"] for r in rows if r["data"] == name}
        seeds = sorted({seed for seed, _ in worst})
        logs = [[math.log(worst[seed, "drbo"] / worst[seed, one]) for seed in seeds] for one in others]
        cells = [f"{math.exp(np.mean(ratio)):.2f} ({sum(r < 0.0 for r in ratio)})" for ratio in logs]
        lines.append(f"| {name} | {len(seeds)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--only-drbo", action="store_true", help="run drbo again, and keep the rows of the others")
    parser.add_argument("--default-width", action="store_true", help="leave out drbo with other widths of the bound")
    parser.add_argument("--out", type=Path, default=Path("out/model_selection.json"))
    own = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(own.out.read_text()) if own.out.exists() else []
    if own.only_drbo:
        rows = [r for r in rows if not r["method"].startswith("drbo") or r["candidates"] != own.candidates]
    done = {(r["data"], r["seed"], r["candidates"]) for r in rows if r["method"].startswith("drbo")}
    own.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(own.first, own.first + own.seeds):
        for name in own.data:
            if (name, seed, own.candidates) in done:
                continue
            start = time.perf_counter()
            rows += run(name, own.candidates, seed, own.only_drbo, not own.default_width)
            own.out.write_text(json.dumps(rows))
            print(f"{name}, seed {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    chosen_rows = [r for r in rows if r["candidates"] == own.candidates]
    print(table(chosen_rows), by_data(chosen_rows), sep="\n\n")


if __name__ == "__main__":
    main()
