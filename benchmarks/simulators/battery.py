"""A lithium-ion cell charged in the cold (PyBaMM: single particle model with electrolyte, lumped thermal model).

Decision: two charging currents and when to switch between them. Condition: ambient temperature. Outcome: charge taken
in half an hour, less lithium plating at the separator (below 0 V against lithium) and heating above 45 degrees. The
charge ends at 4.2 V, which in the cold comes early.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

import drbo
from simulators import Action, Context, Simulator, clipped, normal_samples, rows

_WITHIN = drbo.Box(ambient=(-25.0, 40.0))
_POTENTIAL = "Negative electrode surface potential difference at separator interface [V]"
_TEMPERATURE = "Volume-averaged cell temperature [K]"


@functools.cache
def _simulation() -> Any:
    import pybamm

    pybamm.set_logging_level("ERROR")
    parameters = pybamm.ParameterValues("Chen2020")
    first, second, switch = (pybamm.InputParameter(name) for name in ("first", "second", "switch"))
    current = -(first + (second - first) / (1.0 + pybamm.exp(-(pybamm.t - switch) / 10.0)))
    temperatures = dict.fromkeys(("Ambient temperature [K]", "Initial temperature [K]"), "[input]")
    parameters.update({"Current function [A]": current, **temperatures})
    parameters.set_initial_state(0.1)
    model = pybamm.lithium_ion.SPMe({"thermal": "lumped"})
    return pybamm.Simulation(model, parameter_values=parameters, solver=pybamm.IDAKLUSolver())


def outcomes(action: Action, context: Context) -> dict[str, float]:
    """Return the charge in Ah, plating in V min, heating in K min, the least potential in V and the peak in degrees."""
    kelvin = context["ambient"] + 273.15
    inputs = {"first": action["first"], "second": action["second"], "switch": action["switch"]}
    inputs |= dict.fromkeys(("Ambient temperature [K]", "Initial temperature [K]"), kelvin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = _simulation().solve([0.0, 1800.0], t_interp=np.linspace(0.0, 1800.0, 181), inputs=inputs)
        time, charge = solution["Time [s]"].entries, -solution["Discharge capacity [A.h]"].entries[-1]
        potential, temperature = solution[_POTENTIAL].entries, solution[_TEMPERATURE].entries
    return {
        "charge": float(charge),
        "plating": float(np.trapezoid(np.maximum(-potential, 0.0), time)) / 60.0,
        "heat": float(np.trapezoid(np.maximum(temperature - 318.15, 0.0), time)) / 60.0,
        "potential": float(potential.min()),
        "peak": float(temperature.max()) - 273.15,
    }


def value(action: Action, context: Context) -> float:
    """Return the charge in Ah, less penalties in Ah."""
    found = outcomes(action, context)
    return found["charge"] - 2.0 * found["plating"] - 0.02 * found["heat"]


def make() -> Simulator:
    """Return the simulator; raise ImportError without PyBaMM."""
    import pybamm  # noqa: F401  # imported to raise without it

    rng = np.random.default_rng(1)
    autumn = clipped(normal_samples(rng, 40, ambient=(12.0, 5.0)), _WITHIN)
    winter = clipped(normal_samples(rng, 60, ambient=(-4.0, 7.0)), _WITHIN)
    return Simulator(
        name="battery",
        version=1,
        actions=drbo.Box(first=(1.0, 10.0), second=(1.0, 10.0), switch=(200.0, 1600.0)),
        contexts=drbo.Samples(autumn, within=_WITHIN),
        ambiguity=drbo.Wasserstein(),
        radii=(5.0, 17.0),
        meaning=("days 5 degrees colder on average", "winter comes: 17 degrees colder on average"),
        shifted=rows(winter),
        function=value,
        grid=66,
    )
