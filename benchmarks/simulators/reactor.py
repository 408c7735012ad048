"""A cooled stirred tank with an exothermic reaction A -> B -> C (scipy): it runs away where cooling cannot keep up.

Decision: coolant temperature, feed rate, and concentration of the feed. Conditions: temperature of the feed, and the
share of the heat transfer that fouling of the jacket has taken. Outcome: B made per hour less the cost of A. A batch
whose temperature exceeds 450 K is dumped, which costs as much as a good batch earns: a jump.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

import drbo
from drbo.validation import FloatArray
from simulators import Action, Context, Simulator, clipped, normal_samples, rows

_LIMIT = 450.0
_WITHIN = drbo.Box(feed_temperature=(280.0, 330.0), fouling=(0.0, 0.6))


def profit(action: Action, context: Context) -> float:
    """Return the profit per hour, in arbitrary money."""
    flow, feed = action["flow"], action["feed"]
    transfer = 5.0 * (1.0 - context["fouling"])

    def change(t: float, state: FloatArray) -> list[float]:
        del t
        a, b, temperature = state
        first = 7.2e10 * math.exp(-8750.0 / max(temperature, 200.0)) * a
        second = 3.0e13 * math.exp(-12500.0 / max(temperature, 200.0)) * b
        heat = 170.0 * first + 60.0 * second
        return [
            flow * (feed - a) - first,
            -flow * b + first - second,
            flow * (context["feed_temperature"] - temperature) + heat - transfer * (temperature - action["coolant"]),
        ]

    def too_hot(t: float, state: FloatArray) -> float:
        del t
        return _LIMIT - float(state[2])

    too_hot.terminal = True  # type: ignore[attr-defined]
    start = [feed, 0.0, context["feed_temperature"]]
    found = solve_ivp(change, (0.0, 12.0), start, method="LSODA", events=too_hot, rtol=1e-7, atol=1e-9)
    if found.status == 1:
        return -60.0
    made = float(np.trapezoid(found.y[1], found.t)) / 12.0
    return float(100.0 * flow * made - 8.0 * flow * feed)


def make() -> Simulator:
    """Return the simulator."""
    rng = np.random.default_rng(7)
    usual = normal_samples(rng, 40, feed_temperature=(300.0, 5.0), fouling=(0.12, 0.06))
    summer = normal_samples(rng, 60, feed_temperature=(312.0, 6.0), fouling=(0.25, 0.08))
    return Simulator(
        name="reactor",
        version=1,
        actions=drbo.Box(coolant=(280.0, 340.0), flow=(0.5, 3.0), feed=(0.4, 1.4)),
        contexts=drbo.Samples(clipped(usual, _WITHIN), within=_WITHIN),
        ambiguity=drbo.Wasserstein(order=2.0, scale={"feed_temperature": 10.0, "fouling": 0.1}),
        radii=(0.8, 2.0),
        meaning=(
            "feed 6 K warmer and 5% more fouling, root mean square",
            "a summer with a jacket not cleaned for a year",
        ),
        shifted=rows(clipped(summer, _WITHIN)),
        function=profit,
        noise=0.3,
        grid=17,
    )
