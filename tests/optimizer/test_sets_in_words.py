"""Sets in the user's words in an optimizer: settings, ranges, files, and what is printed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drbo
from drbo import MMD, AnyOf, DataDriven, General, Intersection, Moments, Optimizer, Shares, Simulator, Wasserstein

BOX = drbo.Box(outdoor=(-10.0, 30.0), age=drbo.Categorical("young", "old"))
ROWS: dict[str, list[Any]] = {
    "outdoor": [3.0, 8.0, 12.0, 20.0, 5.0, 9.0],
    "age": ["young", "old", "young", "old", "young", "young"],
}
SAMPLES = drbo.Samples(ROWS, within=BOX, support=8)
COLD = drbo.Samples({"outdoor": [-5.0, 0.0], "age": ["old", "old"]}, within=BOX)
SETS: dict[str, tuple[Any, str]] = {
    "Moments": (Moments(outdoor=2.0), "whose mean outdoor is within 2 of the reference's"),
    "Shares": (
        Shares(old=(0.2, 0.5)),
        "whose share of old is from 20.0% to 50.0%, with the reference's proportions inside each group",
    ),
    "AnyOf": (AnyOf([COLD]), "that is the reference itself, or the same with the scenario in place of the reference"),
    "Intersection": (
        Intersection(MMD(), Moments(outdoor=2.0)),
        "within a maximum mean discrepancy (MMD) of 0.2 of the reference and whose mean outdoor is within 2 of the",
    ),
    "Wasserstein": (Wasserstein(scale={"outdoor": 3.0, "age": 1.0}), "in steps of 3 (outdoor) and 1 (age)"),
}
SURROGATE = drbo.GP(drbo.Product(drbo.RBF(0.3), drbo.RBF(0.5)), 0.05)


def made(name: str, setting: str) -> Optimizer:
    ambiguity = SETS[name][0]
    radius = 0.2 if ambiguity.growth.own is None else None
    settings = {
        "simulator": Simulator(radius=radius, pick="uncertain"),
        "data-driven": DataDriven(radius=radius),
        "general": General(),
    }
    return Optimizer([0.0, 0.5, 1.0], SAMPLES, ambiguity=ambiguity, setting=settings[setting], surrogate=SURROGATE)


def run(opt: Optimizer, rounds: int) -> list[tuple[Any, float]]:
    asked = []
    for i in range(rounds):
        growth = opt.configuration.placed.growth
        radius = 0.2 if isinstance(opt.configuration.setting, General) and growth.own is None else None
        s = opt.ask() if radius is None else opt.ask(radius=radius)
        seen = {name: column[i] for name, column in ROWS.items()}
        opt.tell(s, float(s.action[0]) - 0.1 * i, context=None if s.context else seen)
        asked.append((float(s.action[0]), s.score))
    return asked


@pytest.mark.parametrize("setting", ["simulator", "data-driven", "general"])
@pytest.mark.parametrize("name", SETS)
def test_they_run_print_and_go_on_from_a_file(name: str, setting: str, tmp_path: Path) -> None:
    opt = made(name, setting)
    run(opt, 2)
    opt.save(tmp_path / "state")
    loaded = Optimizer.load(tmp_path / "state")
    assert run(opt, 1) == run(loaded, 1)
    r = opt.recommend()
    assert str(r) == str(loaded.recommend())
    assert SETS[name][1] in " ".join(str(r).split())
    assert r.gap >= 0.0


def test_a_certificate_holds_on_the_whole_range() -> None:
    """Of all distributions on a fine grid that keep the mean, none is worse than the guarantee."""
    opt = made("Moments", "simulator")
    run(opt, 2)
    r = opt.recommend()
    outdoor = np.array([row["outdoor"] for row in r.contexts])
    mean = float(r.reference @ outdoor)
    assert abs(float(r.weights @ outdoor) - mean) <= 2.0 + 1e-9
    grid = [{"outdoor": float(x), "age": age} for x in np.linspace(-10.0, 30.0, 41) for age in ("young", "old")]
    lower = np.array([opt.predict(r.action, context).lower for context in grid])
    x = np.array([context["outdoor"] for context in grid])
    for i in range(0, len(grid), 3):  # every pair whose mixture has the least or the largest mean that is allowed
        for j in range(0, len(grid), 3):
            for target in (mean - 2.0, mean, mean + 2.0):
                if x[i] <= target <= x[j] and x[i] < x[j]:
                    share = (target - x[i]) / (x[j] - x[i])
                    assert (1.0 - share) * lower[i] + share * lower[j] >= r.value - 1e-9


def test_mistakes_show_when_the_optimizer_is_made() -> None:
    for ambiguity, message in (
        (Moments(humidity=2.0), "'humidity', which is not a column of the contexts: they are outdoor, age"),
        (Shares(age={"ancient": 0.5}), "group 'ancient'"),
        (Wasserstein(), "Wasserstein needs a scale for the columns outdoor, age"),
    ):
        with pytest.raises(ValueError, match=message):
            Optimizer(
                [0.0, 1.0],
                SAMPLES,
                ambiguity=ambiguity,
                setting=Simulator(radius=0.1, pick="uncertain"),
                surrogate=SURROGATE,
            )
    with pytest.raises(TypeError, match="radius must be given for MMD"):
        Optimizer([0.0, 1.0], SAMPLES, setting=Simulator(pick="uncertain"), surrogate=SURROGATE)


GROUPS = ["young", "middle", "old"]


@pytest.mark.parametrize(
    ("ambiguity", "words"),
    [
        (drbo.Expectation(), "the reference itself"),
        (drbo.KL(), "every distribution on the contexts that the reference shows"),
        (AnyOf([[1, 0, 0]]), "the reference itself, or the same with the scenario in place of the reference"),
        (AnyOf([[1, 0, 0]], within=MMD()), "every distribution on the contexts"),
        (Shares(old=(0.1, 0.3)), "every mixture of the groups"),
        (
            Intersection(MMD(), Shares(old=(0.1, 0.3), free_inside=True)),
            "every distribution on the contexts that keeps the bounds",
        ),
    ],
    ids=repr,
)
def test_an_infinite_radius_claims_no_more_than_the_set_holds(ambiguity: Any, words: str) -> None:
    setting = Simulator([0.5, 0.3, 0.2], np.inf, pick="uncertain")
    opt = Optimizer([0.0, 1.0], GROUPS, ambiguity=ambiguity, setting=setting, surrogate=SURROGATE)
    text = " ".join(str(opt.recommend()).split())
    assert f"in every distribution that the set can hold, as the radius is infinite: {words}," in text


@pytest.mark.parametrize("given", [None, {0: "old"}])
def test_scenarios_by_label_are_those_by_weights(given: Any) -> None:
    def worst(scenarios: list[Any]) -> Any:
        setting = Simulator([0.5, 0.3, 0.2], 0.0, pick="uncertain")
        made = AnyOf(scenarios)
        opt = Optimizer([0.0, 1.0], GROUPS, ambiguity=made, setting=setting, surrogate=SURROGATE)
        opt.tell(1.0, {"young": 3.0, "middle": 2.0, "old": 1.0})
        return opt.bound(1.0, given=given)

    by_label, by_weights = worst([{"old": 1.0}, {"middle": 0.5, "young": 0.5}]), worst([[0, 0, 1], [0.5, 0.5, 0]])
    np.testing.assert_array_equal(by_label.weights, by_weights.weights)
    assert by_label.value == by_weights.value
    if given is None:
        np.testing.assert_array_equal(by_label.weights, [0.0, 0.0, 1.0])


def test_scenarios_of_samples_are_conditional_on_what_is_given() -> None:
    cold = drbo.Samples({"outdoor": [-5.0, 0.0, 25.0], "age": ["old", "old", "young"]}, weights=[1, 3, 4], within=BOX)
    young = drbo.Samples({"outdoor": [1.0], "age": ["young"]}, within=BOX)
    setting = Simulator(radius=0.0, pick="uncertain")
    opt = Optimizer([0.0, 1.0], SAMPLES, ambiguity=AnyOf([young, cold]), setting=setting, surrogate=SURROGATE)
    opt.tell(1.0, [-50.0, -50.0], contexts=[{"outdoor": t, "age": "old"} for t in (-5.0, 0.0)], stderr=0.0)
    r = opt.recommend(given={"age": "old"})
    worst = opt.bound(1.0, given={"age": "old"})
    assert all(context["age"] == "old" for context in r.contexts)
    mass = {context["outdoor"]: weight for context, weight in zip(worst.contexts, worst.weights, strict=True) if weight}
    assert mass == pytest.approx({-5.0: 0.25, 0.0: 0.75})


def test_scenarios_whose_labels_differ_are_refused_with_the_labels() -> None:
    other = drbo.Samples({"age": ["old", "young"]})
    setting = Simulator(radius=0.0, pick="uncertain")
    with pytest.raises(ValueError, match=r"age \('young', 'old'\); got age \('old', 'young'\)"):
        Optimizer([0.0], drbo.Samples({"age": ["young", "old"]}), ambiguity=AnyOf([other]), setting=setting).ask()
