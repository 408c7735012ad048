"""Names shared by the command line and the experiments, without heavy imports."""

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


class SettingName(StrEnum):
    """The settings of the paper: who gives the reference and the radius, and who picks the context."""

    GENERAL = "general"
    DATA_DRIVEN = "data-driven"
    SIMULATOR = "simulator"


class MethodName(StrEnum):
    """The methods that can be compared."""

    DRBO = "drbo"
    INFORMATIVE = "informative"
    JOINT = "joint"
    UCB = "ucb"
    STABLEOPT = "stableopt"
    EMBEDDING = "embedding"
    EMBEDDING_HIDDEN = "embedding-hidden"
    STABLEOPT_OWN = "stableopt-own"
    THOMPSON = "thompson"
    SATISFICING = "satisficing"
    SENSITIVITY = "sensitivity"
    CHANCE = "chance"
    LEVEL_SET = "level-set"
    SBO_KDE = "sbo-kde"
    DRBO_KDE = "drbo-kde"
    WDRBO = "wdrbo"
    RRGP_UCB = "rrgp-ucb"
    ENSEMBLE = "ensemble"
