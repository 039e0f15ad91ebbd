"""What `fedtutor run` and `fedtutor compare` do: they call `compare`, and print what it returns."""

import importlib.util
import sys
import traceback
from pathlib import Path

import pandas as pd

from . import methods, scenarios
from .command_line import changes
from .comparison import Comparison, compare
from .difference import Difference
from .engine.files import here, key_of, write_atomically
from .errors import FedtutorError, SettingError, choose
from .history import OTHERS, OWN
from .settings import FIELDS
from .tasks import FILE


def run_one(options) -> int:
    """Train one method and print a row per client; the status is 1 where every run diverged."""
    runs = compared(options, [options.method])
    _say_head(runs, options.method)
    done = runs.runs["failed"] == ""
    if done.any():
        print(clients(runs).to_string())
        sent = runs.messages.groupby("source")["bytes"].sum() / done.sum() / 1e6
        words = f"{sent.get('server', 0):.2f} MB to the clients, "
        words += f"{sent.get('clients', 0):.2f} MB from them"
        print(f"\nsent{' by each run' * bool(done.sum() > 1)}: {words}")
    _say_failed(runs)
    if options.folder:
        print(f"\nkept: {here(options.folder / FILE)}")
    return 0 if done.any() else 1


def compare_many(options) -> int:
    """Train several methods, print tables and differences, and write them into the folder."""
    runs = compared(options, options.methods)
    first = options.methods[0]
    _say_head(runs, f"{len(options.methods)} methods")
    for on in sides(runs):
        print(f"{on}\n{runs.table(on).round(1).to_string()}\n")
    for line in differences(runs, first):
        print(line)
    _say_failed(runs)
    if options.folder:
        print()
        for path in written(runs, first, options.folder):
            print(f"written: {here(path)}")
    return 0 if (runs.runs["failed"] == "").any() else 1


def compared(options, names: list[str]) -> Comparison:
    """The runs that the options ask for."""
    for path in options.imports:
        load(path)
    for name in names:
        choose(name, methods.METHODS, kind="method", where=options.job)
    given = changes(options, names)
    for key in given:
        if key.rpartition(".")[0] not in (*names, "scenario"):
            choose(key, FIELDS, kind="setting", where="--set")
    return compare(
        [methods.make(name, **_below(name, given)) for name in names],
        scenario=_scenario(options.scenario, _below("scenario", given)),
        seeds=options.seeds,
        jobs=options.jobs,
        folder=options.folder,
        device=options.device,
        **{key: value for key, value in given.items() if key in FIELDS},
    )


def _below(head: str, given: dict) -> dict:
    """{"mu": 0.1} of {"fedprox.mu": 0.1, ...} for "fedprox"."""
    return {k.partition(".")[2]: v for k, v in given.items() if k.startswith(f"{head}.")}


def _scenario(name: str, options: dict):
    """What `compare` takes: a name, or with options a function of the seed."""
    known = scenarios.options(
        choose(name, scenarios.SCENARIOS, kind="scenario", where="--scenario")
    )
    if not options:
        return name
    if "split_seed" not in known or "split_seed" in options:
        return scenarios.build(name, **options)
    return lambda seed: scenarios.build(name, **options, split_seed=seed)


def load(path: Path) -> None:
    """Execute a Python file, so that what it registers is known.

    It is a module with a name of its own; what lies beside the file can be imported there. Raises
    `SettingError` where it is no file, or stops with an error.
    """
    path = path.resolve()
    name = f"imported_{path.stem}_{key_of(str(path))}"
    if path.suffix != ".py" or not path.is_file():
        raise SettingError(
            f"there is no file {path.name}",
            where=f"--import {here(path)}",
            do="give the path of a Python file, such as --import my.py",
        )
    about = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(about)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        about.loader.exec_module(module)
    except FedtutorError:
        raise
    except Exception as error:  # whatever a reader's file raises
        lines = [
            at.lineno
            for at in traceback.extract_tb(error.__traceback__, limit=-9)
            if at.filename == str(path)
        ]
        line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else lines[-1:]
        place = f", line {line if isinstance(line, int) else line[0]}" if line else ""
        raise SettingError(
            f"{type(error).__name__}: {error}",
            where=f"--import {here(path)}{place}",
            do="correct the file, and try it alone with python",
        ) from None


# --- what is shown


def sides(runs: Comparison) -> list[str]:
    """Own domains, and other domains where there are several test sets."""
    return [OWN] + [OTHERS] * bool(runs.runs[OTHERS].notna().any())


def clients(runs: Comparison) -> pd.DataFrame:
    """A row per client of one method, after the last round; with several seeds as intervals."""
    rows = runs.history
    rows = rows[(rows["round"] == rows["round"].max()) & (rows["moment"] == "end")]
    shown = {}
    for on in sides(runs):
        part = rows[rows["on"] == on]
        wide = part.pivot_table(
            index="seed", columns="client", values="accuracy", observed=True, sort=False
        )
        wide["mean of all clients"] = part.groupby("seed")["accuracy"].mean()
        shown[on] = {client: in_words(values) for client, values in wide.items()}
    return pd.DataFrame(shown).rename_axis("client")


def in_words(values) -> str:
    """One value as it is; of several, mean and 95 % interval."""
    found = Difference(values.dropna())
    if found.n == 1:
        return f"{found.mean:.1f}"
    low, high = found.interval()
    return f"{found.mean:.1f} [{low:.1f}, {high:.1f}]"


def differences(runs: Comparison, first: str) -> list[str]:
    """A line per other method and side: what may be said of it against the first."""
    lines = []
    for on in sides(runs):
        values = runs.values(on)
        for name in [name for name in values if name != first]:
            both = values[[first, name]].dropna()
            nothing = f"{name} minus {first}, {on}: no seed has both"
            lines.append(str(runs.difference(name, first, on)) if len(both) else nothing)
    return lines


def written(runs: Comparison, first: str, folder: Path) -> list[Path]:
    """Write table.csv, table.md, curves.png and differences.png; the paths."""
    tables = {on: runs.table(on) for on in sides(runs)}
    long = pd.concat([table.reset_index().assign(on=on) for on, table in tables.items()])
    long = long[["method", "on", *tables[OWN].columns]]
    said = differences(runs, first)
    page = "".join(f"## {on}\n\n{t.round(1).to_markdown()}\n\n" for on, t in tables.items())
    page += "".join(f"- {line}\n" for line in said)
    made = {
        "table.csv": lambda path: long.to_csv(path, index=False),
        "table.md": lambda path: Path(path).write_text(page, encoding="utf-8"),
    }
    if len(runs.history):
        made["curves.png"] = lambda path: runs.curves().savefig(path, format="png", dpi=150)
    if said and not any("no seed has both" in line for line in said):
        made["differences.png"] = lambda path: runs.differences(first).savefig(
            path, format="png", dpi=150
        )
    for name, write in made.items():
        write_atomically(folder / name, write)
    return [folder / name for name in made]


def _say_head(runs: Comparison, who: str) -> None:
    task, seeds = runs.pairs[0][0], list(dict.fromkeys(task.seed for task, _ in runs.pairs))
    spoken = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    last = f"{task.settings.rounds} round{'s' * (task.settings.rounds > 1)}"
    print(f"{who} on {task.scenario.name}, {spoken}: accuracy in percent after {last}", end="")
    print("; mean and 95 % interval" * (len(seeds) > 1) + "\n")


def _say_failed(runs: Comparison) -> None:
    for row in runs.runs[runs.runs["failed"] != ""].itertuples():
        print(f"failed: {row.method}, seed {row.seed}: {row.failed}")
