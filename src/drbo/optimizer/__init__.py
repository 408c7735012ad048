"""The loop: ask, tell, recommend, and the history that it is made of."""

from drbo.analysis.answers import (
    Classification,
    NotCertifiedError,
    Probability,
    Recommendation,
    RegretBound,
    TargetRecommendation,
    ValueAtRisk,
)
from drbo.analysis.checks import Comparison, LeaveOneOut, Narrowing
from drbo.knowledge.encoding import decode as from_json
from drbo.knowledge.encoding import encode as to_json
from drbo.knowledge.explanation import Explanation
from drbo.knowledge.suggestion import Prediction, Result, Suggestion
from drbo.optimizer.optimizer import Optimizer
from drbo.optimizer.parallel import run

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
