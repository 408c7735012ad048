"""Choose the hyper-parameters of a classifier that must serve old and young, though their mix will change."""

import sys

import numpy as np

import drbo


def patients(rows: int, old_share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return measurements, who falls ill, and the age group. The old need another rule than the young."""
    rng = np.random.default_rng(seed)
    old = rng.random(rows) < old_share
    X = np.column_stack([rng.normal(size=(rows, 4)), old + 0.3 * rng.normal(size=rows)])
    risk = np.where(old, 1.2 * X[:, 1] * X[:, 2], 1.5 * X[:, 0]) + 0.5 * rng.normal(size=rows)
    return X, (risk > 0).astype(int), np.where(old, "old", "young")


def main(candidates: int = 12) -> object:
    """Return the search; None if scikit-learn is not installed."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import log_loss

        from drbo.integrations.sklearn import RobustSearchCV
    except ImportError as error:
        print(error)
        return None
    X, y, age = patients(500, old_share=0.15, seed=0)
    search = RobustSearchCV(
        HistGradientBoostingClassifier(max_iter=40, random_state=0),
        {"learning_rate": drbo.Log(0.01, 1.0), "max_leaf_nodes": (2, 31), "l2_regularization": drbo.Log(1e-2, 100.0)},
        ambiguity=drbo.Shares(old=(0.1, 0.6)),  # today 15% of the patients are old; nobody knows how many will be
        n_iter=candidates,
        scoring="neg_log_loss",
        cv=4,
        random_state=0,
    )
    search.fit(X, y, contexts=age)
    print(search.summary())
    X, y, age = patients(2000, old_share=0.6, seed=1)  # years later
    print(f"log loss with 60% old: {log_loss(y, search.predict_proba(X)):.3f}")
    return search


if __name__ == "__main__":
    sys.exit(main() is None)
