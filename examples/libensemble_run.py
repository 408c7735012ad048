"""Let libEnsemble run the evaluations: drbo is a generator of the Generator Standard, which Xopt takes, too."""

import contextlib
import tempfile
from typing import Any

import numpy as np
from gest_api.vocs import VOCS
from libensemble import Ensemble, logger
from libensemble.alloc_funcs.start_only_persistent import only_persistent_gens
from libensemble.specs import AllocSpecs, ExitCriteria, GenSpecs, LibeSpecs, SimSpecs

import drbo
from drbo.integrations.gest import RobustGenerator


def beam(point: dict[str, Any]) -> dict[str, float]:
    """Return the spread and the charge of a beam; yours is a simulation on a cluster."""
    spread = (point["magnet"] - 1.0 - 0.3 * point["drift"]) ** 2 + 0.1 * point["phase"] ** 2
    return {"spread": float(spread), "charge": float(5.0 - point["magnet"] - 0.2 * point["drift"])}


def main(evaluations: int = 16, workers: int = 2) -> drbo.analysis.Recommendation:
    """Return what to deploy after this many evaluations by so many workers."""
    vocs = VOCS(
        variables={"magnet": [0.0, 2.0], "phase": [-1.0, 1.0], "drift": [-3.0, 3.0]},  # `drift` is a condition
        objectives={"spread": "MINIMIZE"},
        constraints={"charge": ["GREATER_THAN", 2.5]},
    )
    past = drbo.Samples({"drift": np.random.default_rng(0).normal(0.0, 0.7, 50).clip(-3.0, 3.0)})
    generator = RobustGenerator(vocs, contexts=past, setting=drbo.Simulator(radius=0.1))
    logger.set_level("ERROR")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # libEnsemble goes there, and stays
        Ensemble(
            sim_specs=SimSpecs(simulator=beam, vocs=vocs),
            gen_specs=GenSpecs(generator=generator, vocs=vocs, batch_size=workers),
            alloc_specs=AllocSpecs(alloc_f=only_persistent_gens),
            exit_criteria=ExitCriteria(sim_max=evaluations),
            libE_specs=LibeSpecs(
                comms="threads", nworkers=workers, workflow_dir_path=folder, disable_log_files=True, save_every_k_gens=0
            ),
        ).run()
    return generator.optimizer.recommend()


if __name__ == "__main__":
    print(main())
