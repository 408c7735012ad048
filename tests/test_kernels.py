"""Every kernel through one contract: the literal formula, symmetry, positive semi-definiteness, scales."""

import math

import numpy as np
import pytest

from drbo import RBF, Matern, Product
from drbo.kernels import Kernel
from tolerances import CLOSED_FORM, FINITE_DIFFERENCES

KERNELS: list[Kernel] = [RBF(0.3), RBF((0.3, 2.0), 0.7), Matern(0.3, nu=1.5), Matern((0.5, 0.1), 1.5, nu=2.5)]


def literal(kernel: Kernel, a: np.ndarray, b: np.ndarray) -> float:
    """Evaluate the formula in the docstring, point by point."""
    assert isinstance(kernel, RBF | Matern)
    scales = np.broadcast_to(kernel.lengthscale, 2)
    r = math.sqrt(sum(((x - y) / s) ** 2 for x, y, s in zip(a, b, scales, strict=True)))
    if isinstance(kernel, RBF):
        return kernel.amplitude**2 * math.exp(-(r**2) / 2)
    if kernel.nu == 1.5:
        return kernel.amplitude**2 * (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    return kernel.amplitude**2 * (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_contract(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 2)), rng.random((4, 2))
    k = kernel(a, b)
    assert k.shape == (6, 4)
    expected = [[literal(kernel, x, y) for y in b] for x in a]
    np.testing.assert_allclose(k, expected, atol=CLOSED_FORM)
    gram = kernel(a, a)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(np.diag(gram), kernel.variance, atol=CLOSED_FORM)
    assert np.linalg.eigvalsh(gram).min() > -CLOSED_FORM


@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=1.5), Matern(nu=2.5)], ids=repr)
def test_the_shape_is_the_formula_as_numbers(kernel: RBF | Matern) -> None:
    r2, shape = np.linspace(0.0, 9.0, 12), kernel.shape
    s = np.sqrt(shape.factor * r2) if shape.rooted else shape.factor * r2
    value, slope = (np.polyval(part[::-1], s) * np.exp(-s) for part in (shape.value, shape.slope))
    np.testing.assert_allclose(value, kernel.correlation(r2), rtol=CLOSED_FORM)
    np.testing.assert_array_equal(kernel.with_slope(r2)[0], kernel.correlation(r2))
    np.testing.assert_allclose(slope, kernel.with_slope(r2)[1], rtol=CLOSED_FORM)


def test_equal_points_have_exactly_the_variance() -> None:
    point = np.array([[1e6 + 0.1, -3.3]])
    assert RBF(0.1)(point, point)[0, 0] == 1.0


def test_a_lengthscale_per_dimension_rescales_the_axes() -> None:
    a, b = np.array([[0.2, 0.9]]), np.array([[0.5, 0.1]])
    scales = np.array([0.3, 2.0])
    np.testing.assert_allclose(RBF((0.3, 2.0))(a, b), RBF(1.0)(a / scales, b / scales), atol=CLOSED_FORM)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), "lengthscale must be positive"),
        (lambda: RBF((0.1, -1.0)), "lengthscale must be positive"),
        (lambda: RBF(float("nan")), "lengthscale must be finite"),
        (lambda: RBF(0.1, amplitude=0.0), "amplitude must be positive"),
        (lambda: Matern(0.1, nu=0.5), "nu must be 1.5 or 2.5"),
        (lambda: RBF(1e-200), "lengthscale must be from 1e-100 to 1e100"),
        (lambda: RBF(0.1, 1e200), "amplitude must be from 1e-100 to 1e100"),
    ],
)
def test_bad_parameters(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_wrong_number_of_lengthscales() -> None:
    with pytest.raises(ValueError, match=r"lengthscale has 2 entries, but the points have 3"):
        RBF((0.1, 0.2))(np.zeros((1, 3)), np.zeros((1, 3)))


def test_product_needs_kernels() -> None:
    with pytest.raises(TypeError, match="context must be a kernel"):
        Product(RBF(0.1), 0.2)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradient_by_finite_differences(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(2), np.concatenate([rng.random((5, 2)), np.zeros((1, 2))])
    b[-1] = a  # at the point itself the gradient is zero
    gradient = kernel.gradient(a[None], b)[0]
    for i in range(2):
        step = np.eye(2)[i] * 1e-6
        difference = (kernel((a + step)[None], b) - kernel((a - step)[None], b))[0] / 2e-6
        np.testing.assert_allclose(gradient[:, i], difference, atol=FINITE_DIFFERENCES)
    assert (gradient[-1] == 0.0).all()


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(0.3), RBF((0.3, 2.0))], ids=repr)
def test_points_of_any_kind_and_points_that_do_not_fit(kernel: Kernel) -> None:
    a = np.array([[0, 1], [2, 3], [4, 5]])
    b = a[::2, ::-1] / 7.0  # neither contiguous nor of the same type
    expected = [[literal(kernel, x, y) for y in b] for x in a]
    np.testing.assert_allclose(kernel(a, b), expected, atol=CLOSED_FORM)
    assert kernel(a[:0], b).shape == (0, 2)
    for wrong in (b[:, :1], b[0], b[None]):
        with pytest.raises(ValueError, match=r"points must have the shapes \(n, d\) and \(m, d\)"):
            kernel(a, wrong)
