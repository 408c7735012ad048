"""Nature's side of the game as the optimizer sees it: the atoms that contexts are made of, and the sets on them.

A finite set of contexts is its own atoms. Samples are compressed to atoms, anew whenever contexts observed since have
joined them. Either way the model's coordinates and the user's units meet here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity import MMD, AmbiguitySet
from drbo.kernels import RBF, Kernel
from drbo.samples import Atoms, Samples, atoms_of
from drbo.space import Box, FiniteSet, Frame
from drbo.validation import FloatArray

AmbiguityFactory = Callable[[FloatArray], AmbiguitySet]


class Conditions:
    """Contexts, their atoms and the ambiguity set on them.

    Attributes
    ----------
    space : the contexts as they were given, a `FiniteSet` or `Samples`
    given : the ambiguity set, or the function from atoms to one, or None for the default
    atoms : the atoms in the model's coordinates
    values : the same in the user's units, to be indexed by atom
    ambiguity : the family of sets on the atoms
    """

    def __init__(
        self,
        contexts: ArrayLike | Samples,
        ambiguity: AmbiguitySet | AmbiguityFactory | None,
        unit_cube: bool,
        seed: int,
    ) -> None:
        if not (ambiguity is None or isinstance(ambiguity, AmbiguitySet) or callable(ambiguity)):
            raise TypeError(f"ambiguity must be an AmbiguitySet, or a function from contexts to one, got {ambiguity!r}")
        if isinstance(contexts, Box):
            raise TypeError("contexts must be points or Samples, got a Box: give Samples of past conditions, or a grid")
        self.space = contexts if isinstance(contexts, Samples) else FiniteSet("contexts", contexts)
        self.given = ambiguity
        self.seed = seed
        self._frame = Frame.of(self.space, unit_cube) if isinstance(self.space, FiniteSet) else None
        self.update([])
        if self.atoms.error > 0.0 and not isinstance(self.ambiguity, MMD):
            raise ValueError("ambiguity must be an MMD for compressed samples; or give Samples room: atoms=...")

    def __len__(self) -> int:
        return len(self.atoms.points)

    @property
    def sampled(self) -> bool:
        """Whether contexts are samples, whose distribution is the reference."""
        return isinstance(self.space, Samples)

    def update(self, seen: Sequence[FloatArray]) -> None:
        """Make the atoms of the contexts given and, for samples, of those `seen` since."""
        self.atoms = self._new_atoms(seen)
        self.values: Any = self.space.points if isinstance(self.space, FiniteSet) else None
        if isinstance(self.space, Samples):
            self.values = tuple(self.space.decode(point) for point in self.atoms.points)
        self.ambiguity = self._new_ambiguity()

    def locate(self, context: Any, context_index: int | None) -> tuple[FloatArray, int]:
        """Return the model's coordinates (d,) of an observed context, and its index in a finite set, otherwise -1."""
        if (context is None) == (context_index is None):
            raise TypeError("tell needs the observed context, either as context=c or as context_index=j")
        if isinstance(self.space, Samples):
            if context is None:
                raise TypeError("context_index must not be given: contexts are samples, give context=c")
            return self.space.encode("context", context), -1
        if context_index is not None:
            j = self.space.check_index("context_index", context_index)
        else:
            j = self.space.index_of(context)
        return self.atoms.points[j], j

    def _new_atoms(self, seen: Sequence[FloatArray]) -> Atoms:
        if isinstance(self.space, Samples):
            return atoms_of(self.space, np.array(seen), self._mmd_kernel(), self.seed)
        assert self._frame is not None
        points = validation.frozen(self._frame.scaled(self.space.points))
        return Atoms(points, np.full(len(points), 1.0 / len(points)), 0.0, np.empty(0, dtype=np.intp))

    def _new_ambiguity(self) -> AmbiguitySet:
        points = self.atoms.points
        if self.given is None:
            return MMD(points, _default_kernel(points.shape[1]))
        made = self.given if isinstance(self.given, AmbiguitySet) else self._made(points)
        if not isinstance(made, AmbiguitySet):
            raise TypeError(f"ambiguity must be a function that returns an AmbiguitySet, got {made!r} from it")
        if made.n_contexts not in (None, len(points)):
            raise ValueError(f"ambiguity is for {made.n_contexts} contexts, but there are {len(points)}")
        return made

    def _made(self, points: FloatArray) -> Any:
        """Return what the given function makes of atoms."""
        assert callable(self.given)
        try:
            return self.given(points)
        except TypeError as error:
            raise TypeError(f"ambiguity must be a set, or a function from contexts to one; got {error}") from None

    def _mmd_kernel(self) -> Kernel:
        """Return the kernel in which samples are compressed: that of the MMD, if the set is one."""
        assert isinstance(self.space, Samples)
        if self.given is not None and not isinstance(self.given, AmbiguitySet):
            probe = self._made(np.random.default_rng(0).random((3, self.space.dimension)))
            if isinstance(probe, MMD) and probe.kernel is not None:
                return probe.kernel
        return _default_kernel(self.space.dimension)


def _default_kernel(dimension: int) -> Kernel:
    """Return the kernel of the default MMD, on the unit cube; distances there grow as the root of the dimension."""
    return RBF(0.2 * np.sqrt(dimension))
