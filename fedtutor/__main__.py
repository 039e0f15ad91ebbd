"""`python -m fedtutor notebooks`: execute the numbered notebooks and write pages to `build/`.

For maintainers: `python -m fedtutor exercises` makes their exercises from the solutions, and
`python -m fedtutor refresh` executes them in place, as they are committed. Before a long run,
`python -m fedtutor rehearse` plays two rounds of every method of a recipe, and
`python -m fedtutor queue` works through the runs at the papers' settings; `python -m fedtutor
report` sets what was measured beside what the papers print, `python -m fedtutor stale` names what
other code recorded, and `python -m fedtutor benchmark` trains what notebook 07 reads.
"""

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from pathlib import Path

BEGAN = time.time()  # before anything that takes its time

from . import __version__  # noqa: E402
from .engine.files import ROOT, shown, write_atomically  # noqa: E402
from .errors import FedtutorError, SettingError, choose  # noqa: E402

QUIET = ["--log-level=ERROR"]  # a kernel on this machine warns that its sockets are not encrypted


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status: 0, 1 if a notebook or the call failed, 2 if no job is named."""
    parser = command_line()
    options = parser.parse_args(arguments)
    if options.job is None:
        parser.print_help(sys.stderr)
        return 2
    options.began = BEGAN if arguments is None else time.time()
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        return options.do(options)
    except FedtutorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def command_line() -> argparse.ArgumentParser:
    """All jobs with their options; each of them has its line of help."""
    parser = argparse.ArgumentParser(prog="python -m fedtutor", description=__doc__)
    parser.add_argument("--version", action="version", version=f"fedtutor {__version__}",
                        help="print the version and stop")  # fmt: skip
    jobs = parser.add_subparsers(dest="job", metavar="JOB", help="JOB --help shows its options")
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
    job = jobs.add_parser("exercises", help="make the exercises from their solutions")
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--folder", type=Path, default=ROOT / "notebooks", help="where they lie")
    job.set_defaults(do=make_exercises)
    job = jobs.add_parser("rehearse", help="play two rounds of every method, as the paper has it")
    job.add_argument("recipe", help="e.g. fccl")
    job.add_argument("--scenario", help="another one than the recipe's")
    job.add_argument("--methods", type=names, metavar="A,B", help="default: all of the recipe")
    job.add_argument("--overrides", metavar="JSON", help="e.g. '{\"scenario.public_size\": 1024}'")
    job.add_argument("--device", default="auto", help="auto (default), cpu or cuda")
    job.add_argument("--profile", default="paper", help="quick or paper (default)")
    job.add_argument("--threads", type=count, help="clients that train at once; default: the cores")
    job.add_argument("--artifacts", type=Path, help="folder that keeps what methods share")
    job.add_argument("--output", type=Path, default=ROOT / "data" / "rehearsals",
                     help="where the results go")  # fmt: skip
    job.set_defaults(do=rehearse_all)
    job = jobs.add_parser("queue", help="what waits, at the papers' settings: list, run, pack")
    job.add_argument(
        "what", nargs="?", default="list", choices=("list", "run", "pack", "attacks"),
        help="list (default): what is done and what is open; run: play open runs; pack: their "
        "images, to carry along; attacks: the longer ones of notebook 06",
    )  # fmt: skip
    job.add_argument("out", nargs="?", type=Path, help="pack: a new folder")
    job.add_argument("--minutes", type=amount, default=9,
                     help="run, attacks: stop before (default 9)")  # fmt: skip
    job.add_argument("--at-once", type=count, help="run: side by side; default 1, on a GPU up to 8")
    job.add_argument("--device", default="auto", help="auto (default), cpu or cuda")
    job.add_argument("--rows", type=count, default=10, help="pack: for so many runs (default 10)")
    job.add_argument("--limit-mb", type=amount, default=60, help="pack: at most (default 60)")
    job.add_argument("--only", default="", metavar="TEXT",
                     help="runs with TEXT in their name; attacks: that name")  # fmt: skip
    job.add_argument("--one", metavar="PATH", help="run: the one whose result is PATH in --results")
    job.add_argument("--threads", type=count, help="run: clients of a run that train at once")
    job.add_argument("--download", action="store_true", help="fetch missing data where possible")
    job.add_argument("--manifest", type=Path, default=ROOT / "data" / "queue.toml",
                     help="the file that names the runs; default data/queue.toml")  # fmt: skip
    job.add_argument("--results", type=Path, default=ROOT / "data" / "results",
                     help="where results lie and go; default data/results")  # fmt: skip
    job.add_argument("--kept", type=Path, help="checkpoints; default queue/ in the cache")
    job.set_defaults(do=work_queue)
    job = jobs.add_parser("report", help="the papers' tables and claims beside what was measured")
    job.add_argument("--results", type=Path, default=ROOT / "data" / "results",
                     help="where results lie; default data/results")  # fmt: skip
    job.add_argument("--readme", action="store_true", help="write the table into README.md")
    job.add_argument("--all", action="store_true",
                     help="list all that is stale, dirty, or does not know its code")  # fmt: skip
    job.set_defaults(do=write_report)
    job = jobs.add_parser("stale", help="results whose code has changed since")
    job.add_argument("--results", type=Path, default=ROOT / "data" / "results",
                     help="the folder that is looked at")  # fmt: skip
    job.add_argument("--all", action="store_true",
                     help="list all that is stale, dirty, or does not know its code")  # fmt: skip
    job.set_defaults(do=list_stale)
    job = jobs.add_parser("benchmark", help="train what notebook 07 reads, as far as it is missing")
    job.add_argument("scenario", nargs="?", default="digits-mini", help="default: digits-mini")
    job.add_argument("--minutes", type=amount, default=180, help="start no run later (default 180)")
    job.add_argument("--methods", type=names, default=[], metavar="A,B",
                     help="default: all that may enter")  # fmt: skip
    job.add_argument("--results", type=Path, default=ROOT / "data" / "results",
                     help="where results lie and go; default data/results")  # fmt: skip
    job.set_defaults(do=record_benchmark)
    return parser


def count(text: str) -> int:
    """A whole number from 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return value


def amount(text: str) -> float:
    """A number from 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return value


def names(text: str) -> list[str]:
    """What stands between commas, for argparse."""
    found = [name.strip() for name in text.split(",")]
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as solo,fedavg")
    return list(dict.fromkeys(found))


def make_exercises(options) -> int:
    """Copy questions, stubs and checks from `solutions/` into the notebooks."""
    from .notebook.exercises import generate

    for path in generate(options.folder, options.only):
        print(f"{path.stem}: new exercises; now python -m fedtutor refresh --only {path.stem}")
    return 0


def rehearse_all(options) -> int:
    from .engine.workers import device_of
    from .experiments.rehearsal import rehearse, table

    try:
        overrides = json.loads(options.overrides or "{}")
    except ValueError as error:
        raise SettingError(
            f"--overrides is not JSON ({error})", where="rehearse",
            do="write for example --overrides '{\"batch_size\": 256}'",
        ) from None  # fmt: skip
    rows = rehearse(
        options.recipe, scenario=options.scenario, names=options.methods,
        overrides=overrides, device=device_of(options.device), profile=options.profile,
        folder=options.output, threads=options.threads, artifacts=options.artifacts,
        say=lambda words: print(words, flush=True),
    )  # fmt: skip
    print(table(options.recipe, folder=options.output).iloc[:, :10].round(2).to_string(index=False))
    return 1 if any(row["error"] for row in rows) else 0


def work_queue(options) -> int:
    """List, run or pack; the status is 1 where a run failed. Nothing is downloaded unasked."""
    before = os.environ.get("FEDTUTOR_OFFLINE", "")
    os.environ["FEDTUTOR_OFFLINE"] = "" if options.download else "1"  # child processes see it, too
    try:
        return _work_queue(options)
    finally:
        os.environ["FEDTUTOR_OFFLINE"] = before


def _work_queue(options) -> int:
    from .datasets import cache
    from .engine.workers import device_of
    from .experiments import manifest, packing, worker

    if options.out and options.what != "pack":
        raise SettingError(f"{options.out} is one name too many", where=f"queue {options.what}",
                           do="name a folder for queue pack alone")  # fmt: skip
    device, kept = device_of(options.device), options.kept or cache.folder() / "queue"
    if options.what == "attacks":
        return work_attacks(options, device)
    runs = [run for run in manifest.load(options.manifest) if options.only in run.name
            and options.one in (None, run.path("").as_posix())]  # fmt: skip
    if not runs:
        raise SettingError("no run", where=f"--only {options.only!r}, --one {options.one}",
                           do="see queue list")  # fmt: skip
    found, faults = manifest.survey(runs, options.results)
    for fault in faults:
        print(f"skipped {fault}", flush=True)
    runs = manifest.measured(runs, found, device)
    done = manifest.valid(found)
    left = manifest.in_order([r for r in runs if r.path(options.results) not in done], kept)
    if options.what == "list":
        print(manifest.overview(runs, found, options.results, kept))
        print(manifest.totals(runs, left, kept, again=len(found) - len(done)))
        if options.manifest == manifest.MANIFEST:
            print("attacks of notebook 06 wait beside them: python -m fedtutor queue attacks")
        return 0
    if options.what == "pack":
        if options.out is None:
            raise SettingError("no folder", where="queue pack", do="name one: queue pack OUT")
        here = [run for run in left if manifest.absent(run) is None]
        packing.pack(here[: options.rows], options.out, limit=options.limit_mb)
        return 0
    cores, gpu = os.cpu_count() or 1, device.startswith("cuda")
    at_once = options.at_once or (min(8, max(1, cores // 2)) if gpu else 1)
    spent = (time.time() - options.began) / 60
    ended = worker.work(
        left, minutes=options.minutes - spent, results=options.results, kept=kept, device=device,
        threads=options.threads or (1 if gpu else max(1, cores // at_once)), at_once=at_once,
        memory=worker.memory_of(device), say=lambda words: print(words, flush=True),
    )  # fmt: skip
    counts = Counter(outcome for _, outcome, _ in ended)
    print(", ".join(f"{n} {outcome}" for outcome, n in counts.items()) or
          "nothing to start: all is done, or no open run ends a round in that time and memory; "
          "see python -m fedtutor queue")  # fmt: skip
    unfinished = options.one and not manifest.valid(manifest.survey(runs[:1], options.results)[0])
    return 1 if counts["failed"] or unfinished else 0


def work_attacks(options, device: str) -> int:
    """List the attacks that wait, and play as many as the minutes allow."""
    import pandas as pd

    from .experiments import attack_list

    print(pd.DataFrame(attack_list.queued()).to_string(index=False, float_format="{:g}".format))
    spent = (time.time() - options.began) / 60
    played = attack_list.work(
        minutes=options.minutes - spent, only=options.only, device=device,
        threads=options.threads or os.cpu_count() or 1, say=lambda words: print(words, flush=True),
    )  # fmt: skip
    print(f"{len(played)} played")
    return 0


def write_report(options) -> int:
    """Print what is covered, skipped and stale, or make the README's table anew."""
    from .experiments import stale
    from .report import ledger, tables

    if options.readme:
        print("README.md: " + ("new" if tables.update_readme() else "as it was"))
        return 0
    made, book = tables.build(options.results), ledger.read()
    for fault in made.faults:
        print(f"skipped {fault}")
    print(made.coverage(book).to_string(index=False))
    print(ledger.counts(book).to_string())
    print("\n" + stale.in_words(stale.states(options.results), every=options.all))
    return 0


def list_stale(options) -> int:
    """Print which results a change of the code made stale."""
    from .experiments import stale

    print(stale.in_words(stale.states(options.results), every=options.all))
    return 0


def record_benchmark(options) -> int:
    """Start where it ended the last time; the status is 1 where a run failed, 130 after Ctrl-C."""
    from .experiments import arenas

    try:
        failed = arenas.record(
            options.scenario, minutes=options.minutes, folder=options.results,
            names=options.methods, say=lambda words: print(words, flush=True),
        )  # fmt: skip
    except KeyboardInterrupt:
        print("stopped; what is done is kept, and the same command goes on from there")
        return 130
    return 1 if failed else 0


def refresh_all(options) -> int:
    """Execute in place, without anything that differs from run to run or machine to machine."""
    import nbformat
    from nbclient import NotebookClient

    from .experiments.commits import require_committed

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


def execute_all(options) -> int:
    from .experiments.recipes import PROFILES
    from .site.pages import write_index

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


def execute(path: Path, options) -> dict:
    """Run one notebook by papermill; its copy and page are written even where a cell failed."""
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from .experiments.results import verdicts_in
    from .site.pages import title_of, write_page

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
    counts = verdicts_in(executed)
    status = f"{time.monotonic() - began:.0f} s"
    if counts:
        status += "; claims: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    return {"title": title_of(executed), "page": page.name, "failed": bool(problem),
            "status": f"{status}; {problem}" if problem else status}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
