"""What `fedtutor pages`, `notebooks` and `refresh` do: pages, executed or not, and execution."""

import hashlib
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.files import ROOT, load_json, numbered, save_json, shown, write_atomically
from ..errors import choose

if TYPE_CHECKING:
    from .pages import Site

SPENT = ROOT / "data" / "speed" / "notebooks.json"  # what a notebook takes, see `refresh`
QUIET = ["--log-level=ERROR"]  # a kernel on this machine warns that its sockets are not encrypted


def register(jobs) -> None:
    """Enter pages, notebooks and refresh into the command line."""
    read = jobs.add_parser("pages", help="write pages of the notebooks as they are, unexecuted")
    pages = jobs.add_parser("notebooks", help="execute notebooks and write pages")
    fresh = jobs.add_parser("refresh", help="execute notebooks in place, ready to be committed")
    for job, do in ((read, write_all), (pages, execute_all), (fresh, refresh_all)):
        job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
        job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
        job.set_defaults(do=do)
    pages.add_argument("--profile", default="quick", help="quick (default) or paper")
    for job in (read, pages):
        job.add_argument("--output", type=Path, default=ROOT / "build", help="where pages go")
    fresh.add_argument("--record", nargs="?", const="all", default="", choices=("all", "missing"),
                       help="keep all that is missing or stale, or the missing")  # fmt: skip


def write_all(options) -> int:
    """Pages from the outputs that the notebooks hold; nothing is executed."""
    import nbformat

    from . import decks
    from .api import write_reference
    from .pages import write_index, write_page

    began = time.monotonic()
    paths, site = _site(options)
    took, rows = load_json(SPENT) if SPENT.exists() else {}, []
    for path in paths:
        write_page(path, site)
        seconds = took.get(path.stem, {}).get("wall")
        status = f"as committed; executes in {seconds:.0f} s" if seconds else "as committed"
        told = _claims(nbformat.read(path, as_version=4))
        beside = [page.relative_to(site.folder).as_posix() for page in decks.write(path, site)]
        rows.append({"page": f"{path.stem}.html", "failed": False, "status": status + told,
                     "beside": beside})  # fmt: skip
    write_index(site, rows, write_reference(site))
    print(f"{len(rows)} pages, {time.monotonic() - began:.0f} s; "
          f"open {shown(options.output / 'index.html')}")  # fmt: skip
    return 0


def _site(options) -> tuple[list[Path], "Site"]:
    """The notebooks that were asked for, and the site that their pages go to."""
    import nbformat

    from .pages import Site, title_of

    paths = numbered(options.folder, options.only)
    titles = {f"{p.stem}.html": title_of(nbformat.read(p, as_version=4)) for p in paths}
    return paths, Site(options.output, titles)


def _claims(notebook) -> str:
    """How many claims of an executed notebook have which verdict; nothing where it has none."""
    from ..papers.verdicts import kind, records_in

    counts = Counter(kind(record["verdict"]) for record in records_in(notebook))
    told = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    return f"; claims: {told}" if told else ""


def execute_all(options) -> int:
    from ..experiments.recipes import PROFILES
    from .api import write_reference
    from .pages import write_index

    choose(options.profile, PROFILES, kind="profile", where="--profile")
    (paths, site), rows, began = _site(options), [], time.monotonic()
    for path in paths:
        print(f"{path.stem} ... ", end="", flush=True)
        row = execute(path, site, options.profile)
        rows.append(row)
        print(row["status"], flush=True)
    write_index(site, rows, write_reference(site))
    failed = sum(row["failed"] for row in rows)
    print(f"{len(rows)} notebooks, {failed} failed, {time.monotonic() - began:.0f} s; "
          f"open {shown(options.output / 'index.html')}")  # fmt: skip
    return 1 if failed else 0


def execute(path: Path, site, profile: str) -> dict:
    """Run one notebook by papermill; its copy and page are written even where a cell failed."""
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from .pages import write_page

    copy = site.folder / "executed" / path.name
    write_atomically(copy, lambda name: None)  # one clear error for a folder that is read-only
    began, problem = time.monotonic(), ""
    changed = {} if profile == "quick" else {"profile": profile}
    try:
        papermill.execute_notebook(
            path, copy, parameters=changed, cwd=path.parent, kernel_name="python3",
            progress_bar=False, extra_arguments=QUIET,
        )  # fmt: skip
    except PapermillExecutionError as error:
        problem = f"FAILED in cell {error.exec_count}: {error.ename}: {error.evalue}"
    executed = nbformat.read(copy, as_version=4)
    write_page(copy, site)
    status = f"{time.monotonic() - began:.0f} s{_claims(executed)}"
    return {"page": f"{path.stem}.html", "failed": bool(problem),
            "status": f"{status}; {problem}" if problem else status}  # fmt: skip


def refresh_all(options) -> int:
    """Execute notebooks and their solutions in place, as they are committed.

    Nothing is left in them that differs from run to run or from machine to machine.
    """
    import nbformat
    from nbclient import NotebookClient

    from ..experiments.commits import require_committed

    if options.record:
        require_committed(ROOT / "data" / "results")
        os.environ["FEDTUTOR_RECORD"] = (
            options.record
        )  # read by `Run.recorded` in the notebook's kernel
    paths = numbered(options.folder, options.only)
    solutions = [path.parent / "solutions" / path.name for path in paths]
    for path in [*paths, *(path for path in solutions if path.exists())]:
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(
            notebook, record_timing=False, resources=resources, extra_arguments=QUIET
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


def timed(client) -> dict:
    """Seconds that `client` (a `NotebookClient`) takes to execute: filled in after each cell.

    "cpu" is processor time of the kernel and its children, "first_figure" that until the first
    figure stands on the screen (None without one), "wall" what a clock says.
    """
    import psutil

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
