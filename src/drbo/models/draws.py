"""One draw of f from its posterior: a function of action and context, with a gradient, to be maximised like a bound.

A draw of the prior is a sum of products of features with standard normal weights E. Matheron's rule (Wilson et al.,
ICML 2020) turns it into a draw of the posterior:

    f_0(x, c) = phi_X(x)' E phi_C(c)
    f(z)      = f_0(z) + k(z, Z) (K_t + N)^-1 (y - f_0(Z) - e),     e ~ N(0, N), the errors of the outcomes y at Z

The update is exact for any features. With exact features (`Anchored`) the draw is exact. With random frequencies
(`Fourier`) a draw has the mean and covariance of the posterior, since both are linear in the covariance of f_0, which
is exact on average over the frequencies. Given its frequencies, a draw has another covariance. No matrix of the size of
n_actions x n_contexts points is ever factorised.

Features phi of a kernel k are functions for which phi(a)'phi(b) is k(a, b), exactly or on average:

    Anchored   exact at the points of a finite set, up to the rounding of a Cholesky factor
    Fourier    anywhere: cosines and sines of random frequencies; equal to the kernel on average over the frequencies

Features (r, m) of points (m, d) have one row per feature. Their slopes are (r, m, d).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from drbo.kernels import Kernel
from drbo.models.curve import Embedding
from drbo.models.surrogate import Values
from drbo.spaces.space import Point
from drbo.validation import FloatArray

EXACT = 2048
"""Largest number of actions, and of contexts, with exact draws; larger sets use Fourier features."""
FREQUENCIES = 512
"""Number of random frequencies per draw where points may lie anywhere."""


class Functions(Protocol):
    """Functions of a point: features, or the kernel with the observations (`Embedding`)."""

    def __call__(self, points: FloatArray, /) -> FloatArray:
        """Return r functions (r, m) of points (m, d)."""

    def slope(self, points: FloatArray, /) -> FloatArray:
        """Return the gradients (r, m, d) of the functions at points (m, d)."""


class Features(Functions, Protocol):
    """Features of points: a draw of the prior is their sum with standard normal weights."""

    complete: ClassVar[bool]
    """Whether a sum of the features is the whole draw everywhere, not only at some points."""

    @property
    def count(self) -> int:
        """The number of features, r."""

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return the covariance (t, t) of draws at the observations `seen`; features may explain only a part of it."""


class Anchored:
    """Features phi(a) = L^-1 k(P, a), L L' = k(P, P), for pivots P among some points.

    The pivoted Cholesky factorisation stops when the pivots determine the remaining points to rounding. The kernel of
    the points may therefore be singular, for instance if a point is repeated. Then phi(a)'phi(b) = k(a, b) at all of
    the points. Elsewhere a sum of the features is the mean given its values at the points.
    """

    complete: ClassVar[bool] = False

    def __init__(self, kernel: Kernel, points: FloatArray) -> None:
        self._kernel = kernel
        distinct = np.unique(points, axis=0)
        factor, order, rank, _ = lapack.dpstrf(kernel(distinct, distinct), lower=1)
        self._pivots = distinct[order[:rank] - 1]
        self._L = factor[:rank, :rank]

    @property
    def count(self) -> int:
        """The rank of the kernel of the points."""
        return len(self._L)

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return the kernel (t, t) of the observations `seen`."""
        return seen.gram()

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the features (r, m) of points (m, d)."""
        return self._solve(self._kernel(self._pivots, points))

    def slope(self, points: FloatArray) -> FloatArray:
        """Return the gradients (r, m, d) of the features at points (m, d)."""
        k = self._kernel.gradient(points, self._pivots).transpose(1, 0, 2)
        return self._solve(k.reshape(len(k), -1)).reshape(k.shape)

    def _solve(self, columns: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self._L, columns, lower=True, check_finite=False))


class Fourier:
    """Features sqrt(variance / F) (cos w_1'a, .., cos w_F'a, sin w_1'a, .., sin w_F'a) of F random frequencies w.

    On average over the frequencies phi(a)'phi(b) = k(a, b). The standard deviation of the difference is at most
    variance / sqrt(2 F) at any pair of points (Rahimi and Recht, NeurIPS 2007).
    """

    complete: ClassVar[bool] = True

    def __init__(self, kernel: Kernel, dimension: int, rng: np.random.Generator) -> None:
        self._w = kernel.frequencies(rng, FREQUENCIES, dimension)
        self._scale = math.sqrt(kernel.variance / FREQUENCIES)

    @property
    def count(self) -> int:
        """Twice the number of frequencies."""
        return 2 * len(self._w)

    def covariance(self, seen: Embedding) -> FloatArray:
        """Return phi'phi (t, t) of the observations `seen`, given the frequencies."""
        phi = seen.through(self)
        return np.asarray(phi.T @ phi)

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the features (2 F, m) of points (m, d)."""
        angle = self._w @ points.T
        return np.concatenate([np.cos(angle), np.sin(angle)]) * self._scale

    def slope(self, points: FloatArray) -> FloatArray:
        """Return the gradients (2 F, m, d) of the features at points (m, d)."""
        cosine, sine = np.split(self(points), 2)
        slopes = np.concatenate([-sine, cosine])[:, :, None] * np.concatenate([self._w, self._w])[:, None, :]
        return np.asarray(slopes)

    def moved(self, weights: FloatArray, steps: FloatArray) -> FloatArray:
        """Return weights W (2 F, n) with W'phi(a) = `weights`'phi(a + step), for steps (n, d).

        cos(w'(a + s)) = cos w'a cos w's - sin w'a sin w's, and likewise for the sine.
        """
        angle = self._w @ steps.T
        cosine, sine = np.cos(angle), np.sin(angle)
        a, b = (part[:, None] for part in np.split(weights, 2))
        return np.concatenate([a * cosine + b * sine, b * cosine - a * sine])


def features_of(kernel: Kernel, points: FloatArray, rng: np.random.Generator, *, anywhere: bool) -> Features:
    """Return features for points (m, d): exact, unless points may lie `anywhere` or are too many."""
    return Fourier(kernel, points.shape[1], rng) if anywhere or len(points) > EXACT else Anchored(kernel, points)


def check_features(kernel: Kernel, points: FloatArray, *, anywhere: bool) -> None:
    """Raise the kernel's error if the kernel has no features for points (m, d)."""
    if anywhere or len(points) > EXACT:
        kernel.frequencies(np.random.default_rng(0), 1, points.shape[1])


@dataclass(frozen=True, eq=False)
class PathTerm:
    """A part of a draw: left(x)' M right(c), with weights M (r, s), or its diagonal (r,), for one or several draws."""

    left: Functions
    weights: FloatArray
    right: Functions
    diagonal: bool = False

    def in_contexts(self, contexts: FloatArray) -> FloatArray:
        """Return M right(c), (..., r, n), for contexts (n, d_c)."""
        right = self.right(contexts)
        return np.asarray(self.weights[..., :, None] * right if self.diagonal else self.weights @ right)

    def of_action(self, action: FloatArray) -> FloatArray:
        """Return left(x)' M, (s,), of one action (d_x,); for one draw."""
        left = self.left(action[None, :])[:, 0]
        return np.asarray(left * self.weights if self.diagonal else left @ self.weights)


@dataclass(frozen=True, eq=False)
class Prior(PathTerm):
    """A draw of the prior, or several: features with standard normal weights."""

    left: Features
    right: Features

    @classmethod
    def drawn(cls, rng: np.random.Generator, left: Features, right: Features, shape: tuple[int, ...] = ()) -> Self:
        """Return one draw, or draws of this `shape`."""
        return cls(left, rng.standard_normal((*shape, left.count, right.count)), right)

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading axes of several draws; empty for one draw."""
        return self.weights.shape[:-2]

    def at_pairs(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the values (..., t) at t pairs of an action and a context, whose features are (r, t) and (s, t)."""
        return np.asarray((self.weights @ right * left).sum(axis=-2))


@dataclass(frozen=True, eq=False)
class Path:
    """A draw of f, or several, as a function of action and context: a sum of terms."""

    terms: tuple[PathTerm, ...]

    def values(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return the draw (..., m, n) at actions (m, d_x) in contexts (n, d_c)."""
        return _summed(self.terms, [term.in_contexts(contexts) for term in self.terms], actions)

    def curve(self, action: FloatArray) -> Values:
        """Return one draw for one action (d_x,) as a function of contexts (m, d_c), (m,)."""
        parts = [(term.of_action(action), term.right) for term in self.terms]
        return lambda contexts: np.asarray(sum(weights @ right(contexts) for weights, right in parts))


def _summed(terms: Sequence[PathTerm], by_term: Sequence[FloatArray], actions: FloatArray) -> FloatArray:
    """Return sum left(x)' B over terms and their matrices B (..., r, n), (..., m, n), at actions (m, d_x)."""
    return np.asarray(sum(term.left(actions).T @ part for term, part in zip(terms, by_term, strict=True)))


@dataclass(frozen=True, eq=False)
class DrawnErrors:
    """The errors of observations: deviations (t,), and a shock shared by the errors of one evaluation.

    Attributes
    ----------
    deviations : (t,)
    first : (t,) for each observation the first one of the same evaluation
    correlation : of two errors of one evaluation
    mixing : (m, m) the first m errors are this times independent ones of variance 1; None if all are as above
    """

    deviations: FloatArray
    first: NDArray[np.intp]
    correlation: float
    mixing: FloatArray | None = None

    def drawn(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Return draws of the errors, (*shape, t)."""
        own, shocks = rng.standard_normal((2, *shape, len(self.first)))
        mixed = math.sqrt(1.0 - self.correlation) * own + math.sqrt(self.correlation) * shocks[..., self.first]
        found = np.asarray(mixed * self.deviations)
        if self.mixing is not None:
            m = len(self.mixing)
            found[..., :m] = own[..., :m] @ self.mixing.T
        return found


@dataclass(frozen=True, eq=False)
class Matheron:
    """Matheron's rule for t observations with errors of covariance N: U'U = K_t + N (t, t), white = U'^-1 y (t,)."""

    seen: Embedding
    contexts: Embedding
    U: FloatArray
    white: FloatArray
    errors: DrawnErrors

    def path(self, prior: Prior, rng: np.random.Generator) -> Path:
        """Return draws of the posterior, from draws of the prior."""
        drawn = self.values(prior, rng) + self.errors.drawn(rng, prior.shape)
        return Path((prior, self.update(drawn)))

    def update(self, drawn: FloatArray) -> PathTerm:
        """Return k(z, Z) (K_t + N)^-1 (y - drawn) for outcomes (..., t) drawn from the prior."""
        weights = drawn
        if drawn.size:
            rows = drawn.reshape(-1, len(self.white))
            left = self.white[:, None] - solve_triangular(self.U, rows.T, trans="T", check_finite=False)
            weights = solve_triangular(self.U, left, check_finite=False).T.reshape(drawn.shape)
        return PathTerm(self.seen, weights, self.contexts, diagonal=True)

    def values(self, prior: Prior, rng: np.random.Generator) -> FloatArray:
        """Return draws of the prior at the observations, without errors, (..., t).

        Features that are exact at some points explain only part of f elsewhere. The rest is drawn here: its covariance
        is that of the observations minus the part explained by the features.
        """
        phi, psi = self.seen.through(prior.left), self.contexts.through(prior.right)
        drawn = prior.at_pairs(phi, psi)
        if prior.left.complete and prior.right.complete:
            return drawn
        whole = prior.left.covariance(self.seen) * prior.right.covariance(self.contexts)
        rest = whole - (phi.T @ phi) * (psi.T @ psi)
        least = len(whole) * np.finfo(float).eps * whole.diagonal().max(initial=0.0)
        if rest.diagonal().max(initial=0.0) <= least:
            return drawn
        factor, order, rank, _ = lapack.dpstrf(rest, lower=1, tol=least)
        own = np.empty_like(drawn)
        own[..., order - 1] = rng.standard_normal((*prior.shape, rank)) @ np.tril(factor)[:, :rank].T
        return np.asarray(drawn + own)


@dataclass(frozen=True, eq=False)
class DrawOfRound(ABC):
    """One draw of f in the contexts of a round, with the methods of `Bound`.

    Attributes
    ----------
    amplitude : the prior standard deviation of f
    actions : (n_actions, d_x) the grid of actions; no row where they may lie anywhere
    contexts : (n, d_c)
    """

    amplitude: float
    actions: FloatArray
    contexts: FloatArray

    def on(self, contexts: FloatArray) -> Self:
        """Return the same draw in other contexts (n, d_c)."""
        return replace(self, contexts=contexts)

    @cached_property
    def _grid(self) -> FloatArray:
        return self.at(self.actions)

    def on_grid(self, rows: NDArray[np.intp] | slice = slice(None), actions: FloatArray | None = None) -> FloatArray:
        """Return the draw for the actions `rows` of its grid, by default for all, in every context."""
        del actions
        return np.asarray(self._grid[rows])

    def of_action(self, action: Point) -> FloatArray:
        """Return the draw for one action in every context, (n_contexts,)."""
        return np.asarray(self.at(action.coordinates[None])[0] if action.index is None else self._grid[action.index])

    @abstractmethod
    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        """Return the draw (m, k) at actions (m, d_x) anywhere, in the contexts `used` (k,); by default in all."""


@dataclass(frozen=True, eq=False)
class Draw(DrawOfRound):
    """One draw of f(x, c), a sum of products."""

    path: Path

    @cached_property
    def _by_term(self) -> list[FloatArray]:
        return [term.in_contexts(self.contexts) for term in self.path.terms]

    def at(self, actions: FloatArray, used: NDArray[np.intp] | None = None) -> FloatArray:
        by_term = self._by_term if used is None else [part[..., used] for part in self._by_term]
        return _summed(self.path.terms, by_term, actions)

    def gradient(self, action: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in x of sum_j w_j f(x, c_j) at one action (d_x,), shape (d_x,)."""
        slopes = (term.left.slope(action[None, :])[:, 0] for term in self.path.terms)
        return np.asarray(sum((part @ weights) @ slope for part, slope in zip(self._by_term, slopes, strict=True)))

    def curve(self, action: FloatArray) -> Values:
        """Return the draw for one action (d_x,) as a function of the context."""
        return self.path.curve(action)

    def ceilings(self, actions: FloatArray, weights: FloatArray) -> FloatArray:
        """Return sum_j w_j f(x, c_j) (m,) at actions (m, d_x), for weights w (n_contexts,)."""
        return _summed(self.path.terms, [part @ weights for part in self._by_term], actions)
