"""What `python -m fedtutor notebooks` and `refresh` do: execute them, into pages or in place."""

import os
import time
from collections import Counter
from pathlib import Path

from ..engine.files import ROOT, shown, write_atomically
from ..errors import SettingError, choose

QUIET = ["--log-level=ERROR"]  # a kernel on this machine warns that its sockets are not encrypted


def register(jobs) -> None:
    """Enter notebooks and refresh into the command line."""
    job = jobs.add_parser("notebooks", help="execute notebooks and write pages")
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--profile", default="quick", help="quick (default) or paper")
    job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    job.add_argument("--output", type=Path, default=ROOT / "build", help="where pages go")
    job.set_defaults(do=execute_all)
    job = jobs.add_parser("refresh", help="execute notebooks in place, ready to be committed")
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    job.add_argument("--record", action="store_true",
                     help="keep what is missing or stale in data/results")  # fmt: skip
    job.set_defaults(do=refresh_all)


def execute_all(options) -> int:
    from ..experiments.recipes import PROFILES
    from .pages import write_index

    choose(options.profile, PROFILES, kind="profile", where="--profile")
    notebooks = find(options.folder, options.only)
    rows, began = [], time.monotonic()
    for path in notebooks:
        print(f"{path.stem} ... ", end="", flush=True)
        row = execute(path, options)
        rows.append(row)
        print(row["status"], flush=True)
    write_index(options.output, rows)
    failed = [row["title"] for row in rows if row["failed"]]
    print(f"{len(rows)} notebooks, {len(failed)} failed, {time.monotonic() - began:.0f} s; "
          f"open {shown(options.output / 'index.html')}")  # fmt: skip
    return 1 if failed else 0


def execute(path: Path, options) -> dict:
    """Run one notebook by papermill; its copy and page are written even where a cell failed."""
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from ..papers.verdicts import kind, records_in
    from .pages import title_of, write_page

    copy = options.output / "executed" / path.name
    page = options.output / f"{path.stem}.html"
    write_atomically(copy, lambda name: None)  # one clear error for a folder that is read-only
    began, problem = time.monotonic(), ""
    changed = {} if options.profile == "quick" else {"profile": options.profile}
    try:
        papermill.execute_notebook(
            path, copy, parameters=changed, cwd=path.parent, kernel_name="python3",
            progress_bar=False, extra_arguments=QUIET,
        )  # fmt: skip
    except PapermillExecutionError as error:
        problem = f"FAILED in cell {error.exec_count}: {error.ename}: {error.evalue}"
    executed = nbformat.read(copy, as_version=4)
    write_page(copy, page)
    counts = Counter(kind(record["verdict"]) for record in records_in(executed))
    status = f"{time.monotonic() - began:.0f} s"
    if counts:
        status += "; claims: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    return {"title": title_of(executed), "page": page.name, "failed": bool(problem),
            "status": f"{status}; {problem}" if problem else status}  # fmt: skip


def refresh_all(options) -> int:
    """Execute in place, without anything that differs from run to run or machine to machine."""
    import nbformat
    from nbclient import NotebookClient

    from ..experiments.commits import require_committed

    if options.record:
        require_committed(ROOT / "data" / "results")
        os.environ["FEDTUTOR_RECORD"] = "1"  # read by `Run.recorded` in the notebook's kernel
    for path in find(options.folder, options.only):
        began = time.monotonic()
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(path.parent)}}
        NotebookClient(
            notebook, record_timing=False, resources=resources, extra_arguments=QUIET
        ).execute()
        notebook.metadata = {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        }
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number:02d}"
            tags = cell.metadata.get("tags", [])
            cell.metadata = {"tags": tags} if tags else {}
        write_atomically(path, lambda name, nb=notebook: nbformat.write(nb, name))
        print(f"{path.stem}: {time.monotonic() - began:.0f} s", flush=True)
    return 0


def find(folder: Path, only: list[str]) -> list[Path]:
    """The numbered notebooks in `folder`, or those whose name starts with one of `only`."""
    paths = sorted(folder.glob("[0-9][0-9]*.ipynb"))
    for wanted in only:
        if not any(path.stem.split("_")[0] == wanted or path.stem == wanted for path in paths):
            raise SettingError(
                f"no notebook {wanted!r}", where=shown(folder),
                do=f"choose from {', '.join(path.stem.split('_')[0] for path in paths)}",
            )  # fmt: skip
    chosen = [p for p in paths if not only or p.stem.split("_")[0] in only or p.stem in only]
    if not chosen:
        raise SettingError("no notebook", where=shown(folder), do="name another --folder")
    return chosen
