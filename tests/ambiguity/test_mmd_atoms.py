import numpy as np
import pytest

from drbo.ambiguity._mmd_atoms import append, delete, split


@pytest.mark.parametrize("seed", range(5))
def test_what_is_updated_equals_what_is_computed_anew(seed: int) -> None:
    """After 40 changes of the active set: D = Q R, Q orthonormal, and the projection of the origin on the hull."""
    rng = np.random.default_rng(seed)
    n, r = 12, 9
    b = rng.normal(size=(n, r))
    active, lam = np.zeros(r + 2, dtype=np.int64), np.zeros(r + 2)
    Q, R = np.zeros((r + 2, r)), np.zeros((r + 2, r + 2))
    hull, point, rest, coordinates = np.zeros(r + 2), b[0].copy(), np.zeros(r), np.zeros(r + 2)
    size = 1
    for _ in range(40):
        outside = np.setdiff1d(np.arange(n), active[:size])
        if size < 3 or (size < r and rng.random() < 0.5):
            new = int(rng.choice(outside))
            norm = split(Q, size - 1, b[new], b[active[0]], rest, coordinates)
            append(Q, R, size - 1, rest, coordinates, norm, hull, point)
            active[size] = new
            size += 1
        else:
            size = delete(Q, R, active, lam, size, int(rng.integers(size)), hull, point)
        k = size - 1
        differences = b[active[1:size]] - b[active[0]]
        np.testing.assert_allclose(Q[:k] @ Q[:k].T, np.eye(k), atol=1e-12)
        np.testing.assert_allclose(R[:k, :k].T @ Q[:k], differences, atol=1e-12)
        nearest = b[active[0]] - Q[:k].T @ (Q[:k] @ b[active[0]])
        np.testing.assert_allclose(point, nearest, atol=1e-12)
        np.testing.assert_allclose(hull[:k], Q[:k] @ b[active[0]], atol=1e-12)
