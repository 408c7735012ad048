"""What nature may do: ambiguity sets, and the worst distribution within a radius of a reference."""

from drbo.ambiguity.contract import Dual, WorstCase, WorstCaseError

__all__ = ["Dual", "WorstCase", "WorstCaseError"]
