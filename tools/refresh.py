"""Execute lessons and their solutions in place, as they are committed, and note what they took.

    python -m tools.refresh --only 01 02b

Nothing is left in them that differs from run to run or from machine to machine. With `--record`,
results that a lesson reads and that nobody recorded are recorded while it runs.
"""

import argparse
import hashlib
import os
import time
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient

from fedtutor.__main__ import QUIET, carry_out
from fedtutor.engine.files import ROOT, load_json, numbered, save_json, write_atomically
from fedtutor.experiments.commits import require_committed

SPENT = ROOT / "data" / "speed" / "notebooks.json"  # what each lesson takes


def main(arguments: list[str] | None = None) -> int:
    """Execute what the arguments name; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.refresh", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    parser.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    parser.add_argument("--record", action="store_true", help="record what is missing")
    parser.set_defaults(do=refresh)
    return carry_out(parser, arguments)


def refresh(options) -> int:
    if options.record:
        require_committed(ROOT / "data" / "results")
        os.environ["FEDTUTOR_RECORD"] = "1"  # read by `Run.recorded` in the notebook's kernel
    paths = numbered(options.folder, options.only)
    solutions = [path.parent / "solutions" / path.name for path in paths]
    for path in [*paths, *(path for path in solutions if path.exists())]:
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(
            notebook,
            record_timing=False,
            coalesce_streams=True,  # else where an output is cut differs from run to run
            resources=resources,
            extra_arguments=QUIET,
        )
        spent = timed(client)
        client.execute()
        notebook.metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        }
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number:02d}"
            cell.metadata = kept_metadata(cell)
        write_atomically(path, lambda name, nb=notebook: nbformat.write(nb, name))
        name = path.stem if path in paths else f"solutions of {path.stem}"
        print(f"{name}: {spent['wall']:.0f} s, {spent['cpu']:.0f} of a processor", flush=True)
        if path.parent == ROOT / "notebooks":
            found = load_json(SPENT) if SPENT.exists() else {}
            save_json(SPENT, {**found, path.stem: {**spent, "code": code_of(notebook)}})
    return 0


def kept_metadata(cell) -> dict:
    """Of a cell's metadata, what is the author's: its tags, and whether its input is collapsed."""
    kept = {"tags": cell.metadata.get("tags", [])}
    hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
    kept["jupyter"] = {"source_hidden": True} if hidden else {}
    return {key: value for key, value in kept.items() if value}


def timed(client: NotebookClient) -> dict:
    """Seconds that `client` takes to execute: filled in after each cell.

    "cpu" is processor time of the kernel and its children, "first_figure" that until the first
    figure stands on the screen (None without one), "wall" what a clock says.
    """
    began, spent = time.monotonic(), {"first_figure": None}

    def looked(cell, cell_index, **_):
        spent["wall"] = round(time.monotonic() - began, 1)
        kernel = psutil.Process(client.km.provisioner.process.pid)
        own = kernel.cpu_times()
        times = [own, *(child.cpu_times() for child in kernel.children(recursive=True))]
        gone = own.children_user + own.children_system
        spent["cpu"] = round(gone + sum(t.user + t.system for t in times), 1)
        pictures = ["image/png" in out.get("data", {}) for out in cell.get("outputs", [])]
        if spent["first_figure"] is None and any(pictures):
            spent["first_figure"] = spent["cpu"]

    client.on_cell_executed = looked
    return spent


def code_of(notebook) -> str:
    """Twelve hex digits over the code of a notebook: what was timed."""
    source = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(source.encode()).hexdigest()[:12]


if __name__ == "__main__":
    raise SystemExit(main())
