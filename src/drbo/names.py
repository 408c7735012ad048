"""The names that the command line and the experiments share; nothing heavy is imported to know them."""

from __future__ import annotations

from enum import StrEnum


class SetName(StrEnum):
    """The sets that DRBO may be robust to."""

    MMD = "mmd"
    TV = "tv"
    KL = "kl"
    CHI2 = "chi2"
    CVAR = "cvar"
    WASSERSTEIN = "wasserstein"
