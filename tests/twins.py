"""Ways in which an optimizer may be interrupted, after each of which it must go on with the same bits."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

from drbo import Optimizer


def saved(opt: Optimizer, path: Path) -> Optimizer:
    opt.save(path)
    return Optimizer.load(path)


def dropped(opt: Optimizer, path: Path) -> Optimizer:
    del path
    opt._start_anew()
    return opt


TWINS: dict[str, Callable[[Optimizer, Path], Optimizer]] = {
    "saved": saved,
    "dropped": dropped,
    "copied": lambda opt, _: copy.deepcopy(opt),
    "pickled": lambda opt, _: pickle.loads(pickle.dumps(opt)),
}
