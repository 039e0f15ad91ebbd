"""All recorded results as one table: a row per run, and a row per measured accuracy."""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..engine.files import shown
from ..errors import SettingError, choose
from . import results as kept

KEYS = ["recipe", "profile", "scenario", "method", "changes", "seed"]  # no two runs share them


class Runs(pd.DataFrame):
    """What `runs` returns: a pandas DataFrame that also knows the history of its rows.

    Choosing rows keeps it a `Runs`, so that `some[some.method == "fccl"].history` works.
    """

    _metadata = ("folder",)
    folder: Path = kept.RESULTS

    @property
    def _constructor(self):
        return Runs

    @property
    def history(self) -> pd.DataFrame:
        """The accuracies of these runs: one row per evaluation, client and test set.

        run (as in the index) | round | moment | epoch | client | domain | test | accuracy (%).
        `moment` is "end" for the end of a round; `domain` is the client's own test set.
        """
        parts = []
        for run in self.index:
            found = kept.load_result(self.folder / f"{run}.json").history
            for at in found["accuracy"]:
                rows = zip(found["clients"], found["domains"], at["matrix"], strict=True)
                parts += [
                    (run, at["round"], at["moment"], at["epoch"], client, domain, test, 100 * value)
                    for client, domain, row in rows if row is not None
                    for test, value in zip(found["tests"], row, strict=True)
                ]  # fmt: skip
        return pd.DataFrame(parts, columns=["run", "round", "moment", "epoch", "client", "domain",
                                            "test", "accuracy"])  # fmt: skip


def runs(folder=kept.RESULTS, **chosen: str | Sequence[str]) -> Runs:
    """Every run that a folder holds, one per row, sorted; files that cannot be read are left out.

    `chosen` keeps rows by their text columns: `runs(recipe="fccl", method=["fccl", "fedmd"])`;
    `SettingError` for a column or a value that no run has, with the nearest one that there is.

    Columns that tell two runs apart (`KEYS`): recipe, profile ("quick" or "paper"), scenario,
    method, changes (what differs from the recipe, as JSON; "" for nothing), seed. What it was:
    paper, stand_in (other data than the paper's), clients, rounds. What came out, in percent, of
    the last round: intra (own domain, mean over clients), inter (other domains; NaN with a single
    test set), worst (the client with the lowest intra); best_intra of the best round. What it cost:
    bytes_up, bytes_down, bytes_peer; forward and backward (images through a network; NaN where
    they were not counted); seconds. Who made it: device, commit, dirty (whether the code
    differed from the commit), code (its hash). The index is the place of a run below the folder.
    """
    folder, rows = Path(folder), {}
    if not folder.is_dir():
        raise SettingError("there is no folder of results", where=shown(folder),
                           do="check the path")  # fmt: skip
    for path, found in kept.load_all(folder).items():
        if isinstance(found, kept.Result):
            rows[path.relative_to(folder).with_suffix("").as_posix()] = _row(found)
    frame = Runs(pd.DataFrame.from_dict(rows, orient="index"))
    frame.index.name, frame.folder = "run", folder
    frame = frame.sort_values(KEYS, kind="stable") if len(frame) else frame
    for column, values in chosen.items():
        known = [name for name in frame if pd.api.types.is_string_dtype(frame[name])]
        choose(column, known, kind="column", where="experiments.runs")
        wanted = [values] if isinstance(values, str) else list(values)
        for value in wanted:
            choose(value, sorted(frame[column].unique()), kind=column, where="experiments.runs")
        frame = frame[frame[column].isin(wanted)]
    return frame


def _row(found: kept.Result) -> dict:
    sent, work = found.totals["bytes"], found.totals.get("work", {})
    git = found.environment.get("git") or {}
    touching = kept.touching(found.method, found.overrides)
    return {
        "recipe": found.recipe, "profile": found.profile, "scenario": found.scenario["name"],
        "method": found.method, "changes": json.dumps(touching, sort_keys=True) * bool(touching),
        "seed": found.seed, "paper": found.paper, "stand_in": found.scenario["stand_in"],
        "clients": len(found.history["clients"]), "rounds": found.headline["round"],
        **{key: _percent(found.headline[key]) for key in ("intra", "inter", "worst")},
        "best_intra": _percent(found.best["intra"]),
        **{f"bytes_{direction}": sent[direction] for direction in ("up", "down", "peer")},
        "forward": work.get("forward", float("nan")),
        "backward": work.get("backward", float("nan")), "seconds": found.totals["seconds"],
        "device": found.environment["device"], "commit": git.get("commit") or "",
        "dirty": bool(git.get("dirty")),
        "code": (found.environment.get("code") or {}).get("hash", ""),
    }  # fmt: skip


def _percent(share: float | None) -> float:
    return float("nan") if share is None else 100 * share
