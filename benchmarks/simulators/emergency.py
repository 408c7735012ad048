"""An emergency department (simpy): patients wait for a nurse, then for a bed and a doctor.

Decision: nurses, doctors and beds, whole numbers. Conditions: arrivals per hour, and the share of severe cases, which
take three times as long. Outcome, a cost per hour: wages, waiting, and patients who leave after two hours. It is the
mean over eight fixed streams of random numbers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

import drbo
from simulators import Action, Context, Simulator, clipped, normal_samples, rows

_WITHIN = drbo.Box(arrivals=(2.0, 20.0), severe=(0.0, 0.6))
_STREAMS = 8
_HOURS = 12.0


def _day(action: Action, context: Context, stream: int) -> float:
    import simpy

    world = simpy.Environment()
    nurses, doctors, beds = (simpy.Resource(world, capacity=action[name]) for name in ("nurses", "doctors", "beds"))
    rng = np.random.default_rng([stream, 5])
    draws = rng.random((600, 4))
    cost = [0.0]

    def patient(draw: Any) -> Generator[Any, Any, None]:
        came = world.now
        longer = 3.0 if draw[1] < context["severe"] else 1.0
        with nurses.request() as turn:
            yield turn
            yield world.timeout(-0.12 * np.log(draw[2]))
        with beds.request() as bed:
            found = yield bed | world.timeout(max(came + 2.0 - world.now, 0.0))
            if bed not in found:
                cost[0] += 300.0
                return
            with doctors.request() as turn:
                yield turn
                cost[0] += 20.0 * longer * (world.now - came)
                yield world.timeout(0.05 - 0.25 * longer * np.log(draw[3]))

    def arrive() -> Generator[Any, Any, None]:
        for draw in draws:
            yield world.timeout(-np.log(draw[0]) / context["arrivals"])
            world.process(patient(draw))

    world.process(arrive())
    world.run(until=_HOURS)
    return float(cost[0] / _HOURS)


def cost(action: Action, context: Context) -> float:
    """Return the cost per hour."""
    wages = 35.0 * action["nurses"] + 90.0 * action["doctors"] + 12.0 * action["beds"]
    return float(wages) + float(np.mean([_day(action, context, stream) for stream in range(_STREAMS)]))


def make() -> Simulator:
    """Return the simulator; raise ImportError without simpy."""
    import simpy  # noqa: F401  # imported to raise without it

    rng = np.random.default_rng(5)
    usual = clipped(normal_samples(rng, 40, arrivals=(7.0, 1.5), severe=(0.15, 0.05)), _WITHIN)
    influenza = clipped(normal_samples(rng, 60, arrivals=(11.0, 2.0), severe=(0.3, 0.08)), _WITHIN)
    return Simulator(
        name="emergency",
        version=1,
        actions=drbo.Box(nurses=drbo.Integer(1, 6), doctors=drbo.Integer(1, 14), beds=drbo.Integer(2, 24)),
        contexts=drbo.Samples(usual, within=_WITHIN),
        ambiguity=drbo.Wasserstein(order=2.0, scale={"arrivals": 4.0, "severe": 0.15}),
        radii=(0.5, 1.6),
        meaning=(
            "2 more arrivals an hour, root mean square",
            "a wave of influenza: 4 more an hour, twice as many severe",
        ),
        shifted=rows(influenza),
        function=cost,
        maximize=False,
        noise=10.0,
        grid=13,
    )
