"""Queries on a snapshot: recommendations, their bounds, and the meaning of radii."""

from drbo.analysis.answers import (
    Classification,
    LimitBound,
    Probability,
    Recommendation,
    RegretBound,
    TargetRecommendation,
    ValueAtRisk,
)
from drbo.analysis.backtest import Backtest
from drbo.analysis.backtest_radius import RadiusBacktest
from drbo.analysis.checks import Comparison, LeaveOneOut, Narrowing
from drbo.analysis.edges import Edge
from drbo.analysis.profile import RadiusProfile
from drbo.analysis.radius_explanation import RadiusExplanation
from drbo.analysis.sensitivity import RadiusSensitivity
from drbo.analysis.trust import Check, Surprises, Trust
from drbo.analysis.watch import Watch

__all__ = [
    "Backtest",
    "Check",
    "Classification",
    "Comparison",
    "Edge",
    "LeaveOneOut",
    "LimitBound",
    "Narrowing",
    "Probability",
    "RadiusBacktest",
    "RadiusExplanation",
    "RadiusProfile",
    "RadiusSensitivity",
    "Recommendation",
    "RegretBound",
    "Surprises",
    "TargetRecommendation",
    "Trust",
    "ValueAtRisk",
    "Watch",
]
