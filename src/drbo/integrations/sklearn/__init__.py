"""Model selection in scikit-learn that survives a shift of the mix of groups; needs `pip install 'drbo[sklearn]'`."""

from drbo._messages import require

require("sklearn", "sklearn")
require("joblib", "sklearn")

from drbo.integrations.sklearn.robust_search import RobustSearchCV  # noqa: E402

__all__ = ["RobustSearchCV"]
