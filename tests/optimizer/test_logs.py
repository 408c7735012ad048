"""Logs as people have them: 0/1 columns, whole numbers, dates as text, and a forecast in place of the past."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import drbo

FIXED = drbo.GP(drbo.Product(drbo.RBF(0.5), drbo.RBF(0.5)), noise=0.1)


def log(n: int = 40) -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "price": rng.uniform(1.0, 2.0, n),
            "visitors": rng.integers(20, 400, n),
            "promotion": rng.integers(0, 2, n),
            "outdoor": rng.normal(10.0, 5.0, n),
        }
    )
    frame["sales"] = frame.visitors * (2.0 - frame.price) * (1.0 + 0.5 * frame.promotion) / 100.0
    return frame.sample(frac=1.0, random_state=0)  # not in order of time


def optimizer(contexts: Any = ("visitors", "promotion", "outdoor"), radius: Any = 0.1) -> Any:
    return drbo.Optimizer.from_frame(
        log(), ["price"], list(contexts), "sales", radius=radius, time="day", surrogate=FIXED
    )


def test_dates_as_text_give_the_order_of_time() -> None:
    opt = optimizer()
    ordered = log().sort_values("day")
    assert [r.outcome for r in opt.results] == ordered.sales.tolist()
    assert opt.results[0].time == pd.Timestamp("2024-01-01", tz="UTC").timestamp()
    wrong = log().replace("2024-01-03", "soon")
    with pytest.raises(ValueError, match="of column 'day', must be a date in ISO form such as"):
        drbo.Optimizer.from_frame(wrong, ["price"], ["outdoor"], "sales", radius=0.1, time="day")


def test_a_column_of_0_and_1_can_be_given() -> None:
    opt = optimizer()
    r = opt.recommend(given={"promotion": 1})
    assert {c["promotion"] for c in r.contexts} == {1}
    assert r.rows == int(log().promotion.sum())
    s = opt.ask(given={"promotion": 0})
    opt.tell(s, 1.0, context={"visitors": 30, "outdoor": 5.0})
    assert opt.results[-1].context == {"visitors": 30, "promotion": 0, "outdoor": 5.0}


def test_whole_numbers_stay_whole(tmp_path: Any) -> None:
    opt = optimizer()
    contexts = opt.recommend().contexts
    assert all(isinstance(c["visitors"], int) and isinstance(c["promotion"], int) for c in contexts)
    assert all(isinstance(r.context["visitors"], int) for r in opt.results)
    with pytest.raises(ValueError, match="must be a whole number, as in the log, got 30"):
        opt.tell({"price": 1.5}, 1.0, context={"visitors": 30.5, "promotion": 0, "outdoor": 5.0})
    opt.tell({"price": 1.5}, 1.0, context={"visitors": 450, "promotion": 0, "outdoor": 5.0})  # beyond the log
    opt.save(tmp_path / "run.drbo")
    again: Any = drbo.Optimizer.load(tmp_path / "run.drbo")
    assert [r.context for r in again.results] == [r.context for r in opt.results]
    assert again.recommend().value == opt.recommend().value
    more = optimizer()
    more.append(log().tail(3), "sales", time="day")
    assert more.n_told == 43
    assert isinstance(more.results[-1].context["visitors"], int)


def test_whole_numbers_alone() -> None:
    opt = optimizer(["promotion"])
    r = opt.recommend()
    assert [c["promotion"] for c in r.contexts] == [0, 1]


def test_a_forecast_replaces_the_past_in_every_setting() -> None:
    rng = np.random.default_rng(1)
    past, forecast = {"t": rng.normal(10.0, 2.0, 30)}, drbo.Samples({"t": rng.normal(20.0, 1.0, 10)})
    rule = drbo.radius.Bootstrap(0.1, resamples=50)
    own = rule.for_samples(drbo.Samples(past), drbo.Wasserstein())
    for setting, radius in (
        (drbo.DataDriven(radius=rule), own),
        (drbo.DataDriven(radius=0.3), 0.3),
        (drbo.Simulator(radius=0.3), 0.3),
        (drbo.General(), 0.2),
    ):
        opt = drbo.Optimizer(
            [0.0, 1.0], drbo.Samples(past), ambiguity=drbo.Wasserstein(), setting=setting, surrogate=FIXED
        )
        for t in (8.0, 12.0, 20.0):
            opt.tell(1.0, -t, context={"t": t}, drawn=False)
        given: Any = {"radius": 0.2} if isinstance(setting, drbo.General) else {}
        r = opt.recommend(reference=forecast, **given)
        mean = sum(w * c["t"] for w, c in zip(r.reference, r.contexts, strict=True))
        assert mean == pytest.approx(forecast.data.mean())  # type: ignore[union-attr]
        assert r.radius == pytest.approx(radius, rel=1e-9)
        assert opt.under(reference=forecast, radius=0.7).recommend().radius == 0.7


def test_asking_still_takes_the_reference_of_the_data() -> None:
    opt = optimizer()
    with pytest.raises(TypeError, match=r"Queries take one: opt.recommend\(reference=\.\.\., radius=\.\.\.\)"):
        opt.ask(reference=drbo.Samples(log()[["visitors", "promotion", "outdoor"]]))
