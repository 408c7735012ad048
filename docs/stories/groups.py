"""A model tuned for other groups: the program of docs/stories/groups.md (needs scikit-learn)."""

import matplotlib.pyplot as plt
import numpy as np
from drawing import save
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error

import drbo
from drbo.integrations.sklearn import RobustSearchCV

data = load_diabetes(scaled=False)
X, y = data.data, data.target  # 442 patients; how far the disease has come after a year
age = X[:, data.feature_names.index("age")]
group = np.select([age < 40, age < 60], ["under 40", "40 to 59"], "60 and older")
rng = np.random.default_rng(0)

# Today's clinic has few old patients. Tomorrow's has many: a half of these rows is kept for it.
order = rng.permutation(len(y))
tomorrow, rest = order[:150], order[150:]
few = [i for i in rest if group[i] != "60 and older" or rng.random() < 0.35]
train = np.array(few)
print("patients to learn from:", {str(g): int((group[train] == g).sum()) for g in np.unique(group)})

search = RobustSearchCV(
    HistGradientBoostingRegressor(max_iter=60, random_state=0, loss="absolute_error"),
    {
        "learning_rate": drbo.Log(0.01, 0.5),
        "max_leaf_nodes": (2, 31),
        "min_samples_leaf": (3, 60),
        "l2_regularization": drbo.Log(1e-2, 100.0),
    },
    ambiguity=drbo.Shares({"60 and older": (0.0, 0.6)}),
    n_iter=30,
    scoring="neg_mean_absolute_error",
    cv=5,
    random_state=0,
)
search.fit(X[train], y[train], contexts=group[train])
print(search.summary())

plain = search.cv_results_["params"][int(np.argmax(search.cv_results_["mean_test_score"]))]
models = {"plain": search.estimator.set_params(**plain).fit(X[train], y[train]), "robust": search.best_estimator_}
print()
print("mean absolute error on 150 patients that no search has seen")
errors = {}
for name, model in models.items():
    errors[name] = {
        str(g): mean_absolute_error(y[some], model.predict(X[some]))
        for g in np.unique(group)
        for some in (tomorrow[group[tomorrow] == g],)
    }
    shares = {"60 and older": 0.6, "40 to 59": 0.25, "under 40": 0.15}
    aged = sum(share * errors[name][g] for g, share in shares.items())
    print(f"{name:7s}", {g: round(error, 1) for g, error in errors[name].items()}, f"aged clinic: {aged:.1f}")

figure, ax = plt.subplots(figsize=(7.0, 3.4))
for i, (name, by_group) in enumerate(errors.items()):
    ax.bar(np.arange(3) + 0.36 * i, by_group.values(), 0.34, label=f"{name} search", color=("#8a8f98", "#3b8fc4")[i])
ax.set_xticks(np.arange(3) + 0.18, list(errors["plain"]))
ax.set(ylabel="mean absolute error on new patients")
ax.legend(frameon=False, fontsize="small")
save(figure, "groups")
