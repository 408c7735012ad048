"""The loop: ask, tell, recommend, and the history that it is made of."""

from drbo.optimizer.checks import Comparison, LeaveOneOut, Narrowing
from drbo.optimizer.encoding import decode as from_json
from drbo.optimizer.encoding import encode as to_json
from drbo.optimizer.explanation import Explanation
from drbo.optimizer.optimizer import Optimizer
from drbo.optimizer.parallel import run
from drbo.optimizer.probabilities import Classification, Probability, ValueAtRisk
from drbo.optimizer.suggestion import (
    NotCertifiedError,
    Prediction,
    Recommendation,
    RegretBound,
    Result,
    Suggestion,
    TargetRecommendation,
)

__all__ = [
    "Classification",
    "Comparison",
    "Explanation",
    "LeaveOneOut",
    "Narrowing",
    "NotCertifiedError",
    "Optimizer",
    "Prediction",
    "Probability",
    "Recommendation",
    "RegretBound",
    "Result",
    "Suggestion",
    "TargetRecommendation",
    "ValueAtRisk",
    "from_json",
    "run",
    "to_json",
]
