"""What is chosen from: values of the user <-> coordinates of the model."""

from drbo.spaces.box import Box
from drbo.spaces.choices import Categorical, Ordinal
from drbo.spaces.finite import FiniteSet
from drbo.spaces.labels import Labels
from drbo.spaces.parameters import Integer, Log, Parameter, Real
from drbo.spaces.perturbation import Normal, Perturbation, Uniform
from drbo.spaces.samples import Samples
from drbo.spaces.space import Point, Space

__all__ = [
    "Box",
    "Categorical",
    "FiniteSet",
    "Integer",
    "Labels",
    "Log",
    "Normal",
    "Ordinal",
    "Parameter",
    "Perturbation",
    "Point",
    "Real",
    "Samples",
    "Space",
    "Uniform",
]
