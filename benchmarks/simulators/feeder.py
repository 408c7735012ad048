"""A distribution feeder of 33 buses (pandapower: the network of Baran and Wu) with three solar plants.

Decision: voltage at the substation, reactive power of the three plants, and the voltage above which they are curtailed.
Conditions: load as a factor, and feed-in as a share of what is installed. Outcome, a cost: losses, energy curtailed,
and voltages outside of 0.95 to 1.05. Where the power flow has no solution the lights go out: a jump.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

import drbo
from simulators import Action, Context, Simulator, clipped, normal_samples, rows

_WITHIN = drbo.Box(load=(0.2, 2.2), sun=(0.0, 1.0))
_PLANTS = (13, 21, 31)
_INSTALLED = 1.6
"""MW of each plant."""
_BLACKOUT = 3000.0


@functools.cache
def _network() -> Any:
    """Return admittances (33, 33) and loads (33,), both in per unit, and the power of one unit in MVA.

    `pandapower.runpp` of version 3.1 writes its results into frames in a way that pandas 3 refuses. So pandapower gives
    the network and its admittances, and `flow` solves for the voltages.
    """
    import pandapower.networks
    from pandapower.converter.pypower.to_ppc import to_ppc
    from pandapower.pypower.makeYbus import makeYbus

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about pandapower
        case = to_ppc(pandapower.networks.case33bw(), init="flat")
    bus, branch = case["bus"].real.copy(), case["branch"].real.copy()
    branch = np.pad(branch[branch[:, 10] > 0.0], ((0, 0), (0, 8)))  # further columns, of asymmetric branches: zero
    power = float(case["baseMVA"])
    admittances = makeYbus(power, bus, branch)[0]
    return np.asarray(admittances.todense()), (bus[:, 2] + 1j * bus[:, 3]) / power, power


def flow(voltage: float, injected: Any) -> Any:
    """Return the complex voltages (n,) for injected powers (n,) in per unit, bus 0 at a given voltage; None if none.

    Z-bus iteration, V <- w + Z conj(S / V), which converges wherever a feeder has a stable solution.
    """
    impedances, start = _reduced()
    v = w = start * voltage
    for _ in range(200):
        new = w + impedances @ np.conj(injected[1:] / v)
        if not np.isfinite(new).all() or np.abs(new).min() < 0.3:
            return None
        if np.abs(new - v).max() < 1e-10:
            return np.concatenate([[voltage], new])
        v = new
    return None


@functools.cache
def _reduced() -> Any:
    admittances = _network()[0]
    inner = np.linalg.inv(admittances[1:, 1:])
    return inner, -inner @ admittances[1:, 0]


def outcomes(action: Action, context: Context) -> dict[str, float] | None:
    """Return the kW lost, the kW curtailed, the sum of violations, and the least and largest voltage; None if dark."""
    _, loads, power = _network()
    reactive = np.array([action["q1"], action["q2"], action["q3"]])
    share = np.full(3, context["sun"])
    for _ in range(3):  # each plant reduces its feed-in in proportion to how far its voltage is too high
        injected = -context["load"] * loads
        injected[list(_PLANTS)] += (_INSTALLED * share + 1j * reactive) / power
        voltages = flow(action["voltage"], injected)
        if voltages is None:
            return None
        high = np.maximum(np.abs(voltages)[list(_PLANTS)] - action["limit"], 0.0)
        share = np.maximum(share - 5.0 * high, 0.0)
    size = np.abs(voltages)
    if size.min() < 0.85:  # protection trips
        return None
    slack = voltages[0] * np.conj(_network()[0][0] @ voltages)
    return {
        "losses": 1000.0 * power * float((slack + injected[1:].sum()).real),
        "curtailed": 1000.0 * _INSTALLED * float((context["sun"] - share).sum()),
        "outside": float((np.maximum(size - 1.05, 0.0) + np.maximum(0.95 - size, 0.0)).sum()),
        "least": float(size.min()),
        "largest": float(size.max()),
    }


def cost(action: Action, context: Context) -> float:
    """Return the cost: kW lost, kW curtailed at half price, and a penalty for each bus outside the limits."""
    found = outcomes(action, context)
    if found is None:
        return _BLACKOUT
    return found["losses"] + 0.5 * found["curtailed"] + 400.0 * found["outside"]


def make() -> Simulator:
    """Return the simulator; raise ImportError without pandapower."""
    import pandapower  # noqa: F401

    rng = np.random.default_rng(4)
    spring = clipped(normal_samples(rng, 40, load=(0.9, 0.15), sun=(0.4, 0.15)), _WITHIN)
    winter = clipped(normal_samples(rng, 60, load=(1.6, 0.2), sun=(0.12, 0.08)), _WITHIN)
    reactive = (-1.0, 1.5)
    return Simulator(
        name="feeder",
        version=1,
        actions=drbo.Box(voltage=(0.95, 1.08), q1=reactive, q2=reactive, q3=reactive, limit=(1.0, 1.1)),
        contexts=drbo.Samples(spring, within=_WITHIN),
        ambiguity=drbo.Wasserstein(scale={"load": 0.5, "sun": 0.25}),
        radii=(0.5, 1.9),
        meaning=(
            "load up by a quarter on average",
            "a winter of heat pumps: load up by 80%, little sun",
        ),
        shifted=rows(winter),
        function=cost,
        maximize=False,
        grid=17,
    )
