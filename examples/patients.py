"""Train a model that must serve every group of patients: one training scores all groups at once."""

import numpy as np

import drbo

PATIENTS = {"young": 620, "middle": 290, "old": 90}
"""How many patients of each group the hospital had; the share of the old will grow, nobody knows how far."""


def train(action: dict[str, float], seed: int) -> dict[str, float]:
    """Return the accuracy in each group; all groups share the luck of one training."""
    rng = np.random.default_rng(seed)
    luck = 0.01 * rng.normal()
    best = {"young": (-2.0, 1.0), "middle": (-2.4, 2.0), "old": (-3.1, 4.5)}  # log10 of the rate, and weight of the old
    return {
        group: float(
            0.92
            - 0.03 * (np.log10(action["rate"]) - rate) ** 2
            - 0.008 * (action["old_weight"] - weight) ** 2
            + luck
            + 0.003 * rng.normal()
        )
        for group, (rate, weight) in best.items()
    }


def main(trainings: int = 12) -> drbo.analysis.Recommendation:
    """Return the settings that do well on average while the share of the old lies between 9% and 40%."""
    opt = drbo.Optimizer(
        actions=drbo.Box(rate=drbo.Log(1e-4, 1e-1), old_weight=(1.0, 6.0)),
        contexts=PATIENTS,
        ambiguity=drbo.Shares(old=(0.09, 0.4)),
        setting=drbo.Simulator(),
    )
    for i in range(trainings):
        s = opt.ask(n_contexts=len(PATIENTS))
        opt.tell(s, train(s.action, seed=i))  # one fact: an outcome per group, whose errors have a part in common
    return opt.recommend()


if __name__ == "__main__":
    print(main())
