"""Where our small setting could not have shown a lead, so that there is no verdict on a claim.

    python -m tools.gates             print the claims and the reasons
    python -m tools.gates --write     write them to data/gates.json, which `papers.Claims` reads

A claim of a ranking or an ablation passes if in one column of its printed tables our rows differ
(an F test over methods that were run with the same seeds, p at most 0.05) and the baseline is above
twice chance. Both are computed from data/results. What no number shows, such as a learning rate
that was tuned for one method alone, stands in data/published/claims.json as `no_verdict`.
"""

import argparse

import pandas as pd
from statsmodels.stats.anova import AnovaRM

from fedtutor.__main__ import carry_out
from fedtutor.difference import LEVEL
from fedtutor.engine.files import save_json
from fedtutor.papers.printed import PAPERS, claims_of
from fedtutor.papers.verdicts import GATES
from fedtutor.report.tables import OPEN, Report, build

KINDS = ("ranking", "ablation")
BASELINES = ("FedAvg", "BASE", "SOLO", "IL")  # the first that a column has
CLASSES = {"Office31": 31, "Office-Home": 65, "FEMNIST": 62, "CIFAR-100": 100}  # others: 10


def main(arguments: list[str] | None = None) -> int:
    """Print the gates, or write them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.gates", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write data/gates.json")
    parser.set_defaults(do=show)
    return carry_out(parser, arguments)


def show(options) -> int:
    found = gates(build())
    for name, why in found.items():
        print(f"{name}: {why}")
    if options.write:
        save_json(GATES, found)
    return 0


def gates(made: Report) -> dict[str, str]:
    """Claim -> why there can be no verdict on it here."""
    tested = columns(made)
    found = {}
    for claim in [claim for paper in PAPERS for claim in claims_of(paper)]:
        mine = tested[(tested["paper"] == claim["paper"]) & tested["table"].isin(claim["tables"])]
        if claim["kind"] not in KINDS or claim.get("equal") or mine.empty:
            continue
        differ = mine[mine["p"] <= LEVEL]
        places = ", ".join(dict.fromkeys(mine["table"]))
        if differ.empty:
            found[claim["id"]] = (
                f"No row of Table {places} differs from the others here (F test over methods, "
                f"{len(mine)} column{'s' * (len(mine) > 1)}, smallest p {mine['p'].min():.2f})."
            )
        elif (differ["baseline"] < 2 * differ["chance"]).all():
            best = differ.loc[differ["baseline"].idxmax()]
            found[claim["id"]] = (
                f"Where the rows of Table {places} differ, the baseline is at most at "
                f"{best['baseline']:.0f} %, and guessing gives {best['chance']:.0f} %."
            )
    return found


def columns(made: Report) -> pd.DataFrame:
    """A row per printed column and line of a manifest that fills three of its rows or more.

    paper | table | run | column | p (of the F test) | baseline (%) | chance (%).
    """
    cells, lines = made.cells, []
    cells = cells[(cells["setting"] != OPEN) & (cells["values"].map(len) > 1)]
    for place, rows in cells.groupby(["paper", "table", "run", "column"], sort=False):
        most = rows["seeds"].mode().iloc[0]  # a row with other seeds cannot be paired with them
        rows = rows[rows["seeds"] == most].drop_duplicates("row")
        values = dict(zip(rows["row"], rows["values"], strict=True))
        if len(values) < 3:
            continue
        name = next((name for name in BASELINES if name in values), next(iter(values)))
        classes = next((n for words, n in CLASSES.items() if words in place[-1]), 10)
        baseline = sum(values[name]) / len(values[name])
        lines.append((*place, paired_f(values), baseline, 100 / classes))
    names = ["paper", "table", "run", "column", "p", "baseline", "chance"]
    return pd.DataFrame(lines, columns=names)


def paired_f(values: dict[str, tuple[float, ...]]) -> float:
    """The p-value of an F test of equal rows, each with one number for every seed."""
    long = pd.DataFrame(values).rename_axis("seed").reset_index()
    long = long.melt("seed", var_name="row", value_name="accuracy")
    table = AnovaRM(long, "accuracy", "seed", within=["row"]).fit().anova_table
    return float(table["Pr > F"].iloc[0])


if __name__ == "__main__":
    raise SystemExit(main())
