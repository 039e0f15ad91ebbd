"""The jobs of the command line: their options, and how values are written.

Nothing here imports PyTorch before a job begins, so that help and mistakes come at once. What
`run` and `compare` do is in `commands.py`.
"""

import argparse
import json
import re
from importlib import import_module
from pathlib import Path

from . import __version__
from .errors import SettingError

ABOUT = """\
Federated learning on one machine: train a method, compare several, reproduce a paper's table.

examples:
  fedtutor run fedavg --rounds 5
  fedtutor compare fedavg scaffold mine --import my.py --seeds 0-4 --folder runs
  fedtutor reproduce "RepShare 1" --rows MNIST --dry-run
"""
JOBS = {  # its help, what does it
    "run": ("train one method, and print the accuracy of every client", "commands.run_one"),
    "compare": (
        "train several methods with the same seeds, and print means, intervals and differences",
        "commands.compare_many",
    ),
    "reproduce": (
        "run what is missing of a paper's table, and print it beside the reported numbers",
        "report.reproduce.reproduce",
    ),
    "federate": (
        "train a method with a process of its own for every client",
        "processes.commands.federate_each",
    ),
    "notebooks": (
        "execute the lessons, and keep copies with their outputs",
        "__main__.execute_all",
    ),
}
DEVICE = "where networks are trained: cpu (default), cuda, or auto, a GPU if there is one"


def command_line(called: str = "fedtutor") -> argparse.ArgumentParser:
    """The parser of all jobs; `do` is the function that carries one out."""
    parser = argparse.ArgumentParser(
        prog=called, description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"fedtutor {__version__}",
        help="print the version and stop",
    )
    jobs = parser.add_subparsers(dest="job", metavar="JOB", help="JOB --help shows its options")
    made = {}
    for name, (about, place) in JOBS.items():
        said = f"{about[0].upper()}{about[1:]}."
        made[name] = jobs.add_parser(name, help=about, description=said)
        made[name].set_defaults(do=_later(place))
    _options_of_run(made["run"])
    _options_of_compare(made["compare"])
    _options_of_reproduce(made["reproduce"])
    _options_of_federate(made["federate"])
    _options_of_notebooks(made["notebooks"])
    return parser


def _later(place: str):
    """A function of the package that is imported when it is called."""

    def do(options) -> int:
        module, _, name = f"fedtutor.{place}".rpartition(".")
        return getattr(import_module(module), name)(options)

    return do


# --- options, each with one meaning in all jobs


def _options_of_run(job) -> None:
    job.add_argument("method", metavar="METHOD", help="its name, such as fedavg")
    _training(job, seeds="0")


def _options_of_compare(job) -> None:
    job.add_argument(
        "methods", nargs="+", metavar="METHOD", help="others are set against the first"
    )
    _training(job, seeds="0-4")


def _training(job, *, seeds: str) -> None:
    job.add_argument(
        "--scenario",
        default="digits-mini",
        help="who holds which images; default digits-mini, which comes along",
    )
    _seeds(job, seeds)
    _rounds(job, "10")
    _set(job)
    job.add_argument(
        "--import",
        dest="imports",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="execute a Python file, so that the methods and scenarios that it registers are "
        "known; may be repeated",
    )
    _jobs(job)
    _folder(job, "keep runs there, and go on from them; default: nothing is kept")
    job.add_argument("--device", default="cpu", help=DEVICE)


def _options_of_reproduce(job) -> None:
    job.add_argument("request", metavar="TABLE", help='a paper and its table, such as "FCCL+ X"')
    job.add_argument("--dry-run", action="store_true", help="say what it needs, and run nothing")
    _profile(job, "paper")
    job.add_argument(
        "--rows",
        default="",
        metavar="WORD",
        help="only rows and columns with this word, such as MNIST or FedAvg",
    )
    _seeds(job, "")
    _jobs(job)
    job.add_argument("--again", action="store_true", help="run what data/results holds, too")
    job.add_argument("--device", default="cpu", help=DEVICE)
    job.add_argument("--download", action="store_true", help="fetch missing data where possible")
    _folder(
        job,
        "keep runs and the table there, and go on from them; default build/reproduced",
        Path("build", "reproduced"),
    )


def _options_of_federate(job) -> None:
    job.add_argument("method", metavar="METHOD", help="its name, such as fccl")
    job.add_argument("--recipe", help="whose settings; default: the method's own, or benchmark")
    job.add_argument("--scenario", default="", help="another one than the recipe's")
    _seeds(job, "0")
    _rounds(job, "the recipe's")
    _set(job)
    _profile(job, "quick")
    ways = job.add_mutually_exclusive_group()
    ways.add_argument(
        "--processes",
        dest="way",
        action="store_const",
        const="simulated",
        help="default: NVIDIA FLARE's simulator, TCP on this machine",
    )
    ways.add_argument(
        "--grpc",
        dest="way",
        action="store_const",
        const="provisioned",
        help="server and sites with certificates, gRPC over mutual TLS",
    )
    ways.add_argument(
        "--kit",
        type=Path,
        metavar="FOLDER",
        help="sites that run already: the administrator's start-up kit",
    )
    ways.add_argument(
        "--project",
        metavar="HOST",
        help="run nothing: print project.yml for nvflare provision -p, with the server on HOST",
    )
    _folder(job, "keep runs there, and go on from them; default: nothing is kept")
    job.add_argument(
        "--leave-out",
        action="store_true",
        help="go on without a client that does not answer, rather than stop",
    )
    job.add_argument(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="that a client may take for one call; default 600",
    )
    job.add_argument("--compare", action="store_true", help="run it here as well, and compare")
    job.add_argument("--output", type=Path, metavar="FILE", help="for the history, as JSON")
    job.add_argument("--keep", type=Path, metavar="FOLDER", help="for the processes' logs")
    job.set_defaults(way="simulated")


def _options_of_notebooks(job) -> None:
    job.add_argument("--only", nargs="+", default=[], metavar="NN", help="e.g. --only 00 02b")
    job.add_argument("--source", type=Path, metavar="FOLDER", help="where the notebooks lie")
    _profile(job, "quick")
    _folder(job, "put the executed copies there; default build/executed of the clone")


def _seeds(job, default: str) -> None:
    about = f"default {default}" if default else "default: those of the table"
    job.add_argument(
        "--seeds",
        type=seeds,
        nargs="+",
        action=_Joined,
        default=seeds(default) if default else (),
        metavar="N",
        help=f"such as 0 1 2, or 0-4; {about}",
    )


def _rounds(job, default: str) -> None:
    job.add_argument("--rounds", type=count, metavar="N", help=f"rounds; default {default}")


def _set(job) -> None:
    job.add_argument(
        "--set",
        dest="given",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting (lr=0.05), a method's parameter (fedprox.mu=0.1), or an option of the "
        "scenario (scenario.private_size=60); may be repeated",
    )


def _jobs(job) -> None:
    job.add_argument(
        "--jobs", type=count, metavar="N", help="runs side by side; default: one on each core"
    )


def _folder(job, about: str, default: Path | None = None) -> None:
    job.add_argument("--folder", type=Path, default=default, help=about)


def _profile(job, default: str) -> None:
    about = {"paper": "the paper's settings", "quick": "smaller ones"}
    other = "quick" if default == "paper" else "paper"
    job.add_argument(
        "--profile",
        default=default,
        help=f"{default} (default): {about[default]}; {other}: {about[other]}",
    )


# --- how values are written


class _Joined(argparse.Action):
    """Several lists as one."""

    def __call__(self, parser, options, values, option=None):
        found = [seed for part in values for seed in part]
        if len(set(found)) < len(found):
            parser.error("argument --seeds: a seed is named twice")
        setattr(options, self.dest, found)


def seeds(text: str) -> list[int]:
    """[3] of "3", [0, 1, 2] of "0-2"."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if last < first:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; write 0 1 2, or 0-2")
    return list(range(first, last + 1))


def count(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """("lr", "0.05") of "lr=0.05"."""
    key, sign, value = text.partition("=")
    if not (sign and key.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} has no value; write such as lr=0.05")
    return key.strip(), value.strip()


def changes(options, methods) -> dict:
    """What --set and --rounds ask for: {"lr": 0.05, "fedprox.mu": 0.1}.

    Raises `SettingError` for what is given twice, and for a parameter of a method that is not
    among `methods`.
    """
    from .methods import METHODS

    found = {} if options.rounds is None else {"rounds": options.rounds}
    for key, text in options.given:
        if key in found:
            raise SettingError(f"{key} is given twice", where="--set", do="leave one of them out")
        head = key.rpartition(".")[0]
        if head in METHODS and head not in methods:
            raise SettingError(
                f"{key} belongs to another method than {', '.join(methods)}",
                where="--set",
                do=f'write "{methods[0]}.NAME=VALUE", or leave it out',
            )
        found[key] = _value(key, text)
    return found


def _value(key: str, text: str):
    """A value as the setting or parameter wants it: a text, a list "a,b", or what JSON says."""
    from .methods import METHODS, parameters
    from .settings import Settings

    head, _, name = key.rpartition(".")
    usual = (parameters(head) if head in METHODS else vars(Settings())).get(name)
    if isinstance(usual, str):
        return text
    many = isinstance(usual, list) and not text.startswith("[")
    return [_plain(part.strip()) for part in text.split(",")] if many else _plain(text)


def _plain(text: str):
    words = {"True": True, "False": False, "None": None}
    try:
        return words[text] if text in words else json.loads(text)
    except ValueError:
        return text
