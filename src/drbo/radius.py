"""Rules for the radius, and references made of samples."""

from drbo.contexts import nature as _nature
from drbo.contexts.nature import *  # noqa: F403  # all names of the module, by its __all__
from drbo.rounds import learned_radius as _learned_radius
from drbo.rounds import radius_rules as _radius_rules
from drbo.rounds.learned_radius import *  # noqa: F403  # all names of the module, by its __all__
from drbo.rounds.radius_rules import *  # noqa: F403  # all names of the module, by its __all__

__all__ = [*_nature.__all__, *_learned_radius.__all__, *_radius_rules.__all__]
