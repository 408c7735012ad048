"""The loop: ask, tell, recommend, and the history that it is made of."""

from drbo.optimizer.optimizer import Optimizer
from drbo.optimizer.suggestion import Prediction, Recommendation, Result, Suggestion

__all__ = ["Optimizer", "Prediction", "Recommendation", "Result", "Suggestion"]
