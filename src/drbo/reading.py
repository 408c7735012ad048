"""What a command reads: names that a user chose, classes of his own, runs, studies of Optuna and wind data.

Errors name the options of the command line.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from drbo._extras import require
from drbo.printing import notes

if TYPE_CHECKING:
    from drbo import Optimizer
    from drbo.problems import WindSeries


def known(kind: str, given: str, names: tuple[str, ...]) -> str:
    """Return the name that a user meant, in any case."""
    name = given.lower()
    if name not in names:
        (nearest,) = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        raise typer.BadParameter(f"unknown {kind} {given!r}; did you mean {nearest!r}? Known: {', '.join(names)}")
    return name


def classes_named(given: Sequence[str] | None) -> list[type]:
    """Return the classes that a user named as module:Class; modules are found in the present folder, too."""
    found = []
    for text in given or ():
        module, _, name = text.partition(":")
        if not (module and name):
            raise ValueError(f"--class must be module:Class, such as my_sets:Contamination, got {text!r}")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            made = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"--class {text}: {error}") from None
        if not isinstance(made, type):
            raise TypeError(f"--class {text}: {name} is no class")
        found.append(made)
    return found


def load(file: Path, classes: Sequence[type]) -> Optimizer:
    """Return the optimizer of a file."""
    from drbo import Optimizer

    try:
        return Optimizer.load(file, classes)
    except ValueError as error:
        if "needs the class" not in str(error):
            raise
        raise ValueError(f"{error}; here with --class module:Class") from None


def load_study(storage: str, study: str | None, classes: Sequence[type]) -> tuple[Optimizer, str]:
    """Return the optimizer of a study of Optuna, and the name of the study."""
    optuna = require("optuna", "optuna")
    from drbo.integrations.optuna import RobustSampler

    _, sqlite, database = storage.partition("sqlite:///")
    if sqlite and database and not Path(database).is_file():  # Optuna would make an empty one
        raise ValueError(f"--storage {storage}: there is no file {database}")
    try:
        names = optuna.get_all_study_names(storage)
    except Exception as error:  # of whichever library talks to the database
        raise ValueError(f"--storage {storage} cannot be read: {str(error).splitlines()[0]}") from None
    if study is None and len(names) != 1:
        raise ValueError(f"--study must be given: {storage} holds {', '.join(names) or 'no study'}")
    name = names[0] if study is None else study
    if name not in names:
        raise ValueError(f"--study {name}: {storage} holds {', '.join(names) or 'no study'}")
    found = optuna.load_study(study_name=name, storage=storage)
    with notes(UserWarning):
        return RobustSampler.from_study(found, classes=classes).optimizer(found), name


def wind_series(
    data: Path | None, time_column: str | None, power_column: str | None, max_gap: int | None
) -> WindSeries:
    """Return the wind power of a CSV file, or that of La Haute Borne."""
    from drbo.problems import WindDataError, WindDataWarning, la_haute_borne, read_wind_csv

    if data is None:
        return la_haute_borne()
    gap = 24 if max_gap is None else max_gap
    try:
        with notes(WindDataWarning):
            return read_wind_csv(data, time_column=time_column, power_column=power_column, max_gap=gap)
    except WindDataError as error:
        said = re.sub(r"\b(time_column|power_column|max_gap)\b", lambda m: f"--{m[0].replace('_', '-')}", str(error))
        raise ValueError(said) from None
