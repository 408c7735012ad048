"""Build what drbo ships of the COVID-19 test allocation problem: the weights of the interpolation of its samples.

    python scripts/build_covid_data.py covid_allocation.csv [--out FILE]

The samples are evaluations of an epidemic simulation by Tay et al. ("Efficient distributionally robust Bayesian
optimization with worst-case sensitivity", ICML 2022), columns x1, x2, c1, c2, c3, y, from the repository
sebtsh/efficient-distributionally-robust-BO (MIT licence, which stands beside the file that is written). Their f is the
GP interpolation of the samples: an RBF kernel of lengthscale 0.2 in each of the five dimensions, 1e-3 on the diagonal.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from drbo import RBF

OUT = Path(__file__).parents[1] / "src/drbo/problems/data/covid_allocation.npz"


def build(source: Path, out: Path) -> None:
    """Write the points (n, 5) and the weights (n,) with f(z) = sum_i weight_i k(z, point_i)."""
    table = np.loadtxt(source, delimiter=",", skiprows=1)
    points = table[:, :5].astype(np.float32)  # 8 digits were published
    z = points.astype(float)
    weights = cho_solve(cho_factor(RBF(0.2)(z, z) + 1e-3 * np.eye(len(z))), table[:, 5])
    np.savez_compressed(out, points=points, weights=weights)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    build(arguments.source, arguments.out)
