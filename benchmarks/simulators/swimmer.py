"""A swimmer of three links (gymnasium, MuJoCo) with a gait of 25 parameters, in a fluid of another viscosity.

Decision: the frequency of the gait and the Fourier coefficients of both torques, six harmonics each. Conditions:
viscosity of the fluid as a factor, and mass of the body as a factor. Outcome: the way forward in ten seconds.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import drbo
from simulators import Action, Context, Simulator, clipped, normal_samples, rows

_WITHIN = drbo.Box(viscosity=(0.2, 4.0), mass=(0.5, 2.5))
_STEPS = 250
_HARMONICS = 6


@functools.cache
def _world() -> tuple[Any, Any, Any, float]:
    import gymnasium

    world: Any = gymnasium.make("Swimmer-v5").unwrapped
    return world, world.model.body_mass.copy(), world.model.body_inertia.copy(), float(world.model.opt.viscosity)


def value(action: Action, context: Context) -> float:
    """Return the way in metres."""
    world, masses, inertias, viscosity = _world()
    world.model.body_mass[:], world.model.body_inertia[:] = masses * context["mass"], inertias * context["mass"]
    world.model.opt.viscosity = viscosity * context["viscosity"]
    world.model.opt.density = 4000.0
    world.reset(seed=0)
    world.set_state(np.zeros(world.model.nq), np.zeros(world.model.nv))
    time = np.arange(_STEPS) * world.dt
    phases = 2.0 * np.pi * action["frequency"] * time[:, None] * np.arange(1, _HARMONICS + 1)
    waves = np.concatenate([np.sin(phases), np.cos(phases)], axis=1) / np.tile(np.arange(1, _HARMONICS + 1), 2)
    weights = np.array([[action[f"{joint}{k}"] for k in range(2 * _HARMONICS)] for joint in "ab"])
    for torques in np.clip(waves @ weights.T, -1.0, 1.0):
        world.do_simulation(torques, world.frame_skip)
    return float(world.data.qpos[0])


def make() -> Simulator:
    """Return the simulator; raise ImportError without gymnasium and MuJoCo."""
    import gymnasium  # noqa: F401  # imported to raise without it
    import mujoco  # noqa: F401  # imported to raise without it

    rng = np.random.default_rng(3)
    water = clipped(normal_samples(rng, 25, viscosity=(1.0, 0.15), mass=(1.0, 0.1)), _WITHIN)
    cold = clipped(normal_samples(rng, 40, viscosity=(1.75, 0.25), mass=(1.1, 0.12)), _WITHIN)
    coefficients = {f"{joint}{k}": (-1.0, 1.0) for joint in "ab" for k in range(2 * _HARMONICS)}
    return Simulator(
        name="swimmer",
        version=1,
        actions=drbo.Box({"frequency": (0.1, 1.0), **coefficients}),
        contexts=drbo.Samples(water, within=_WITHIN),
        ambiguity=drbo.MMD(),
        radii=(0.26, 0.66),
        meaning=("a fluid 30% more viscous", "a fluid 80% more viscous: cold water with silt"),
        shifted=rows(cold),
        function=value,
        grid=7,
    )
