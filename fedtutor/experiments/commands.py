"""What `python -m fedtutor` does with runs and results."""

import argparse
import json
import math
import os
import time
from collections import Counter
from pathlib import Path

from ..engine.files import ROOT, shown
from ..errors import SettingError
from .results import RESULTS

FOLDER = {"type": Path, "default": RESULTS,
          "help": "where results lie and go; default data/results"}  # fmt: skip
DEVICE = {"default": "auto", "help": "auto (default), cpu or cuda"}


def register(jobs) -> None:
    """Enter rehearse, queue, stale, again, fold and benchmark into the command line."""
    job = jobs.add_parser("rehearse", help="play two rounds of every method, as the paper has it")
    job.add_argument("recipe", help="e.g. fccl")
    job.add_argument("--scenario", help="another one than the recipe's")
    job.add_argument("--methods", type=names, metavar="A,B", help="default: all of the recipe")
    job.add_argument("--overrides", metavar="JSON", help="e.g. '{\"scenario.public_size\": 1024}'")
    job.add_argument("--device", **DEVICE)
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
    job.add_argument("--device", **DEVICE)
    job.add_argument("--rows", type=count, default=10, help="pack: for so many runs (default 10)")
    job.add_argument("--limit-mb", type=amount, default=60, help="pack: at most (default 60)")
    job.add_argument("--only", default="", metavar="TEXT",
                     help="runs with TEXT in their name; attacks: that name")  # fmt: skip
    job.add_argument("--one", metavar="PATH", help="run: the one whose result is PATH in --results")
    job.add_argument("--threads", type=count, help="run: clients of a run that train at once")
    job.add_argument("--download", action="store_true", help="fetch missing data where possible")
    job.add_argument("--manifest", type=Path, default=ROOT / "data" / "queue.toml",
                     help="the file that names the runs; default data/queue.toml")  # fmt: skip
    job.add_argument("--results", **FOLDER)
    job.add_argument("--kept", type=Path, help="checkpoints; default queue/ in the cache")
    job.set_defaults(do=work_queue)
    job = jobs.add_parser("stale", help="results, looks and attacks whose code has changed since")
    job.add_argument("--results", **FOLDER)
    job.add_argument("--all", action="store_true",
                     help="list all that is stale, dirty, or does not know its code")  # fmt: skip
    job.set_defaults(do=list_stale)
    job = jobs.add_parser("again", help="record again what is stale, dirty or of unknown code")
    job.add_argument("--minutes", type=amount, default=math.inf, help="start no run later")
    job.add_argument("--only", default="", metavar="TEXT", help="results with TEXT in their path")
    job.add_argument("--at-once", type=count, default=1, help="side by side; default 1")
    job.add_argument("--seeds", type=int, nargs="+", default=[], help="further seeds, such as 3 4")
    job.add_argument("--under", type=amount, default=30, metavar="SECONDS",
                     help="--seeds: where every run took less (default 30)")  # fmt: skip
    job.add_argument("--artifacts", type=Path,
                     help="folder for what runs share; default: each makes its own")  # fmt: skip
    job.add_argument("--results", **FOLDER)
    job.add_argument("--dry-run", action="store_true", help="say what there is to do")
    job.add_argument("--elsewhere", action="store_true",
                     help="instead: a random tenth of all runs, on this other processor, into "
                     "data/replays")  # fmt: skip
    job.set_defaults(do=record_again)
    job = jobs.add_parser("fold", help="results: one file of lines in place of one file per run")
    job.add_argument("folder", nargs="?", **FOLDER)
    job.set_defaults(do=fold_results)
    job = jobs.add_parser("benchmark", help="train what notebook 07 reads, as far as it is missing")
    job.add_argument("scenario", nargs="?", default="digits-mini", help="default: digits-mini")
    job.add_argument("--minutes", type=amount, default=180, help="start no run later (default 180)")
    job.add_argument("--methods", type=names, default=[], metavar="A,B",
                     help="default: all that may enter")  # fmt: skip
    job.add_argument("--results", **FOLDER)
    job.set_defaults(do=record_benchmark)


def say(words: str) -> None:
    print(words, flush=True)


def rehearse_all(options) -> int:
    from ..engine.workers import device_of
    from .rehearsal import rehearse, table

    try:
        overrides = json.loads(options.overrides or "{}")
    except ValueError as error:
        raise SettingError(
            f"--overrides is not JSON ({error})", where="rehearse",
            do="write for example --overrides '{\"batch_size\": 256}'",
        ) from None  # fmt: skip
    rows = rehearse(
        options.recipe, scenario=options.scenario, names=options.methods, overrides=overrides,
        device=device_of(options.device), profile=options.profile, folder=options.output,
        threads=options.threads, artifacts=options.artifacts, say=say,
    )  # fmt: skip
    print(table(options.recipe, folder=options.output).iloc[:, :10].round(2).to_string(index=False))
    return 1 if any(row["error"] for row in rows) else 0


def work_queue(options) -> int:
    """List, run or pack; the status is 1 where a run failed. Nothing is downloaded unasked."""
    from ..datasets import sources

    with sources.offline(not options.download):
        return _work_queue(options)


def _work_queue(options) -> int:
    from ..datasets import cache
    from ..engine.workers import device_of
    from . import manifest, packing, worker

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
        say(f"skipped {fault}")
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
    left = left if gpu else [run.on_a_core() for run in left]
    at_once = options.at_once or (min(8, max(1, cores // 2)) if gpu else 1)
    spent = (time.time() - options.began) / 60
    ended = worker.work(
        left, minutes=options.minutes - spent, results=options.results, kept=kept, device=device,
        threads=options.threads or (1 if gpu else max(1, cores // at_once)), at_once=at_once,
        memory=worker.memory_of(device), say=say,
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

    from . import attack_list

    print(pd.DataFrame(attack_list.queued()).to_string(index=False, float_format="{:g}".format))
    spent = (time.time() - options.began) / 60
    played = attack_list.work(
        minutes=options.minutes - spent, only=options.only, device=device,
        threads=options.threads or os.cpu_count() or 1, say=say,
    )  # fmt: skip
    print(f"{len(played)} played")
    return 0


def fold_results(options) -> int:
    """One file of lines per recipe, profile and scenario; the status is 1 where a file stays."""
    from . import results

    count, faults = results.fold(options.folder)
    for fault in faults:
        print(f"left as it is: {fault}")
    print(f"{count} runs folded in {shown(options.folder)}")
    return 1 if faults else 0


def list_stale(options) -> int:
    """Print which results a change of the code made stale."""
    from . import everything

    print(everything.in_words(options.results, every=options.all))
    return 0


def record_again(options) -> int:
    """Play again what is not of today's committed code, or a tenth of all; 1 where a run failed."""
    from . import again, replays

    if options.elsewhere:
        failed = replays.play(
            folder=options.results, to=replays.REPLAYS, only=options.only,
            minutes=options.minutes, dry_run=options.dry_run, say=say,
        )  # fmt: skip
        return 1 if failed else 0
    failed = again.record(
        folder=options.results, only=options.only, seeds=options.seeds, under=options.under,
        minutes=options.minutes, at_once=options.at_once, artifacts=options.artifacts,
        dry_run=options.dry_run, say=say,
    )  # fmt: skip
    return 1 if failed else 0


def record_benchmark(options) -> int:
    """Start where it ended the last time; the status is 1 where a run failed."""
    from . import recording

    failed = recording.record(
        options.scenario, minutes=options.minutes, folder=options.results,
        names=options.methods, say=say,
    )  # fmt: skip
    return 1 if failed else 0


# --- what the words of a command line stand for


def count(text: str) -> int:
    """A whole number from 1."""
    return _number(text, int, 1, "a whole number from 1")


def amount(text: str) -> float:
    """A number from 0."""
    return _number(text, float, 0, "a number from 0")


def names(text: str) -> list[str]:
    """What stands between commas."""
    found = [name.strip() for name in text.split(",")]
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as solo,fedavg")
    return list(dict.fromkeys(found))


def _number(text: str, kind: type, least: int, words: str):
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not value >= least:
        raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
    return value
