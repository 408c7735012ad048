"""Where perturbations of an action lead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drbo.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Shift:
    """Where perturbations lead, in the model's coordinates: from x to x + start + c M.

    Attributes
    ----------
    start : (d_x,) where the perturbation of coordinates 0 leads
    directions : (d_c, d_x) M; each row has one entry, in the column of the coordinate that it moves
    """

    start: FloatArray
    directions: FloatArray

    def steps(self, contexts: FloatArray) -> FloatArray:
        """Return the way (n, d_x) that perturbations (n, d_c) lead."""
        return np.asarray(self.start + contexts @ self.directions)

    def places(self, actions: FloatArray, contexts: FloatArray) -> FloatArray:
        """Return x_i + xi_j (m n, d_x) for actions (m, d_x) and perturbations (n, d_c), action by action."""
        return np.asarray((actions[:, None, :] + self.steps(contexts)).reshape(-1, len(self.start)))
