"""Worst cases over ambiguity sets inside BoTorch, and BoTorch models inside drbo; needs `pip install 'drbo[botorch]'`.

`RobustUpperConfidenceBound` is an acquisition function, `RobustExpectation` a risk measure for BoTorch's samples,
`RobustOutcomes` a model of worst cases with limits, and `TorchSurrogate` a model of f for `drbo.Optimizer`.
"""

from drbo._messages import require

for package in ("torch", "botorch"):
    require(package, "botorch")  # if it is missing, the error says what to install

from drbo.integrations.botorch.acquisition import (  # noqa: E402
    RobustExpectation,
    RobustUpperConfidenceBound,
    WorstCaseExpectation,
)
from drbo.integrations.botorch.robust_outcomes import RobustOutcomes  # noqa: E402
from drbo.integrations.botorch.torch_surrogate import SingleTask, TorchFit, TorchSurrogate  # noqa: E402

__all__ = [
    "RobustExpectation",
    "RobustOutcomes",
    "RobustUpperConfidenceBound",
    "SingleTask",
    "TorchFit",
    "TorchSurrogate",
    "WorstCaseExpectation",
]
