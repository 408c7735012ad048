"""Configuration, history, and the state derived from both."""

from drbo.knowledge.encoding import decode as from_json
from drbo.knowledge.encoding import encode as to_json
from drbo.knowledge.explanation import Explanation
from drbo.knowledge.suggestion import Prediction, Result, Suggestion

__all__ = ["Explanation", "Prediction", "Result", "Suggestion", "from_json", "to_json"]
