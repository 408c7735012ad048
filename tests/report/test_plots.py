"""Pictures of a run: they show the numbers of the optimizer, on every kind of space."""

import io
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import drbo
from drbo.report.plots import dial_radii
from heating import make, run

GRID = np.linspace(0.0, 1.0, 5)
FIXED = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.3)), 0.1)
MARKUP = "<script>$\\frac{$_"


def drawn(figure: Figure) -> Figure:
    figure.savefig(io.BytesIO(), format="png")
    return figure


def lines(figure: Figure) -> dict[str, Any]:
    return {str(line.get_label()): line for line in figure.axes[0].get_lines()}


def grid(**more: Any) -> drbo.Optimizer:
    arguments = {
        "setting": drbo.Simulator(np.full(5, 0.2), 0.1, pick="uncertain"),
        "surrogate": FIXED,
        "ambiguity": drbo.MMD(),
        **more,
    }
    return drbo.Optimizer(arguments.pop("actions", GRID), arguments.pop("contexts", GRID), **arguments)


def test_progress() -> None:
    opt = grid(maximize=False)
    drawn(opt.plot.progress())  # nothing has been told yet
    for i in range(5):
        opt.tell(opt.ask(), **({"failed": True} if i == 3 else {"outcome": float(i)}))
    opt.ask(2)
    shown = lines(drawn(opt.plot.progress()))
    assert shown.keys() == {
        "outcome", "bound of the recommended action under the shift", "its optimistic bound", "failed",
        "pending: no outcome yet",
    }  # fmt: skip
    np.testing.assert_array_equal(shown["outcome"].get_ydata(), [0.0, 1.0, 2.0, np.nan, 4.0])
    assert shown["failed"].get_xdata().tolist() == [4.0]
    assert shown["pending: no outcome yet"].get_xdata().tolist() == [6.0, 7.0]
    bounds = opt.under().narrowing(opt.recommend().action)
    np.testing.assert_array_equal(shown["bound of the recommended action under the shift"].get_ydata(), bounds.bound)
    np.testing.assert_array_equal(shown["its optimistic bound"].get_ydata(), bounds.optimistic)


def test_all_failed() -> None:
    opt = grid()
    opt.tell(opt.ask(), failed=True)
    assert "failed" in lines(drawn(opt.plot.progress()))


def test_the_dial_is_that_of_the_profile() -> None:
    opt = grid()
    for i in range(6):
        opt.tell(opt.ask(), float(i % 2))
    radii = dial_radii(opt)
    assert 0.1 in radii
    assert radii[0] == 0.0
    assert radii[-1] == pytest.approx(opt.recommend().diameter)
    shown = lines(drawn(opt.plot.dial()))
    np.testing.assert_allclose(shown["bound"].get_ydata(), opt.under().profile(radii).bound, rtol=1e-12)
    assert len(lines(opt.plot.dial([0.0, 0.2]))["bound"].get_ydata()) == 2


@pytest.mark.parametrize("radius", [0.3, np.inf])
def test_the_dial_of_a_set_without_a_largest_distance(radius: float) -> None:
    opt = grid(ambiguity=drbo.Neighbourhood(), setting=drbo.Simulator(np.full(5, 0.2), radius, pick="uncertain"))
    opt.tell(opt.ask(), 1.0)
    radii = dial_radii(opt)
    assert np.isfinite(radii).all()
    assert radii[-1] > 0.0
    drawn(opt.plot.dial())


def test_the_worst_case_of_numbers() -> None:
    opt = make(drbo.Simulator(radius=0.2, pick="uncertain"))
    run(opt, 4)
    figure = drawn(opt.plot.worst_case())
    found = opt.recommend()
    assert [axes.get_title() for axes in figure.axes] == ["outdoor", "load"]
    for axes, name in zip(figure.axes, ("outdoor", "load"), strict=True):
        numbers = np.array([context[name] for context in found.contexts])
        for patch, weights in zip(axes.patches, (found.reference, found.weights), strict=True):
            heights, edges, _ = patch.get_data()  # type: ignore[attr-defined]
            expected, _ = np.histogram(numbers, edges, weights=weights)
            np.testing.assert_allclose(heights, expected, atol=1e-12)
            assert heights.sum() == pytest.approx(1.0)


def test_the_worst_case_of_labels_whose_names_are_markup() -> None:
    labels = {MARKUP: 3.0, "b": 1.0, "c": 1.0}
    setting = drbo.Simulator(radius=0.3, pick="uncertain")
    opt = grid(contexts=labels, setting=setting, ambiguity=drbo.TotalVariation(), surrogate=None)
    for i in range(5):
        s = opt.ask()
        opt.tell(s, float(s.context == "b") + 0.1 * i)
    figure = drawn(opt.plot.worst_case())
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [MARKUP, "b", "c"]
    found = opt.recommend()
    order = [list(found.contexts).index(label) for label in labels]
    heights = [patch.get_height() for patch in axes.patches]  # type: ignore[attr-defined]
    np.testing.assert_allclose(heights[:3], found.reference[order])
    np.testing.assert_allclose(heights[3:], found.weights[order])


def test_names_of_columns_are_text() -> None:
    rng = np.random.default_rng(0)
    contexts = drbo.Samples(rng.normal(size=(12, 4)), names=[MARKUP, "b", "c", "d"])
    opt = grid(contexts=contexts, setting=drbo.Simulator(radius=0.2, pick="uncertain"), surrogate=None)
    opt.tell(opt.ask(), 1.0)
    figure = drawn(opt.plot.worst_case(radius=0.1))
    assert [axes.get_title() for axes in figure.axes if axes.get_visible()] == [MARKUP, "b", "c", "d"]


def test_one_context_alone() -> None:
    opt = grid(contexts=[[0.3]], setting=drbo.Simulator([1.0], 0.1, pick="uncertain"))
    opt.tell(opt.ask(), 1.0)
    drawn(opt.plot.worst_case())
    drawn(opt.plot.dial())


def test_a_picture_changes_nothing() -> None:
    opt = grid()
    opt.tell(opt.ask(), 1.0)
    before = len(opt.history)
    drawn(opt.plot.progress())
    drawn(opt.plot.worst_case())
    assert len(opt.history) == before
    assert "progress" in repr(opt.plot)
