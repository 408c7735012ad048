"""Plotly figures of a study show what the study holds."""

import optuna
import pytest

from drbo.integrations.optuna import plot_bounds, plot_radii, plot_worst_case
from integrations.weather import make, objective, recommended, study_of

pytest.importorskip("plotly", reason="figures need plotly, which drbo[optuna] brings")


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = study_of(make())
    made.optimize(objective, n_trials=6)
    return made


def test_values_and_bounds(study: optuna.Study) -> None:
    figure = plot_bounds(study)
    values, bounds = figure.data
    assert list(values.y) == [t.value for t in study.trials]
    assert list(bounds.x) == [1, 2, 3, 4, 5]  # the first trial was made before the space was known
    assert figure.layout.shapes[0].y0 == recommended(study).value


def test_the_worst_case_beside_the_reference(study: optuna.Study) -> None:
    reference, worst = plot_worst_case(study).data
    assert len(reference.x) == len(worst.x) <= 30
    assert sum(worst.y) <= 1.0 + 1e-9
    assert max(worst.y) == recommended(study).weights.max()


def test_a_larger_radius_has_a_smaller_bound(study: optuna.Study) -> None:
    best, kept = plot_radii(study, [0.0, 0.1, 0.4]).data
    assert list(best.y) == sorted(best.y)  # of a cost: at most
    assert all(a <= b + 1e-6 for a, b in zip(best.y, kept.y, strict=True))
