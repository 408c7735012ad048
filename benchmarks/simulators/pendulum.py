"""A double pendulum on a cart (gymnasium, MuJoCo), held up by a linear-quadratic controller designed for other masses.

Decision: the weights of the design (position, angles, rates, effort), on logarithmic scales. Conditions: the factor by
which the upper pole is heavier, and the damping of the joints. Outcome: how long it stays up, in per cent of six
seconds, less effort and drift. A fall ends the episode: a jump.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are

import drbo
from drbo.validation import FloatArray
from simulators import Action, Context, Simulator, clipped, normal_samples, rows

_WITHIN = drbo.Box(mass=(0.4, 2.4), damping=(0.0, 0.6))
_STEPS = 120


@functools.cache
def _world() -> tuple[Any, FloatArray, FloatArray]:
    import gymnasium

    world = gymnasium.make("InvertedDoublePendulum-v5").unwrapped
    masses = world.model.body_mass.copy(), world.model.body_inertia.copy()
    return world, *masses


def _set(mass: float, damping: float) -> Any:
    world, masses, inertias = _world()
    world.model.body_mass[:], world.model.body_inertia[:] = masses, inertias
    world.model.body_mass[-1] *= mass
    world.model.body_inertia[-1] *= mass
    world.model.dof_damping[:] = damping
    return world


def _step(world: Any, state: FloatArray, effort: float) -> FloatArray:
    world.set_state(state[:3], state[3:])
    world.do_simulation(np.array([effort]), world.frame_skip)
    return np.concatenate([world.data.qpos, world.data.qvel])


@functools.cache
def _linear() -> tuple[FloatArray, FloatArray]:
    """Return A and B of the nominal pendulum around the upright position, by central differences."""
    world, h = _set(1.0, 0.05), 1e-5
    world.reset(seed=0)
    eye = np.eye(6)
    a = [(_step(world, h * e, 0.0) - _step(world, -h * e, 0.0)) / (2.0 * h) for e in eye]
    b = (_step(world, np.zeros(6), h) - _step(world, np.zeros(6), -h)) / (2.0 * h)
    return np.array(a).T, b[:, None]


def value(action: Action, context: Context) -> float:
    """Return the score."""
    a, b = _linear()
    q = np.diag([action["position"], action["angles"], action["angles"], *[action["rates"]] * 3])
    r = np.array([[action["effort"]]])
    p = solve_discrete_are(a, b, q, r)
    gains = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)[0]
    world = _set(context["mass"], context["damping"])
    world.reset(seed=0)
    state = np.array([0.1, 0.12, -0.1, 0.0, 0.0, 0.0])
    world.set_state(state[:3], state[3:])
    cost, up = 0.0, _STEPS
    for step in range(_STEPS):
        state = np.concatenate([world.data.qpos, world.data.qvel])
        effort = float(np.clip(-gains @ state, -1.0, 1.0))
        world.do_simulation(np.array([effort]), world.frame_skip)
        cost += 100.0 * abs(effort) + 100.0 * abs(float(world.data.qpos[0]))
        if float(world.data.site_xpos[0][2]) <= 1.0:  # the rule of the environment
            up = step
            break
    return 100.0 * up / _STEPS - cost / _STEPS


def make() -> Simulator:
    """Return the simulator; raise ImportError without gymnasium and MuJoCo."""
    import gymnasium  # noqa: F401  # imported to raise without it
    import mujoco  # noqa: F401  # imported to raise without it

    rng = np.random.default_rng(2)
    usual = clipped(normal_samples(rng, 40, mass=(1.0, 0.12), damping=(0.1, 0.04)), _WITHIN)
    loaded = clipped(normal_samples(rng, 60, mass=(1.7, 0.2), damping=(0.25, 0.08)), _WITHIN)
    return Simulator(
        name="pendulum",
        version=1,
        actions=drbo.Box(
            position=drbo.Log(0.01, 100.0),
            angles=drbo.Log(0.1, 1000.0),
            rates=drbo.Log(0.001, 10.0),
            effort=drbo.Log(0.01, 100.0),
        ),
        contexts=drbo.Samples(usual, within=_WITHIN),
        ambiguity=drbo.Wasserstein(order=2.0, scale={"mass": 1.0, "damping": 0.3}),
        radii=(0.3, 0.9),
        meaning=("a load of 30% of the upper pole, root mean square", "a load of 70%, and joints that rust"),
        shifted=rows(loaded),
        function=value,
        grid=17,
    )
