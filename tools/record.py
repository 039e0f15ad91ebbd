"""Record runs: what the workflow in `tools/Snakefile` calls, and what is recorded beside it.

    python -m tools.record run PATH         one run of a manifest, from its checkpoint on
    python -m tools.record attack NAME      one study of notebooks 06 and 06a, anew
    python -m tools.record benchmark        what notebook 07 reads, as far as it is missing
    python -m tools.record rehearse RECIPE  two rounds of every method, before a long run
    python -m tools.record fold             one file of lines in place of a file per run

Nothing is downloaded unasked, and data/ takes nothing of uncommitted code.
"""

import argparse
import json
import os
from pathlib import Path

from fedtutor.__main__ import carry_out
from fedtutor.datasets import cache, sources
from fedtutor.engine.files import shown
from fedtutor.engine.workers import device_of
from fedtutor.errors import SettingError, choose
from fedtutor.experiments import attack_list, manifest, rehearsal, results, worker

from . import arenas


def main(arguments: list[str] | None = None) -> int:
    """Do one of the jobs; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = parser.add_subparsers(metavar="JOB")
    job = jobs.add_parser("run", help="one run of a manifest")
    job.add_argument("path", help="its result below the folder of results")
    job.add_argument("--manifest", type=Path, default=manifest.MANIFEST)
    job.add_argument("--results", type=Path, default=results.RESULTS, help="default data/results")
    job.add_argument("--kept", type=Path, help="checkpoints; default queue/ in the cache")
    _machine(job)
    job.set_defaults(do=record_run)
    job = jobs.add_parser("attack", help="one study of attacks")
    job.add_argument("name", help="e.g. figure-6")
    _machine(job)
    job.set_defaults(do=record_attack)
    job = jobs.add_parser("benchmark", help="every method in every arena of notebook 07")
    job.add_argument("scenario", nargs="?", default="digits-mini", help="default: digits-mini")
    job.add_argument("--methods", nargs="+", default=[], help="default: all that may enter")
    job.add_argument("--results", type=Path, default=results.RESULTS, help="default data/results")
    job.set_defaults(do=record_benchmark)
    job = jobs.add_parser("rehearse", help="two rounds of every method of a recipe")
    job.add_argument("recipe", help="e.g. fccl")
    job.add_argument("--scenario", help="another one than the recipe's")
    job.add_argument("--methods", nargs="+", help="default: all of the recipe")
    job.add_argument("--overrides", default="{}", metavar="JSON")
    job.add_argument("--profile", default="paper", help="quick or paper (default)")
    job.add_argument("--artifacts", type=Path, help="folder that keeps what methods share")
    job.add_argument("--output", type=Path, default=rehearsal.REHEARSALS)
    _machine(job)
    job.set_defaults(do=rehearse)
    job = jobs.add_parser("fold", help="one file of lines in place of a file per run")
    job.add_argument("folder", nargs="?", type=Path, default=results.RESULTS)
    job.set_defaults(do=fold)
    return carry_out(parser, arguments)


def _machine(job: argparse.ArgumentParser) -> None:
    job.add_argument("--device", default="auto", help="auto (default), cpu or cuda")
    job.add_argument("--threads", type=int, help="clients that train at once; default: the cores")


def record_run(options) -> int:
    """Play the run whose result is `options.path`."""
    every = {run.path("").as_posix(): run for run in manifest.load(options.manifest)}
    choose(options.path, every, kind="run", where=shown(options.manifest))
    with sources.offline():
        said = worker.play(
            every[options.path],
            results=options.results,
            kept=options.kept or cache.folder() / "queue",
            device=device_of(options.device),
            threads=options.threads or os.cpu_count() or 1,
        )
    print(said)
    return 0


def record_attack(options) -> int:
    """Compute a study anew and write its file in data/attacks."""
    attack_list.study(
        options.name,
        recompute=True,
        keep=True,
        device=device_of(options.device),
        threads=options.threads or os.cpu_count() or 1,
    )
    return 0


def record_benchmark(options) -> int:
    """Play what notebook 07 lacks; the status is 1 where a run failed."""
    say = {"say": lambda words: print(words, flush=True)}
    asked = {"names": options.methods, "folder": options.results}
    return 1 if arenas.record(options.scenario, **asked, **say) else 0


def rehearse(options) -> int:
    """Play two rounds of every method of a recipe; the status is 1 where one failed."""
    try:
        overrides = json.loads(options.overrides)
    except ValueError as error:
        raise SettingError(
            f"--overrides is not JSON ({error})",
            where="rehearse",
            do="write for example --overrides '{\"batch_size\": 256}'",
        ) from None
    rows = rehearsal.rehearse(
        options.recipe,
        scenario=options.scenario,
        names=options.methods,
        overrides=overrides,
        device=device_of(options.device),
        profile=options.profile,
        folder=options.output,
        threads=options.threads,
        artifacts=options.artifacts,
    )
    table = rehearsal.table(options.recipe, folder=options.output)
    print(table.iloc[:, :10].round(2).to_string(index=False))
    return 1 if any(row["error"] for row in rows) else 0


def fold(options) -> int:
    """Fold results into lines; the status is 1 where a file stays as it is."""
    count, faults = results.fold(options.folder)
    for fault in faults:
        print(f"left as it is: {fault}")
    print(f"{count} runs folded in {shown(options.folder)}")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
