"""BoTorch with ambiguity sets: against dense algebra and finite differences, and inside BoTorch's functions."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import drbo
from drbo.models import Data, Inputs, Observation, Outcomes, Posterior, Surrogate
from tolerances import FINITE_DIFFERENCES

torch = pytest.importorskip("torch", reason="torch is not installed: make botorch brings it")
pytest.importorskip("botorch", reason="botorch is not installed: make botorch brings it")

from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient  # noqa: E402
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement  # noqa: E402
from botorch.acquisition.monte_carlo import (  # noqa: E402
    qExpectedImprovement,
    qNoisyExpectedImprovement,
    qProbabilityOfImprovement,
)
from botorch.acquisition.objective import LinearMCObjective, ScalarizedPosteriorTransform  # noqa: E402
from botorch.acquisition.risk_measures import WorstCase  # noqa: E402
from botorch.exceptions import UnsupportedError  # noqa: E402
from botorch.models import SingleTaskGP  # noqa: E402
from botorch.models.transforms.input import AppendFeatures  # noqa: E402
from botorch.optim import optimize_acqf  # noqa: E402
from botorch.sampling.normal import SobolQMCNormalSampler  # noqa: E402
from gpytorch.kernels import RBFKernel  # noqa: E402
from gpytorch.means import ZeroMean  # noqa: E402

from drbo.integrations.botorch import (  # noqa: E402
    RobustExpectation,
    RobustOutcomes,
    RobustUpperConfidenceBound,
    SingleTask,
    TorchFit,
    TorchSurrogate,
    WorstCaseExpectation,
)

torch.set_num_threads(1)  # more threads only wait for one another on matrices of this size
pytestmark = pytest.mark.filterwarnings("ignore")  # what torch and BoTorch warn of is their own affair
CONTEXTS = np.linspace(0.0, 1.0, 7)[:, None]
REFERENCE = np.array([4.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]) / 16.0
SETS = [
    drbo.MMD(kernel=drbo.RBF(0.3)), drbo.MMD(), drbo.TotalVariation(), drbo.KL(), drbo.ChiSquare(), drbo.CVaR(),
    drbo.Wasserstein(), drbo.Expectation(),
]  # fmt: skip
LENGTHSCALES, NOISE = (0.3, 0.4), 0.1
BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def radius(ambiguity: drbo.AmbiguitySet) -> float:
    return 0.5 if isinstance(ambiguity, drbo.CVaR) else 0.2


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((12, 2))
    return X, np.sin(5.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + 0.05 * rng.normal(size=12)


def model(outputs: int = 1, append: bool = False) -> Any:
    """Return a GP with fixed hyper-parameters: the kernel and the noise of `by_drbo`."""
    X, y = (torch.tensor(part) for part in data())
    kernel = RBFKernel(ard_num_dims=2)
    kernel.lengthscale = torch.tensor(LENGTHSCALES)
    Y = torch.stack([y + k * X[:, 0] for k in range(outputs)], dim=-1)
    transform = AppendFeatures(torch.tensor(CONTEXTS)) if append else None
    found = SingleTaskGP(
        X, Y, torch.full_like(Y, NOISE**2), covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None,
        input_transform=transform,
    )  # fmt: skip
    return found.double().eval()


def by_drbo(ambiguity: drbo.AmbiguitySet, actions: Any, beta: float) -> Any:
    """Return the same numbers by dense algebra and drbo's kernels and sets, one action at a time."""
    X, y = data()
    kernel = drbo.Product(drbo.RBF(LENGTHSCALES[0]), drbo.RBF(LENGTHSCALES[1]))

    def k(a: Any, b: Any) -> Any:
        return kernel.action(a[:, :1], b[:, :1]) * kernel.context(a[:, 1:], b[:, 1:])

    placed, solved = ambiguity.on(CONTEXTS, [1.0]), np.linalg.inv(k(X, X) + NOISE**2 * np.eye(len(X)))
    values = []
    for x in actions:
        points = np.column_stack([np.full(len(CONTEXTS), x), CONTEXTS[:, 0]])
        across = k(points, X)
        mean = across @ solved @ y
        variance = np.diag(k(points, points) - across @ solved @ across.T)
        values.append(placed.worst_case(mean + beta * np.sqrt(variance), REFERENCE, radius(ambiguity)).expectation)
    return np.array(values)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("beta", [2.0, 0.0, -1.5])
def test_the_acquisition_function_is_the_worst_case_of_the_bound(ambiguity: drbo.AmbiguitySet, beta: float) -> None:
    acqf = RobustUpperConfidenceBound(
        model(), torch.tensor(CONTEXTS), ambiguity, torch.tensor(REFERENCE), radius(ambiguity), beta
    )
    x = np.linspace(0.0, 1.0, 9)
    found = acqf(torch.tensor(x)[:, None, None])
    assert found.shape == (9,)
    np.testing.assert_allclose(found.detach().numpy(), by_drbo(ambiguity, x, beta), rtol=1e-5, atol=1e-6)
    batched = acqf(torch.tensor(x).reshape(3, 3, 1, 1))
    np.testing.assert_allclose(batched.detach().numpy().ravel(), found.detach().numpy(), rtol=1e-8)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_gradients(ambiguity: drbo.AmbiguitySet) -> None:
    """Against finite differences, at values where the worst case is unique."""
    torch.manual_seed(0)
    worst = WorstCaseExpectation(CONTEXTS, ambiguity, REFERENCE, radius(ambiguity))
    values = torch.randn(2, 3, 7, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(worst, (values,), eps=1e-6, atol=1e-4, rtol=1e-4)
    acqf = RobustUpperConfidenceBound(model(), CONTEXTS, ambiguity, REFERENCE, radius(ambiguity))
    X = torch.tensor([[[0.13]], [[0.48]], [[0.91]]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(acqf, (X,), eps=1e-6, atol=1e-4, rtol=1e-4)


def test_a_second_derivative_is_refused() -> None:
    worst = WorstCaseExpectation(CONTEXTS, drbo.KL(), REFERENCE, 0.2)
    values = torch.randn(7, dtype=torch.double, requires_grad=True)
    (first,) = torch.autograd.grad(worst(values) ** 2, values, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("ambiguity", [drbo.MMD(kernel=drbo.RBF(0.3)), drbo.KL()], ids=repr)
def test_optimize_acqf_finds_the_best_action(ambiguity: drbo.AmbiguitySet) -> None:
    torch.manual_seed(0)
    acqf = RobustUpperConfidenceBound(model(), CONTEXTS, ambiguity, REFERENCE, radius(ambiguity))
    found, value = optimize_acqf(acqf, BOUNDS, q=1, num_restarts=4, raw_samples=32)
    grid = by_drbo(ambiguity, np.linspace(0.0, 1.0, 201), 2.0)
    assert value.item() >= grid.max() - 1e-4
    np.testing.assert_allclose(by_drbo(ambiguity, found.numpy().ravel(), 2.0), value.item(), rtol=1e-5)


def test_one_output_is_made_of_several_and_minimised() -> None:
    minimised = RobustUpperConfidenceBound(
        model(), CONTEXTS, drbo.TotalVariation(), REFERENCE, 0.2, 0.0,
        posterior_transform=ScalarizedPosteriorTransform(-torch.ones(1, dtype=torch.double)),
    )  # fmt: skip
    plain = RobustUpperConfidenceBound(model(), CONTEXTS, drbo.Expectation(), REFERENCE, beta=0.0)
    x = torch.tensor([[[0.3]]], dtype=torch.double)
    assert minimised(x).item() < -plain(x).item()
    with pytest.raises(UnsupportedError):
        RobustUpperConfidenceBound(model(outputs=2), CONTEXTS, drbo.KL())


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
def test_the_risk_measure_is_the_worst_case_of_each_sample(ambiguity: drbo.AmbiguitySet) -> None:
    torch.manual_seed(0)
    samples = torch.randn(4, 2, 3 * 7, 1, dtype=torch.double)
    found = RobustExpectation(CONTEXTS, ambiguity, REFERENCE, radius(ambiguity))(samples)
    assert found.shape == (4, 2, 3)
    placed = ambiguity.on(CONTEXTS, [1.0])
    for index in np.ndindex(4, 2, 3):
        rows = samples[index[0], index[1], 7 * index[2] : 7 * index[2] + 7, 0].numpy()
        expected = placed.worst_case(rows, REFERENCE, radius(ambiguity)).expectation
        assert found[index].item() == pytest.approx(float(expected), rel=1e-7, abs=1e-9)


def test_all_distributions_are_botorch_s_worst_case() -> None:
    torch.manual_seed(0)
    samples = torch.randn(4, 2 * 7, 1)
    found = RobustExpectation(CONTEXTS, drbo.TotalVariation(), radius=1.0)(samples)
    assert found.dtype == samples.dtype
    torch.testing.assert_close(found, WorstCase(n_w=7)(samples))


def test_several_outputs_are_scalarised_first() -> None:
    torch.manual_seed(0)
    samples = torch.randn(4, 2 * 7, 2, dtype=torch.double)
    weigh = LinearMCObjective(torch.tensor([0.3, 0.7], dtype=torch.double))
    found = RobustExpectation(CONTEXTS, drbo.KL(), REFERENCE, 0.2, preprocessing_function=weigh)(samples)
    alone = RobustExpectation(CONTEXTS, drbo.KL(), REFERENCE, 0.2)(weigh(samples).unsqueeze(-1))
    torch.testing.assert_close(found, alone)
    with pytest.raises(RuntimeError, match="preprocessing_function"):
        RobustExpectation(CONTEXTS, drbo.KL(), REFERENCE, 0.2)(samples)


@pytest.mark.parametrize("name", ["qNEI", "qLogNEI", "qKG", "two outputs"])
def test_monte_carlo_acquisition_functions(name: str) -> None:
    torch.manual_seed(0)
    fitted = model(outputs=2 if name == "two outputs" else 1, append=True)
    weigh = LinearMCObjective(torch.tensor([0.5, 0.5], dtype=torch.double)) if name == "two outputs" else None
    objective = RobustExpectation(CONTEXTS, drbo.MMD(), REFERENCE, 0.2, preprocessing_function=weigh)
    sampler, seen = SobolQMCNormalSampler(torch.Size([16]), seed=0), torch.tensor(data()[0][:5, :1])
    if name == "qKG":
        acqf = qMultiFidelityKnowledgeGradient(  # which action to evaluate next, and in which context
            fitted, num_fantasies=4, objective=objective, inner_sampler=sampler, project=lambda X: X[..., :1]
        )
        X = torch.rand(2, 1 + 4, 2, dtype=torch.double, requires_grad=True)
    else:
        kind = qLogNoisyExpectedImprovement if name == "qLogNEI" else qNoisyExpectedImprovement
        acqf = kind(fitted, X_baseline=seen, sampler=sampler, objective=objective, prune_baseline=False)
        X = torch.tensor([[[0.35], [0.8]], [[0.1], [0.4]]], dtype=torch.double, requires_grad=True)
    value = acqf(X)
    assert value.shape == (2,)
    assert torch.isfinite(value).all()
    (gradient,) = torch.autograd.grad(value.sum(), X)
    assert torch.isfinite(gradient).all()
    assert (gradient != 0).any()
    if name == "qLogNEI":
        found, _ = optimize_acqf(acqf, BOUNDS, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 10})
        assert 0.0 <= found.item() <= 1.0


def worst_cases(ambiguity: drbo.AmbiguitySet, size: float, limits: Any, samples: Any) -> Any:
    """Return what `RobustOutcomes` makes of samples (..., q n, m)."""
    return RobustOutcomes(model(outputs=2), CONTEXTS, ambiguity, REFERENCE, size, limits)._reduced(samples)


@pytest.mark.parametrize("ambiguity", SETS, ids=repr)
@pytest.mark.parametrize("kind", [drbo.AtMost, drbo.AtLeast])
def test_objective_and_limits_have_their_own_worst_cases(ambiguity: drbo.AmbiguitySet, kind: Any) -> None:
    torch.manual_seed(0)
    samples = torch.randn(4, 2, 3 * 7, 2, dtype=torch.double)
    found = worst_cases(ambiguity, radius(ambiguity), {1: kind(0.3)}, samples)
    assert found.shape == (4, 2, 3, 2)
    placed = ambiguity.on(CONTEXTS, [1.0])
    for index in np.ndindex(4, 2, 3):
        rows = samples[index[0], index[1], 7 * index[2] : 7 * index[2] + 7].numpy()
        for output, sign in ((0, 1.0), (1, kind.sign)):
            worst = sign * float(placed.worst_case(sign * rows[:, output], REFERENCE, radius(ambiguity)).expectation)
            assert found[(*index, output)].item() == pytest.approx(worst, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("ambiguity", [drbo.TotalVariation(), drbo.Wasserstein(), drbo.Expectation()], ids=repr)
@pytest.mark.parametrize("kind", [drbo.AtMost, drbo.AtLeast])
def test_a_limit_with_a_probability_holds_where_the_worst_case_probability_is_enough(
    ambiguity: drbo.AmbiguitySet, kind: Any
) -> None:
    """The constraint is at most 0 exactly where the event has the probability in every distribution."""
    torch.manual_seed(0)
    samples = torch.randn(40, 7, 2, dtype=torch.double, requires_grad=True)
    limit, size = kind(kind.sign * -0.4, probability=0.6), 0.1 * radius(ambiguity)
    found = worst_cases(ambiguity, size, {1: limit}, samples)
    (beyond,) = RobustOutcomes(model(outputs=2), CONTEXTS, ambiguity, limits={1: limit}).constraints
    within = (limit.sign * (samples.detach().numpy()[..., 1] - limit.threshold) >= 0.0) * 1.0
    placed = ambiguity.on(CONTEXTS, [1.0])
    held = np.array([float(placed.worst_case(row, REFERENCE, size).expectation) >= 0.6 - 1e-9 for row in within])
    assert 0 < held.sum() < 40  # both kinds are there
    np.testing.assert_array_equal(beyond(found)[:, 0].detach().numpy() <= 0.0, held)
    (gradient,) = torch.autograd.grad(found[..., 1].sum(), samples)
    assert (gradient[..., 0] == 0.0).all()
    np.testing.assert_allclose(gradient[..., 1].sum(dim=-1), np.ones(40))  # one value of each sample


@pytest.mark.parametrize("name", ["qNEI", "qLogNEI", "qEI", "qLogEI", "qPI"])
@pytest.mark.parametrize("probability", [None, 0.5])
def test_acquisition_functions_take_limits(name: str, probability: float | None) -> None:
    """A limit that all samples miss leaves no value, one that all meet changes nothing."""
    kinds = {
        "qNEI": qNoisyExpectedImprovement, "qLogNEI": qLogNoisyExpectedImprovement, "qEI": qExpectedImprovement,
        "qLogEI": qLogExpectedImprovement, "qPI": qProbabilityOfImprovement,
    }  # fmt: skip
    more: dict[str, Any] = {"best_f": -0.5}
    if "NEI" in name:
        more = {"X_baseline": torch.tensor(data()[0][:5, :1]), "prune_baseline": False}
    X = torch.tensor([[[0.35], [0.8]], [[0.1], [0.4]]], dtype=torch.double, requires_grad=True)

    def acqf(threshold: float | None) -> Any:
        limits = {} if threshold is None else {1: drbo.AtMost(threshold, probability=probability)}
        robust = RobustOutcomes(model(outputs=2), CONTEXTS, drbo.MMD(), REFERENCE, 0.2, limits)
        sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
        constraints = robust.constraints or None
        return kinds[name](robust, sampler=sampler, objective=robust.objective, constraints=constraints, **more)

    free, met, missed, between = (acqf(threshold)(X) for threshold in (None, 1e3, -1e3, 0.6))
    assert free.shape == between.shape == (2,)
    torch.testing.assert_close(met, free, rtol=1e-2, atol=1e-3)
    if "NEI" not in name:  # a baseline that is not feasible is no baseline
        assert (missed < met - 0.01).all()
        assert ((missed <= between) & (between <= free + 1e-6)).all()
    (gradient,) = torch.autograd.grad(between.sum(), X)
    assert torch.isfinite(gradient).all()
    assert (gradient != 0.0).any()
    if name == "qLogEI":
        found, _ = optimize_acqf(acqf(0.6), BOUNDS, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 10})
        assert 0.0 <= found.item() <= 1.0


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (drbo.AtMost(0.5), r"limits must be a mapping such as \{1: drbo.AtMost"),
        ({1: 0.5}, r"limits must be a mapping such as \{1: drbo.AtMost.* got 0.5 for output 1"),
        ({1: drbo.AtMost(0.5, beta=2.0)}, "limits must have no surrogate, no beta"),
        ({1: drbo.AtMost(0.5, probability=0.9, of="outcome")}, "limits must have no surrogate, no beta and of='f'"),
        ({0: drbo.AtMost(0.5)}, "a key of limits must be"),
        ({2: drbo.AtMost(0.5)}, "a key of limits must be"),
    ],
)
def test_wrong_limits(limits: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        RobustOutcomes(model(outputs=2), CONTEXTS, drbo.KL(), REFERENCE, 0.1, limits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ambiguity": "MMD"}, "ambiguity must be an AmbiguitySet"),
        ({"reference": [0.5, 0.5]}, "reference must"),
        ({"radius": -1.0}, "radius must be zero or more"),
        ({"contexts": [[0.0], [np.nan]]}, "contexts must"),
        ({"beta": np.inf}, "beta must be finite"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"contexts": CONTEXTS, "ambiguity": drbo.KL(), "reference": REFERENCE, "radius": 0.1}
    with pytest.raises((TypeError, ValueError), match=message):
        RobustUpperConfidenceBound(model(), **{**given, **arguments})


# --- a BoTorch model as the surrogate of an optimizer -----------------------------------------------------------------

RBF_KERNEL = drbo.Product(drbo.RBF(LENGTHSCALES[0]), drbo.RBF(LENGTHSCALES[1]))


@dataclass(frozen=True)
class Fixed:
    """The model whose hyper-parameters drbo's own GP has below."""

    def __call__(self, x: Any, c: Any, y: Any, variances: Any = None) -> Any:
        kernel = RBFKernel(ard_num_dims=2)
        kernel.lengthscale = torch.tensor(LENGTHSCALES)
        made = SingleTaskGP(
            torch.cat([x, c], dim=-1), y, variances, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None
        )
        if variances is None:
            made.likelihood.noise = NOISE**2
        return made


def observations() -> list[Observation]:
    X, y = data()
    outcomes = [Observation.of(z[:1], z[1:], value) for z, value in zip(X, y.tolist(), strict=True)]
    pending = Observation.of(np.array([0.9]), np.array([0.2]), None)
    average = Observation(np.array([0.1]), CONTEXTS, REFERENCE, None)
    return [*outcomes, pending, average]


def both(count: int = 14) -> tuple[Any, Any]:
    """Return the posterior of a BoTorch model, and that of drbo's own GP, after the same observations."""
    X, y = data()
    inputs, evidence = Inputs(np.empty((0, 1)), 1), observations()[:count]
    surrogate = TorchSurrogate(Fixed(), fitted=False)
    nothing = surrogate.first(inputs, 1.0)
    fit = replace(surrogate.refit(Outcomes.of(X[:, :1], X[:, 1:], y, None, None), nothing), offset=0.0, scale=1.0)
    own = drbo.GP(RBF_KERNEL, NOISE)
    data_ = Data(inputs).and_also(evidence)
    return surrogate.posterior(fit, data_, CONTEXTS), own.posterior(own.first(inputs, 1.0), data_, CONTEXTS)


@pytest.mark.parametrize("count", [12, 14], ids=["outcomes", "with evaluations under way"])
def test_a_torch_posterior_is_that_of_drbos_own_model(count: int) -> None:
    torch_, own = both(count)
    assert isinstance(torch_, Posterior)
    assert isinstance(TorchSurrogate(Fixed()), Surrogate)
    x = np.random.default_rng(1).random((9, 1))
    for one, two in zip(torch_.moments(x), own.moments(x), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    for one, two in zip(torch_.averages(x, REFERENCE), own.averages(x, REFERENCE), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    for one, two in zip(torch_.predict(x[:7], CONTEXTS), own.predict(x[:7], CONTEXTS), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    assert torch_.amplitude == pytest.approx(own.amplitude, rel=1e-6)
    assert torch_.noise == pytest.approx(own.noise, rel=1e-5)
    for slope in (2.0, -2.0, 0.0):
        found = torch_.gradient(x[0], REFERENCE, slope)
        np.testing.assert_allclose(found, own.gradient(x[0], REFERENCE, slope), atol=1e-6)

        def value(at: float, slope: float = slope) -> float:
            mean, variance = torch_.moments(np.array([[at]]))
            return float(REFERENCE @ (mean[0] + slope * np.sqrt(variance[0])))

        step = (value(x[0, 0] + 1e-5) - value(x[0, 0] - 1e-5)) / 2e-5
        assert found[0] == pytest.approx(step, rel=FINITE_DIFFERENCES)


def test_more_observations_are_those_of_the_factory() -> None:
    fewer, _ = both(12)
    more, _ = both(14)
    again = fewer.with_more(observations()[12:])
    np.testing.assert_allclose(again.moments(CONTEXTS)[1], more.moments(CONTEXTS)[1], atol=1e-12)
    assert (more.moments(CONTEXTS)[1] <= fewer.moments(CONTEXTS)[1] + 1e-9).all()
    assert isinstance(fewer.with_more([Observation.of(np.array([0.5]), np.array([0.5]), 1.0)]), Posterior)


def test_standard_errors_are_those_of_drbos_own_model() -> None:
    X, y = data()
    errors = np.linspace(0.01, 1.0, len(y))
    inputs, surrogate, own = (
        Inputs(np.empty((0, 1)), 1),
        TorchSurrogate(Fixed(), fitted=False),
        drbo.GP(RBF_KERNEL, 0.1),
    )
    fit = surrogate.refit(Outcomes.of(X[:, :1], X[:, 1:], y, errors, None), surrogate.first(inputs, 1.0))
    told = [Observation.of(z[:1], z[1:], *one) for z, *one in zip(X, y.tolist(), errors.tolist(), strict=True)]
    of_torch = surrogate.posterior(fit, Data(inputs).and_also(told), CONTEXTS)
    of_drbo = own.posterior(own.first(inputs, 1.0), Data(inputs).and_also(told), CONTEXTS)
    x = np.random.default_rng(1).random((9, 1))
    for one, two in zip(of_torch.moments(x), of_drbo.moments(x), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    assert of_torch.noise == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)


def without_errors(x: Any, c: Any, y: Any) -> Any:
    return Fixed()(x, c, y)


def test_standard_errors_are_told_with_every_outcome_or_with_none() -> None:
    opt = torch_grid()
    for stderr in (0.1, 0.2, 0.3, 0.0):
        opt.tell(opt.ask(), 1.0 + stderr, stderr=stderr)
    assert np.isfinite(opt.ask().score)
    opt.tell(0.5, 1.0, context=0.5)
    with pytest.raises(ValueError, match="stderr must be told with every outcome or with none"):
        opt.ask()
    opt.retract(opt.results[-1])
    opt.ask()
    opt = torch_grid(surrogate=TorchSurrogate(without_errors))
    opt.tell(0.5, 1.0, context=0.5, stderr=0.1)
    with pytest.raises(TypeError, match="make_model must take the variances of the errors as its fourth argument"):
        opt.ask()


def torch_grid(**more: Any) -> drbo.Optimizer:
    given = {"setting": drbo.Simulator(np.full(5, 0.2), 0.2), "surrogate": TorchSurrogate(), **more}
    return drbo.Optimizer(np.linspace(0, 1, 9), np.linspace(0, 1, 5), **given)


def torch_box(**more: Any) -> drbo.Optimizer:
    samples = drbo.Samples({"c": np.linspace(0.1, 0.9, 8)})
    setting = drbo.Simulator(radius=0.1)
    return drbo.Optimizer(drbo.Box(x=(0.0, 1.0)), samples, setting=setting, surrogate=TorchSurrogate(), **more)


def played(opt: drbo.Optimizer, rounds: int) -> list[Any]:
    found = []
    for _ in range(rounds):
        s = opt.ask()
        x, c = (float(v["x" if i == 0 else "c"]) if isinstance(v, dict) else float(np.ravel(v)[0])
                for i, v in enumerate((s.action, s.context)))  # fmt: skip
        found.append((x, c, s.score))
        opt.tell(s, 10.0 + 4.0 * x * (1.0 - x) * (1.0 + c))
    return found


@pytest.mark.parametrize("make", [torch_grid, torch_box], ids=["grid", "box"])
def test_an_optimizer_with_a_torch_model_goes_on_after_it_was_saved(make: Any, tmp_path: Path) -> None:
    opt = make(baseline=None)
    played(opt, 7)
    opt.tell(opt.ask(), failed=True)
    best = opt.recommend()
    x = best.action["x"] if isinstance(best.action, dict) else float(np.ravel(best.action)[0])
    assert x == pytest.approx(0.5, abs=0.13)
    predicted = opt.predict(best.action, best.contexts[0])
    assert predicted.lower < predicted.mean < predicted.upper
    opt.report(tmp_path / "torch.html")
    opt.save(tmp_path / "torch.jsonl")
    loaded = drbo.Optimizer.load(tmp_path / "torch.jsonl", classes=[TorchSurrogate, TorchFit, SingleTask])
    assert played(loaded, 3) == played(opt, 3)
    assert loaded.recommend().value == opt.recommend().value


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch_grid(setting=drbo.General(), policy=drbo.Thompson()), r"SupportsDraws.*TorchSurrogate\("),
        (lambda: torch_grid(policy=drbo.ValueOfInformation()), r"SupportsDraws.*TorchSurrogate\("),
        (
            lambda: drbo.Optimizer(
                drbo.Box(x=(0.0, 1.0)),
                drbo.Box(c=(0.0, 1.0)),
                setting=drbo.Simulator(radius=0.1),
                surrogate=TorchSurrogate(),
            ),
            r"SupportsCurve.*TorchSurrogate\(",
        ),
        (lambda: TorchSurrogate(cast(Any, 3)), "make_model must be a function"),
    ],
)
def test_what_a_torch_model_cannot_do_is_refused(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


def test_a_hidden_context_is_refused_with_a_torch_model() -> None:
    opt = torch_grid(setting=drbo.General())
    with pytest.raises(TypeError, match="distribution needs a surrogate with fixed hyper-parameters"):
        opt.tell(opt.ask(reference=np.full(5, 0.2), radius=0.1), 1.0, distribution=np.full(5, 0.2))
    assert opt.n_told == 0
