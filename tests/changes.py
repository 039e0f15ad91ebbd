"""What a new recording changed: runs before and after, and whether chance explains it.

    python tests/changes.py --before COMMIT                       # a summary; not a test
    python tests/changes.py --before COMMIT --markdown CHANGES.md

A group are the runs that differ in their seed alone. Runs with a seed in both recordings are
compared, in points of accuracy of the last round, at home (intra) and on other domains (inter). A
run played again by code that computes the same in another order ends elsewhere, because training
amplifies last digits; so a change is held against the spread over seeds: `beyond` is the mean
change in units of the standard deviation that a difference of two such means has if only the seeds'
spread is at work. Of groups in which nothing has changed, about one in twenty is beyond 2.
"""

import argparse
import io
import math
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from fedtutor import experiments
from fedtutor.engine.files import ROOT

GROUP = ["recipe", "profile", "scenario", "method", "changes"]
SIDES = ("intra", "inter")
MANY = 2.0  # standard deviations


def recorded_at(commit: str, folder: Path) -> Path:
    """`data/results` as a commit has it, below a folder."""
    packed = subprocess.run(["git", "archive", commit, "data/results"], cwd=ROOT, check=True,
                            capture_output=True).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "data" / "results"


def compared(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """One row per group and side: seeds, before, after, change, spread, beyond."""
    both = before.merge(after, on=[*GROUP, "seed"], suffixes=("_before", "_after"))
    rows = []
    for key, runs in both.groupby(GROUP, sort=True):
        for side in SIDES:
            old, new = (runs[f"{side}_{when}"].to_numpy() for when in ("before", "after"))
            if np.isnan(old).any() or np.isnan(new).any():
                continue  # one test set: there are no other domains
            change, spread, count = float((new - old).mean()), math.nan, len(runs)
            if count > 1:
                spread = math.sqrt((old.var(ddof=1) + new.var(ddof=1)) / 2)
            error = spread * math.sqrt(2 / count)
            beyond = change / error if error else math.nan if not change else math.inf
            rows.append([*key, side, count, old.mean(), new.mean(), change, spread, beyond])
    columns = [*GROUP, "side", "seeds", "before", "after", "change", "spread", "beyond"]
    return pd.DataFrame(rows, columns=columns)


def in_words(table: pd.DataFrame, runs: int) -> str:
    """The summary: how far the numbers moved, in which direction, and how many beyond chance."""
    lines = [f"{runs} runs in both recordings, {len(table)} groups and sides."]
    for side, rows in table.groupby("side", sort=False):
        change, known = rows["change"], rows["beyond"].dropna()
        far = known.abs() > MANY
        p = wilcoxon(change).pvalue if change.abs().sum() else 1.0
        lines.append(
            f"{side}: mean change {change.mean():+.2f} points, half of all within "
            f"{change.abs().median():.2f}, the largest {change.abs().max():.1f}; up and down "
            f"alike: p = {p:.2f}; {far.sum()} of {len(known)} ({100 * far.mean():.0f} %) beyond "
            f"{MANY:g} standard deviations of chance."
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--markdown", type=Path, help="write the groups beyond chance there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before = pd.DataFrame(experiments.runs(recorded_at(options.before, Path(folder))))
    after = pd.DataFrame(experiments.runs())
    table = compared(before, after)
    shared = len(before.merge(after, on=[*GROUP, "seed"]))
    words = in_words(table, shared)
    print(words)
    far = table[table["beyond"].abs() > MANY].sort_values("beyond", key=abs, ascending=False)
    print(far.round(2).to_string(index=False))
    if options.markdown:
        body = far.round(2).to_markdown(index=False)
        options.markdown.write_text(f"{words}\n\n{body}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
