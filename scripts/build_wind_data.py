"""Build the wind series that drbo ships: hourly power of the La Haute Borne wind farm, 2014 and 2015.

    python scripts/build_wind_data.py [--wheel openoa-3.2-py3-none-any.whl] [--out FILE]

The measurements are ENGIE's, under the Licence Ouverte / Open Licence 2.0. They come inside the PyPI wheel
`openoa==3.2`, which is downloaded and opened as a zip, never installed. Labels are taken as UTC and their offset is
ignored: they run on a constant clock, and only so does the series line up with the reanalysis wind of the same wheel.
An hour's value is four times the mean of its valid turbine samples; hours with fewer than 12 of 24 valid samples are
interpolated; negative values are set to 0.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import math
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WHEEL = "openoa==3.2"
ARCHIVE = "examples/data/la_haute_borne.zip"
ARCHIVE_SHA256 = "be5ea66a3355286e491f5618250dc83e85252a8cb337748d7ba19edc50df6138"
TABLE = "la-haute-borne-data-2014-2015.csv"
TURBINES = 4
ENOUGH_SAMPLES = 12
OUT = Path(__file__).parents[1] / "src/drbo/problems/data/la_haute_borne_2014_2015.csv"
HEADER = """\
# La Haute Borne wind farm (France, 4 turbines of 2,050 kW): mean power of the farm in every hour of 2014 and 2015.
# Source: ENGIE, https://opendata-renewables.engie.com (data updated on 9 October 2019), as packed in openoa 3.2 (PyPI).
# Licence: Licence Ouverte / Open Licence 2.0 (Etalab), https://www.etalab.gouv.fr/wp-content/uploads/2018/11/open-licence.pdf
# Changes by drbo: labels read as UTC; 10-minute samples of the turbines averaged to hours of the farm;
# {n_missing} hours in {n_gaps} gaps with fewer than 12 of 24 valid samples interpolated;
# {n_negative} negative hours (own consumption) set to 0; rounded to 0.1 kW.
# time_utc is the start of the hour. Built by scripts/build_wind_data.py: do not edit.
"""

Hours = NDArray[np.datetime64]
Floats = NDArray[np.float64]


def download(folder: Path) -> Path:
    """Return the wheel, downloaded into the folder."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def open_table(wheel: Path) -> io.TextIOWrapper:
    """Return the table of measurements inside the wheel, after checking that it is the one we know."""
    archive = zipfile.ZipFile(wheel).read(ARCHIVE)
    digest = hashlib.sha256(archive).hexdigest()
    if digest != ARCHIVE_SHA256:
        raise SystemExit(f"{ARCHIVE} has sha256 {digest}, expected {ARCHIVE_SHA256}")
    return io.TextIOWrapper(zipfile.ZipFile(io.BytesIO(archive)).open(TABLE), encoding="utf-8", newline="")


def hourly(rows: Iterable[Mapping[str, str]]) -> tuple[Hours, Floats]:
    """Return consecutive hours (n,) and the farm's mean power in each, nan where too few samples are valid (n,)."""
    samples: dict[str, list[float]] = {}
    for row in rows:
        sample = float(row["P_avg"] or "nan")
        valid = samples.setdefault(row["Date_time"][:13], [])
        if not math.isnan(sample):
            valid.append(sample)
    first, last = (np.datetime64(label, "h") for label in (min(samples), max(samples)))
    hours = np.arange(first, last + np.timedelta64(1, "h"))
    valid_samples = (samples.get(str(hour), []) for hour in hours)
    power = [TURBINES * float(np.mean(v)) if len(v) >= ENOUGH_SAMPLES else math.nan for v in valid_samples]
    return hours, np.array(power)


def interpolate(power: Floats) -> Floats:
    """Return the series with every nan replaced by linear interpolation between its neighbours in time."""
    position, missing = np.arange(len(power)), np.isnan(power)
    return np.asarray(np.interp(position, position[~missing], power[~missing]))


def check(name: str, value: object, expected: object) -> None:
    """Stop unless the data are what `shared/data/README.md` says they are."""
    if value != expected:
        raise SystemExit(f"{name} is {value}, expected {expected}")


def main() -> None:
    """Build the file and print what was found."""
    parser = argparse.ArgumentParser(description="Build the wind series that drbo ships.")
    parser.add_argument("--wheel", type=Path, help="an openoa 3.2 wheel that is already here (default: download it)")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel or download(Path(folder))
        with open_table(wheel) as table:
            hours, measured = hourly(csv.DictReader(table))

    missing = np.isnan(measured)
    n_gaps = int(np.count_nonzero(np.diff(missing.astype(int), prepend=0) == 1))
    power = interpolate(measured)
    check("number of hours", len(hours), 17_520)
    check("first and last hour", (str(hours[0]), str(hours[-1])), ("2014-01-01T01", "2016-01-01T00"))
    check("interpolated hours and gaps", (int(missing.sum()), n_gaps), (68, 7))
    check("mean before clipping", round(float(power.mean()), 1), 1413.6)
    check("maximum", round(float(power.max()), 1), 8198.1)

    header = HEADER.format(n_missing=int(missing.sum()), n_gaps=n_gaps, n_negative=int((power < 0.0).sum()))
    lines = [f"{hour}Z,{max(0.0, round(float(p), 1)):.1f}\n" for hour, p in zip(hours, power, strict=True)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(header + "time_utc,power_kw\n" + "".join(lines), encoding="utf-8", newline="\n")
    print(f"{options.out}: {len(hours):,} hours, {options.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
