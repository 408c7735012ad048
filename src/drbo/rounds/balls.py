"""Which ball a round has: on atoms, on the samples that atoms stand for, or on a whole range."""

from __future__ import annotations

from drbo.ambiguity.contract import AmbiguitySet
from drbo.ambiguity.reference import Reference
from drbo.rounds.ball import Ball
from drbo.rounds.range import RangeBall
from drbo.rounds.represented import RepresentedBall
from drbo.spaces.box import Box
from drbo.spaces.space import Space


def make_ball(
    ambiguity: AmbiguitySet, reference: Reference, radius: float, space: Space, seed: int, box: Box | None
) -> Ball:
    """Return the ball of a round; `box` is the range of the contexts, if they have one."""
    if box is not None:
        return RangeBall(ambiguity, reference, radius, space, seed, box)
    kind = RepresentedBall if len(reference.represented) else Ball
    return kind(ambiguity, reference, radius, space, seed)
