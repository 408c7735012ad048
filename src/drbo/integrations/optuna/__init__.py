"""An Optuna sampler for parameters that are robust to changing conditions; needs `pip install 'drbo[optuna]'`.

`study.best_trial` is the trial with the luckiest conditions. `get_robust_trial(study)` and `get_robust_params(study)`
are its robust counterparts, and `sampler.recommend(study)` gives the bound.
"""

from drbo._messages import require

require("optuna", "optuna")

from drbo.integrations.optuna.retrying import RetryingStorage  # noqa: E402
from drbo.integrations.optuna.robust_sampler import RobustSampler  # noqa: E402
from drbo.integrations.optuna.search_spaces import Levels  # noqa: E402
from drbo.integrations.optuna.studies import (  # noqa: E402
    get_robust_params,
    get_robust_trial,
    observe,
    plot_bounds,
    plot_radii,
    plot_worst_case,
)

__all__ = [
    "Levels",
    "RetryingStorage",
    "RobustSampler",
    "get_robust_params",
    "get_robust_trial",
    "observe",
    "plot_bounds",
    "plot_radii",
    "plot_worst_case",
]
