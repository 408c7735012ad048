"""The maximum mean discrepancy ball: the paper's ambiguity set."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drbo import validation
from drbo._compiled import announce
from drbo.ambiguity._many_features import FEWEST, ManyFeatures
from drbo.ambiguity._mmd_atoms import embed
from drbo.ambiguity._mmd_solver import ROWS_ALONE, solve_batch, solve_sparse
from drbo.ambiguity.family import AmbiguitySet
from drbo.ambiguity.pivoted import GramEntries, KernelEntries, PivotedCholesky, factor_gram
from drbo.ambiguity.placed import EPSILON, NEXT, Dual, Growth, PlacedSet, Witness, WorstCase, peak
from drbo.kernels import RBF, Kernel
from drbo.validation import FloatArray

__all__ = ["MMD"]

LENGTHSCALE = 0.2
"""The default lengthscale per sqrt(d), as a share of each column's range."""
_Embedding = tuple[FloatArray, FloatArray, FloatArray]
_LEAST = 1e-6
"""The least radius of a sensitivity, in units of the largest sqrt(k_M(c, c))."""


class PlacedMMD(PlacedSet):
    """An MMD of a matrix M on n contexts; M = F F' up to rounding, with F (n, r) the `features`."""

    rows_alone = ROWS_ALONE
    n_contexts: int

    def __init__(self, factor: PivotedCholesky, features: FloatArray | None = None) -> None:
        self._factor = factor
        self.features = np.ascontiguousarray(factor.rows.T) if features is None else features
        self.n_contexts = len(self.features)
        # The unit is the largest sqrt(k_M(c, c)); if k_M >= 0, no distance exceeds sqrt(2) times this.
        largest = float(np.sqrt((self.features**2).sum(axis=1).max()))
        self.growth = Growth(convex=True, unit=largest, bounded=True)
        self._embedded: tuple[bytes, _Embedding] | None = None
        self._many: ManyFeatures | None = None

    def __repr__(self) -> str:
        return f"MMD({self.n_contexts} contexts, rank {self.features.shape[1]})"

    def words(self, radius: float) -> str:
        return f"within a maximum mean discrepancy (MMD) of {radius:.3g} of the reference"

    def slopes(self, values: FloatArray, reference: FloatArray, radius: float) -> FloatArray:
        """Return ||g|| (m,) of the dual point, a function of the context.

        The radius is at least 1e-6 of the largest sqrt(k_M(c, c)). At smaller radii a kernel hardly separates near
        contexts, and g would interpolate every value.
        """
        eps = max((1.0 + NEXT) * radius, _LEAST * self.growth.unit)
        weights = self.certified(values, reference, eps).weights
        lowest = values.min(axis=1, keepdims=True)
        rows = zip(values - lowest, weights - reference, strict=True)
        return np.array([math.prod(self._multiplier(v, reference, eps, shift)) for v, shift in rows])

    def _multiplier(
        self, v: FloatArray, reference: FloatArray, radius: float, shift: FloatArray
    ) -> tuple[float, float]:
        """Return the best s >= 0 of the dual points -s (w - p), and ||F'(w - p)||, for v (n,) and shift w - p (n,)."""
        embedded = shift @ self.features
        norm = float(np.linalg.norm(embedded))
        cost = 0.0 if norm == 0.0 else min(radius, 1e300) * norm  # eps ||g|| for s = 1; the radius may be infinite
        height = self.features @ embedded  # -g for s = 1
        height -= reference @ height

        def line(s: float) -> tuple[float, float]:
            prices = v + s * height
            i = int(np.argmin(prices))
            return float(prices[i]) - s * cost, float(height[i]) - cost

        at = int(np.argmin(height))
        return peak(line, (float(v[at]), float(height[at]) - cost)), norm

    def _distance(self, p: FloatArray, q: FloatArray) -> float:
        return float(np.linalg.norm((p - q) @ self.features))

    def _to_vertices(self, reference: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(self.features - reference @ self.features, axis=1))

    def _distances(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm((first - second) @ self.features, axis=1))

    def _between(self, first: NDArray[np.intp], second: NDArray[np.intp], n_contexts: int) -> FloatArray:
        del n_contexts
        return np.asarray(np.linalg.norm(self.features[first] - self.features[second], axis=1))

    def _solve(self, values: FloatArray, reference: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
        weights = np.empty_like(values)
        lower_bound = np.empty(len(values))
        if radius == 0.0:
            weights[:] = reference
            lower_bound[:] = math.inf  # the set is one point: its expectation is the bound
        else:
            announce(solve_sparse)  # which solve_batch calls
            # The embedding of the last reference is cached: a round uses it many times. No other query changes it.
            key, embedded = reference.tobytes(), self._embedded
            if embedded is None or embedded[0] != key:
                embedded = self._embedded = key, embed(reference, self.features)
            given = (reference, *embedded[1], min(radius, 1e300))
            if len(self._factor.pivots) < FEWEST:
                solve_batch(values, *given, weights, lower_bound)
            else:
                if self._many is None:
                    self._many = ManyFeatures(self.features, self._factor.pivots, self._factor.entries)
                self._many.solve(values, given, weights, lower_bound)
        return weights, lower_bound


class KernelMMD(PlacedMMD):
    """An MMD of a kernel k_M on `contexts` (n, d) in the units of the kernel."""

    def __init__(self, factor: PivotedCholesky, contexts: FloatArray, kernel: Kernel) -> None:
        super().__init__(factor)
        self.contexts, self.kernel = contexts, kernel

    @classmethod
    def of_kernel(cls, points: FloatArray, kernel: Kernel) -> Self:
        """Return the set on contexts (n, d) in the units of the kernel."""
        diagonal = np.full(len(points), kernel.variance)
        return cls(PivotedCholesky(KernelEntries(kernel, points), diagonal).complete(), points, kernel)

    def witness(self, reference: FloatArray, radius: float, arrived: FloatArray) -> Witness | None:
        """Return the witness function of the MMD, g = (m_arrived - m_p) / ||m_arrived - m_p||, of norm 1.

        E_q g <= E_p g + eps for every q of the set, and |g| <= sqrt(k_M(c, c)).
        """
        if not math.isfinite(radius):
            return None
        kernel, used = self.kernel, reference > 0.0
        p, atoms = reference[used], self.contexts[used]
        where = np.concatenate([arrived, atoms])
        a = np.concatenate([np.full(len(arrived), 1.0 / len(arrived)), -p])
        slopes = kernel(where, where) @ a
        norm = math.sqrt(max(float(a @ slopes), 0.0))
        if norm <= 1e-6 * math.sqrt(kernel.variance):  # the contexts that arrived are the reference, up to rounding
            return None

        def values(points: FloatArray) -> FloatArray:
            return np.asarray(kernel(points, where) @ a / norm)

        return Witness(values, float(p @ slopes[len(arrived) :]) / norm + radius, -math.sqrt(kernel.variance))

    def moved(self, reference: FloatArray, points: FloatArray) -> float:
        """Return the MMD of the reference from the same weights on moved contexts (n, d)."""
        used = reference > 0.0
        p, here, there = reference[used], self.contexts[used], points[used]
        both = np.concatenate([p, -p])
        where = np.concatenate([here, there])
        return math.sqrt(max(float(both @ self.kernel(where, where) @ both), 0.0))

    def shares_inside(self, reference: FloatArray, points: FloatArray, radius: float) -> tuple[float, float]:
        """Return the shares of the mass that may move: the distance is proportional to the share."""
        distance = self.moved(reference, points)
        return 0.0, 1.0 if distance <= radius else radius / distance

    def extended(self, further: FloatArray) -> Self:
        """Return the set with further contexts (k, d); the factor is kept and extended."""
        kernel, contexts = self.kernel, self.contexts
        points = validation.frozen(np.concatenate([contexts, further]))
        cross = kernel(contexts[self._factor.pivots], further)
        diagonal = np.full(len(further), kernel.variance)
        factor = self._factor.extended(KernelEntries(kernel, points), cross, diagonal)
        return type(self)(factor, points, kernel)

    def dual(self, values: FloatArray, reference: FloatArray, radius: float, worst: WorstCase) -> Dual | None:
        """Return the dual point a = -s (w - p), w the worst case, for the best s >= 0, with g(c) = sum_i a_i k(c_i, c).

        threshold(c) = b + g(c), b = min_i v_i - g(c_i). Within a cell g differs from its tangent by at most ||g|| times
        the kernel's `linear_error`.
        """
        if radius == 0.0:
            return None
        kernel, contexts = self.kernel, self.contexts
        lowest = float(values.min())
        v = values - lowest  # bounds are rounded relative to the range of the values
        shift = worst.weights - reference
        s, norm = self._multiplier(v, reference, radius, shift)
        cost = 0.0 if norm == 0.0 else min(radius, 1e300) * norm
        used = np.flatnonzero(shift)
        a = -s * shift[used]
        # The features lack the part that the factorisation left out, which matters for a tiny ||g||.
        missed = math.sqrt(2.0 * len(contexts) * EPSILON * kernel.variance) * float(np.abs(a).sum())

        def g(points: FloatArray) -> FloatArray:
            return np.asarray(kernel(points, contexts[used]) @ a)

        def threshold(points: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
            level, slope = lowest + (b + g(points)), np.zeros_like(points)
            if half.any():
                level += (s * norm + missed) * kernel.linear_error(half)
                slope = np.einsum("ijk,j->ik", kernel.gradient(points, contexts[used]), a)
            return level, slope

        on_contexts = g(contexts)
        b = float((v - on_contexts).min())
        bound = lowest + (b + float(reference @ on_contexts) - s * cost)
        return Dual(min(bound, float(worst.expectation)), 1.0, threshold)

    def _diameter_in(self, reference: FloatArray, hull: FloatArray) -> float:
        """Return sqrt(k_M(c, c)) + ||m_p||, an upper bound on distances to other contexts (triangle inequality)."""
        del hull
        return math.sqrt(self.kernel.variance) + float(np.linalg.norm(reference @ self.features))


class MMD(AmbiguitySet):
    r"""Distributions within a maximum mean discrepancy of the reference (eq. 5 and 6 of the paper).

    distance(p, q) = ||m_p - m_q|| = sqrt((p - q)' M (p - q)),  M_ij = k_M(c_i, c_j)

    worst case = min <w, v>  s.t.  w >= 0, sum w = 1, (w - p)' M (w - p) <= eps^2                              (eq. 8)

    certificate: for any a in R^n, with g = M a, no feasible w has an expectation below
    min_i (v_i - g_i) + <p, g> - eps sqrt(a' M a).

    The radius is in the scale of the kernel: with k_M <= 1 no distance exceeds sqrt(2). At radius 0 the set is the
    reference alone, by definition; at any larger radius mass moves freely between contexts that the kernel does not
    separate. The distance is computed as ||F'(p - q)|| from a factor M = F F', which is accurate to 1e-15; the
    quadratic form is accurate only to 1e-8. F F' differs from M by n 2.2e-16 max(M), so a distance may differ from the
    exact one by up to 1e-7.

    Parameters
    ----------
    contexts : (n, d) the contexts. Without them an optimizer places the set on its own contexts
    kernel : the kernel k_M, in the units of the contexts; not the kernel of the Gaussian process. By default an RBF of
        lengthscale 0.2 sqrt(d) of each column's range
    gram : (n, n) the matrix M itself instead of both, symmetric and positive semi-definite
    """

    growth = Growth(convex=True)

    def __init__(
        self, contexts: ArrayLike | None = None, kernel: Kernel | None = None, *, gram: ArrayLike | None = None
    ) -> None:
        validation.of_kind("kernel", kernel, (Kernel, type(None)), "a kernel such as RBF(0.1)")
        if gram is not None and (contexts is not None or kernel is not None):
            raise TypeError("gram must be given alone: it replaces contexts and kernel")
        self.kernel = kernel
        self._placed: PlacedMMD | None = None
        if gram is not None:
            self._placed = PlacedMMD(factor_gram(validation.finite_array("gram", gram, ndim=2)))
        elif contexts is not None:
            points = validation.frozen(validation.points("contexts", contexts))
            span = np.ptp(points, axis=0)
            self._placed = self._place(points, np.where(span > 0.0, span, 1.0))
            self.kernel = self._placed.kernel

    @classmethod
    def of_features(cls, features: ArrayLike) -> Self:
        """Return the MMD of the matrix M = F F' for features F (n, r), used as they are."""
        F = validation.finite_array("features", features, ndim=2)
        if 0 in F.shape:
            raise ValueError(f"features must have at least one row and one column, got shape {F.shape}")
        made = cls()
        factor = PivotedCholesky(GramEntries(F @ F.T), np.zeros(len(F)))
        made._placed = PlacedMMD(factor, validation.frozen(F))
        return made

    @classmethod
    def from_arguments(cls, **arguments: Any) -> Self:
        """Return the set that `arguments` describes."""
        return cls.of_features(arguments["features"]) if "features" in arguments else cls(**arguments)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for `from_arguments`."""
        placed = self._placed
        if placed is None or isinstance(placed, KernelMMD):
            return {"contexts": None if placed is None else placed.contexts, "kernel": self.kernel}
        return {"features": placed.features}

    def __repr__(self) -> str:
        return f"MMD(kernel={self.kernel!r})" if self._placed is None else repr(self._placed)

    @property
    def placed(self) -> PlacedMMD:
        """The set on the contexts given to the constructor; its `features` are the factor F (n, r) of M = F F'."""
        placed = super().placed
        assert isinstance(placed, PlacedMMD)
        return placed

    def among(self, rows: NDArray[np.intp]) -> MMD:
        """Return the family for some of its contexts (k,); this family if it was constructed without contexts."""
        if self._placed is None or len(rows) == self.n_contexts:
            return self
        if isinstance(self._placed, KernelMMD):
            return MMD(self._placed.contexts[rows], self.kernel)
        return MMD.of_features(self._placed.features[rows])

    def compression(self, points: FloatArray, scales: FloatArray) -> tuple[FloatArray, Kernel]:
        return points, self._kernel_for(scales)

    def _place(self, points: FloatArray, scales: FloatArray) -> KernelMMD:
        return KernelMMD.of_kernel(points, self._kernel_for(scales))

    def _kernel_for(self, scales: FloatArray) -> Kernel:
        """Return the given kernel, or the default: an RBF of 0.2 sqrt(d) of each column's range."""
        if self.kernel is not None:
            return self.kernel
        return RBF((LENGTHSCALE * math.sqrt(len(scales)) * scales).tolist())
