"""Evaluate on a Dask cluster: here of processes on this machine; `Client("address")` connects to any other one."""

import numpy as np
from distributed import Client, LocalCluster

import drbo


def simulate(action: dict[str, float], context: dict[str, float]) -> float:
    """Return the yield of a reactor; yours takes an hour on a machine of its own."""
    heat = action["temperature"] + 0.5 * context["outdoor"]
    return float(-(((heat - 80.0) / 10.0) ** 2) - (action["flow"] - 2.0 * context["purity"]) ** 2)


def main(evaluations: int = 16, workers: int = 2) -> drbo.analysis.Recommendation:
    """Return what to deploy after this many simulations on so many workers."""
    rng = np.random.default_rng(0)
    archive = np.column_stack([rng.normal(8.0, 6.0, 60), rng.uniform(0.7, 1.0, 60)])
    opt = drbo.Optimizer(
        actions=drbo.Box(temperature=(60.0, 100.0), flow=(0.5, 3.0)),
        contexts=drbo.Samples(archive, names=["outdoor", "purity"]),
        setting=drbo.Simulator(radius=0.1),
    )
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        # Not pure: two evaluations of the same action in the same conditions are two results.
        pool = client.get_executor(pure=False)
        return drbo.run(opt, simulate, evaluations, executor=pool, workers=workers)


if __name__ == "__main__":
    print(main())
