"""A function from contexts to an ambiguity set, as version 0.1 took it; to be removed in version 0.3.

`functools.partial(drbo.MMD, kernel=...)` and classes such as `drbo.Wasserstein` were functions from contexts in the
model's coordinates to a set. `drbo.MMD(kernel=...)` and `drbo.Wasserstein()` say the same in the user's units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity.contract import AmbiguitySet, Dual, WorstCase
from drbo.ambiguity.mmd import MMD
from drbo.kernels import Kernel
from drbo.spaces.space import Space
from drbo.validation import FloatArray

AmbiguityFunction = Callable[[FloatArray], AmbiguitySet]


class FunctionSet(AmbiguitySet):
    """The configuration of a set that a function makes of contexts in the model's coordinates.

    Attributes
    ----------
    function : from contexts (n, d) to a set on them
    """

    def __init__(self, function: AmbiguityFunction, space: Space) -> None:
        self.function = function
        self._space = space

    def __repr__(self) -> str:
        return f"FunctionSet({self.function!r})"

    def on(self, points: ArrayLike, scales: ArrayLike | None = None) -> AmbiguitySet:
        """Return the set that the function makes of the points (n, d)."""
        del scales
        coordinates = self._space.unmeasured(validation.points("points", points))
        return _Placed(self._made(coordinates).on(coordinates), self._space)

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel] | None:
        """Return the points in the model's coordinates and the kernel of the MMD, if the function makes one."""
        del scales
        coordinates = self._space.unmeasured(points)
        made = self._made(coordinates[:1])
        return (coordinates, made.kernel) if isinstance(made, MMD) and made.kernel is not None else None

    def _made(self, coordinates: FloatArray) -> AmbiguitySet:
        try:
            made: Any = self.function(coordinates)
        except TypeError as error:
            raise TypeError(f"ambiguity must be a set, or a function from contexts to one; got {error}") from None
        if not isinstance(made, AmbiguitySet):
            raise TypeError(f"ambiguity must be a function that returns an AmbiguitySet, got {made!r} from it")
        made.check_size(len(coordinates))
        return made

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        del p, q
        raise TypeError(f"{self!r} has no contexts yet: use .on(points)")

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        del values, reference, radius
        raise TypeError(f"{self!r} has no contexts yet: use .on(points)")


class _Placed(AmbiguitySet):
    """A set on contexts in the model's coordinates, asked in the user's units."""

    def __init__(self, made: AmbiguitySet, space: Space) -> None:
        self._made, self._space = made, space
        self.n_contexts = made.n_contexts
        self.has_radius, self.convex_in_radius = made.has_radius, made.convex_in_radius
        self.radius_power = made.radius_power

    def within(self, radius: float) -> str:
        """Return which distributions the set holds, in words."""
        return self._made.within(radius)

    @property
    def everything(self) -> str:
        """What the set holds from its diameter on, in words."""
        return self._made.everything

    def moved(self, reference: FloatArray, points: FloatArray) -> float | None:
        """Return how far the reference is from the same weights on moved contexts (n, d)."""
        return self._made.moved(reference, self._space.unmeasured(points))

    @property
    def scale(self) -> float:
        """The unit of the radius."""
        return self._made.scale

    def __repr__(self) -> str:
        return repr(self._made)

    def extended(self, further: FloatArray) -> _Placed:
        """Return the set on its contexts and further ones (k, d)."""
        return _Placed(self._made.extended(self._space.unmeasured(further)), self._space)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point, whose threshold takes points in the user's units."""
        dual = self._made.dual(values, reference, radius, worst)
        if dual is None:
            return None
        threshold, space = dual.threshold, self._space

        def measured(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = threshold(space.unmeasured(points), half / space.units)
            return level, slope / space.units

        return Dual(dual.bound, dual.share, measured)

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return the sensitivities of the set."""
        return self._made.slopes(values, reference, radius)

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return self._made.distance(p, q)

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return self._made._to_vertices(reference)

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        return self._made.diameter(reference, self._space.unmeasured(hull))

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        worst = self._made.certified(values, reference, radius)
        return worst.weights, worst.lower_bound
