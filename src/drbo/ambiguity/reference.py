"""Nature's side of the game as the optimizer sees it: the atoms that contexts are made of, and the sets on them.

A finite set of contexts is its own atoms. Samples are compressed to atoms, anew whenever contexts observed since have
joined them. A box of contexts has well-spread points to begin with, and those that the adversary asked for since. In
each case the model's coordinates and the user's units meet here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drbo import validation
from drbo.ambiguity import MMD, AmbiguitySet
from drbo.kernels import RBF, Kernel
from drbo.spaces.box import Box, FiniteSet, Frame
from drbo.spaces.samples import Atoms, Samples, atoms_of
from drbo.validation import FloatArray

AmbiguityFactory = Callable[[FloatArray], AmbiguitySet]

SPREAD = 128
"""How many points of a box are atoms from the beginning."""
_FURTHER = 64
"""How many contexts that the adversary asked for are kept, the latest ones."""


class Conditions:
    """Contexts, their atoms and the ambiguity set on them.

    Attributes
    ----------
    space : the contexts as they were given, a `FiniteSet`, `Samples` or a `Box`
    range : the box in which the adversary may put mass anywhere, or None if the atoms are all there is
    given : the ambiguity set, or the function from atoms to one, or None for the default
    round : the samples that this round's reference is made of, if they are others than those of `space`
    further : (k, d) contexts that the adversary asked for; atoms without weight in the reference
    atoms : the atoms in the model's coordinates
    values : the same in the user's units, to be indexed by atom
    ambiguity : the family of sets on the atoms
    """

    def __init__(
        self,
        contexts: ArrayLike | Samples | Box,
        ambiguity: AmbiguitySet | AmbiguityFactory | None,
        unit_cube: bool,
        seed: int,
    ) -> None:
        if not (ambiguity is None or isinstance(ambiguity, AmbiguitySet) or callable(ambiguity)):
            raise TypeError(f"ambiguity must be an AmbiguitySet, or a function from contexts to one, got {ambiguity!r}")
        self.space = contexts if isinstance(contexts, Samples | Box) else FiniteSet("contexts", contexts)
        self._samples = Samples([], within=contexts, support=SPREAD) if isinstance(contexts, Box) else self.space
        self.range = self._samples.within if isinstance(self._samples, Samples) else None
        if self.range is not None and isinstance(ambiguity, AmbiguitySet) and ambiguity.n_contexts is not None:
            raise TypeError(
                f"ambiguity must be a function from contexts to a set where these have a range, got {ambiguity!r}: "
                "give drbo.Wasserstein itself, or functools.partial(drbo.MMD, kernel=...)"
            )
        self.given = ambiguity
        self.seed = seed
        self._frame = Frame.of(self.space, unit_cube) if isinstance(self.space, FiniteSet) else None
        self.round: Samples | None = None
        self.further = np.empty((0, self._samples.dimension if isinstance(self._samples, Samples) else 0))
        self.update([])

    def __len__(self) -> int:
        return len(self.atoms.points)

    @property
    def sampled(self) -> bool:
        """Whether contexts are points of a continuous space, and the atoms make up the reference themselves."""
        return isinstance(self._samples, Samples)

    @property
    def known(self) -> bool:
        """Whether there are samples that say how contexts are distributed."""
        return isinstance(self._samples, Samples) and len((self.round or self._samples).points) > 0

    def update(self, seen: Sequence[FloatArray]) -> None:
        """Make the atoms of the contexts given and, for samples, of those `seen` since."""
        self._base = self._new_atoms(np.array(seen))
        self._extend()

    def refer_to(self, samples: Samples | None) -> bool:
        """Take samples, in the units of the contexts, as the reference of this round; return whether that is new.

        None: those that the contexts were given as.
        """
        if samples is self.round:
            return False
        before, self.round = self.round, samples
        try:
            self.update([])
        except BaseException:  # also an interrupt: the atoms are still those of the round before
            self.round = before
            raise
        return True

    def add(self, further: FloatArray) -> None:
        """Make contexts (k, d) that the adversary asked for atoms, in place of the oldest of them."""
        self.further = validation.frozen(np.concatenate([self.further, further])[-_FURTHER:])
        self._extend()

    def family(self, points: FloatArray) -> AmbiguitySet:
        """Return the ambiguity set on contexts (n, d) in the model's coordinates."""
        if self.given is None:
            return MMD(points, _default_kernel(points.shape[1]))
        made = self.given if isinstance(self.given, AmbiguitySet) else self._made(points)
        if not isinstance(made, AmbiguitySet):
            raise TypeError(f"ambiguity must be a function that returns an AmbiguitySet, got {made!r} from it")
        if made.n_contexts not in (None, len(points)):
            raise ValueError(f"ambiguity is for {made.n_contexts} contexts, but there are {len(points)}")
        return made

    def locate(self, context: Any, context_index: int | None) -> tuple[FloatArray, int]:
        """Return the model's coordinates (d,) of an observed context, and its index in a finite set, otherwise -1."""
        if (context is None) == (context_index is None):
            raise TypeError("tell needs the observed context, either as context=c or as context_index=j")
        if isinstance(self.space, FiniteSet):
            if context_index is not None:
                j = self.space.check_index("context_index", context_index)
            else:
                j = self.space.index_of(context)
            return self.atoms.points[j], j
        if context is None:
            raise TypeError("context_index must not be given: contexts are no finite set, give context=c")
        assert isinstance(self._samples, Samples)
        return self._samples.encode("context", context), -1

    def encode(self, contexts: Any) -> FloatArray:
        """Return the model's coordinates (n, d) of contexts in the user's units; all of a finite set."""
        if isinstance(self.space, FiniteSet):
            return self.atoms.points
        assert isinstance(self._samples, Samples)
        return np.array([self._samples.encode("context", context) for context in contexts])

    def decode(self, point: FloatArray, index: int | None = None) -> Any:
        """Return a context in the user's units; one of a finite set by its index."""
        if isinstance(self.space, FiniteSet):
            return self.space.points[index]
        assert isinstance(self._samples, Samples)
        return self._samples.decode(point)

    def _extend(self) -> None:
        """Bring everything that depends on the atoms up to date."""
        self.atoms = self._base.and_also(self.further)
        if isinstance(self.space, FiniteSet):
            self.values: Any = self.space.points
        else:
            self.values = tuple(self.decode(point) for point in self.atoms.points)
        self.ambiguity = self.family(self.atoms.points)

    def _new_atoms(self, seen: FloatArray) -> Atoms:
        if isinstance(self._samples, Samples):
            return atoms_of(self._samples, seen, self._mmd_kernel(), self.seed, self.round)
        assert self._frame is not None
        assert isinstance(self.space, FiniteSet)
        points = validation.frozen(self._frame.scaled(self.space.points))
        return Atoms(points, np.full(len(points), 1.0 / len(points)), 0.0, np.empty(0, dtype=np.intp))

    def _made(self, points: FloatArray) -> Any:
        """Return what the given function makes of atoms."""
        assert callable(self.given)
        try:
            return self.given(points)
        except TypeError as error:
            raise TypeError(f"ambiguity must be a set, or a function from contexts to one; got {error}") from None

    def _mmd_kernel(self) -> Kernel | None:
        """Return the kernel in which samples are compressed, that of the MMD; None if the set is none."""
        assert isinstance(self._samples, Samples)
        made = self.given
        if made is not None and not isinstance(made, AmbiguitySet):
            made = self._made(np.random.default_rng(0).random((3, self._samples.dimension)))
            if isinstance(made, MMD) and made.kernel is not None:
                return made.kernel
        return _default_kernel(self._samples.dimension) if made is None or isinstance(made, MMD) else None


def _default_kernel(dimension: int) -> Kernel:
    """Return the kernel of the default MMD, on the unit cube; distances there grow as the root of the dimension."""
    return RBF(0.2 * np.sqrt(dimension))
