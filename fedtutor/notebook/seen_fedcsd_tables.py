"""The tables of notebook 03b: FedCSD and its rivals beside what the paper prints.

`compared(run, name)` reads one table of recorded results; `run` is what the start cell made.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from .. import papers
from ..errors import choose
from ..experiments import accuracies
from ..figures import display_name
from ..papers import published_table
from .frame import sentence
from .rows import Rows
from .start import setting

RIVALS = ("fedavg", "fedprox", "fednova", "fedavgm", "moon", "fedgkd", "fedproto")
METHODS = (*RIVALS, "fedcsd")
MILD = {"scenario.beta": 0.5, "rounds": 5}
OFFICE = {"fedcsd": {"fedcsd.mu": 0.5, "fedcsd.tau": 4.0}}  # the paper's own for this data set
IMAGES = (192, 225, 32, 59)  # test images of the four kinds of photographs
FULL, BASE = "FedCSD", "Base: none of the three"
PARTS = {
    FULL: {},
    "M1: no moving average": {"alpha": 0.0},
    "M2: no mask": {"mask": "none"},
    "M3: no scores": {"teacher": "plain"},
}
WEIGHTS, TAUS, ALPHAS = (0.001, 0.01, 0.1, 1.0), (1.0, 10.0, 20.0), (0.0, 0.9, 0.99)
PRINTED, STRONG = 0.001, 0.1  # two weights of the distillation term
MISPRINT = " †"


class Marked(Rows):
    """`Rows` that mark printed numbers which cannot be right; misprinted: the labels of theirs."""

    def __init__(self, caption: str, *, misprinted: Sequence[str] = (), **rows):
        note = f".{MISPRINT}: a misprint" if misprinted else ""
        super().__init__(caption + note, **rows)
        for label in misprinted:
            choose(label, self.printed, kind="printed row", where=caption)
        self.misprinted = set(misprinted)

    def line(self, label: str) -> list[str]:
        cells = super().line(label)
        if label in self.misprinted:  # printed, and the difference that is taken from it
            cells[0], cells[2] = (cell and cell + MISPRINT for cell in (cells[0], cells[2]))
        return cells


def curves(results: Sequence) -> np.ndarray:
    """Accuracy of the global network, mean over test sets, [seeds, rounds], in percent."""
    return 100 * np.array([[at["intra"] for at in accuracies(r.history)] for r in results])


def late(results: Sequence, end: int | None = None) -> np.ndarray:
    """Mean accuracy of the last three rounds (of the first `end`), one number per seed."""
    return curves(results)[:, :end][:, -3:].mean(1)


def variant(run, rounds: int | None = None, **changes) -> list:
    """FedCSD with other parameters of its own, ten rounds or as many as `rounds`."""
    length = {"rounds": rounds} if rounds else {}
    own = {f"fedcsd.{k}": v for k, v in changes.items()}
    return run.recorded("fedcsd", **length, **own)


def compared(run, name: str) -> Marked:
    """A table of recorded results beside the paper's; `name`: a key of `TABLES`, such as "II"."""
    title, made, about = TABLES[choose(name, TABLES, kind="table", where="tables of FedCSD")]
    rows = made(run)
    first = next(iter(rows["results"].values()))
    length = rows.pop("length", f"{first[0].settings['rounds']} rounds")
    caption = f"{title}: accuracy in %. {setting(first)} · {length} · recorded"
    return Marked(caption, **{**about, **rows})


def by_test(results: Sequence) -> np.ndarray:
    """Accuracy of the last three rounds on each test set, [seeds, test sets], in percent."""
    last = [[e["matrix"][0] for e in r.history["accuracy"][-3:]] for r in results]
    return 100 * np.mean(last, 1)


def jumps(results: Sequence) -> np.ndarray:
    """By how many points accuracy changes from round to round, mean from round 5 on, per seed."""
    return np.abs(np.diff(curves(results)[:, 4:])).mean(1)


def headline(what: str, gains: Sequence[float], other: str = "FedAvg") -> str:
    """A clause for a title: by how many whole points one is ahead of another, or behind it."""
    return sentence(
        gains,
        above=f"{what} is {{mean}} points ahead of {other}",
        below=f"{what} is {{mean}} points behind {other}",
        unclear=f"{what} against {other} is undecided",
        digits=0,
    )


def misprints(table: str) -> pd.DataFrame:
    """Printed numbers of a table that do not fit each other: cell | printed | likely | why."""
    known = papers.misprints()
    known = known[(known["paper"] == "FedCSD") & (known["table"] == table)]
    known = known[~known["why"].str.contains("rounding")]
    return known.assign(cell=known["row"] + ", " + known["column"]).set_index("cell")[
        ["printed", "likely", "why"]
    ]


# ------------------------------------------------------------------------------ the tables


def _printed(table: str, column: str) -> dict[str, float]:
    return published_table("FedCSD", table).set_index("method")[column].to_dict()


def _late(results: dict, end: int | None = None, **more) -> dict:
    length = {"length": f"rounds {end - 2} to {end}"} if end else {}
    measured = {label: late(r, end) for label, r in results.items()}
    return {"measured": measured, "results": results, **length, **more}


def _first(run, end: int | None = None, column: str = "", **changes) -> dict:
    methods = dict.fromkeys([*METHODS, *run.methods])
    results = {display_name(m): run.recorded(m, **changes) for m in methods}
    return _late(results, end, printed=_printed("I", column) if column else {})


def _second(run) -> dict:
    methods = dict.fromkeys([*METHODS, *run.methods])
    results = {display_name(m): run.recorded(m, "office-caltech", rounds=5, **OFFICE.get(m, {}))
               for m in methods}  # fmt: skip
    tests = {label: by_test(r) for label, r in results.items()}
    return {
        "measured": {label: values.mean(1) for label, values in tests.items()},
        "home": {label: values @ IMAGES / sum(IMAGES) for label, values in tests.items()},
        "results": results, "printed": _printed("II", "Average"), "side": "over all images",
    }  # fmt: skip


def base(run, mu: float) -> list:
    """Logit distillation from the last global network, with weight mu."""
    change = {} if mu == PRINTED else {"logit-distillation.mu": mu}
    return run.recorded("logit-distillation", **change)


def _third(run, mu: float) -> dict:
    weight = {} if mu == PRINTED else {"mu": mu}
    rows = {"FedAvg": run.recorded("fedavg"), BASE: base(run, mu)}
    for name in [*list(PARTS)[1:], FULL]:
        rows[name] = variant(run, **weight, **PARTS[name])
    names = {"FedAvg": "FedAvg", "Base": BASE, "FedCSD": FULL}
    names |= {name[:2]: name for name in PARTS if name != FULL}
    printed = _printed("III", "accuracy")
    return _late(rows, printed={names[row]: value for row, value in printed.items()})


def _fourth(run, mild: bool) -> dict:
    rows = {}
    for name, change in (("argmax mask", {"fedcsd.mask": "forcible"}), ("adaptive mask", {})):
        rows[name] = run.recorded("fedcsd", **(MILD if mild else {}), **change)
    column = "CIFAR-100 beta=0.5" if mild else "CIFAR-100 beta=0.01"
    printed = list(_printed("IV", column).values())
    return _late(rows, printed=dict(zip(rows, printed, strict=True)))


def _weights(run) -> dict:
    rows = {"FedAvg": run.recorded("fedavg")}
    rows |= {f"μ = {m:g}": variant(run, **({} if m == PRINTED else {"mu": m})) for m in WEIGHTS}
    return _late(rows)


def _temperatures(run) -> dict:
    rows = {}
    for mu in (PRINTED, STRONG):
        weight = {} if mu == PRINTED else {"mu": mu}
        for tau in TAUS:
            own = {} if tau == 10 else {"tau": tau}
            rows[f"τ = {tau:g}, μ = {mu:g}"] = variant(run, 5 if own else None, **weight, **own)
    return _late(rows, 5)


def _memories(run) -> dict:
    rows = {}
    for alpha in ALPHAS:
        own = {} if alpha == 0.9 else {"alpha": alpha}
        rows[f"α = {alpha:g}"] = variant(run, 5 if alpha == 0.99 else None, **own)
    return _late(rows, 5)


TABLES: dict[str, tuple[str, Callable, dict]] = {
    # name: (title, what `Rows` needs, made from a run; what else it needs)
    "I, strong skew": ("Table I, β = 0.1 (printed: FEMNIST, 0.01)",
                       lambda run: _first(run, column="FEMNIST beta=0.01"),
                       {"less": "FedAvg", "decides": (FULL, "FedAvgM")}),
    "I, strong skew, five rounds": ("Table I, β = 0.1", lambda run: _first(run, 5),
                                    {"less": "FedAvg", "decides": (FULL,)}),
    "I, mild skew": ("Table I, β = 0.5 (printed: CIFAR-100)",
                     lambda run: _first(run, column="CIFAR-100 beta=0.5", **MILD),
                     {"less": "FedAvg", "decides": (FULL,), "misprinted": ("MOON",)}),
    "I, fast": ("Table I, β = 0.1, learning rate 0.1",
                lambda run: _late({display_name(m): run.recorded(m, rounds=5, lr=0.1)
                                   for m in ("fedavg", "fedavgm", "fednova")}),
                {"less": "FedAvg", "decides": ("FedAvgM",)}),
    "II": ("Table II, mean of four test sets", _second,
           {"less": "FedAvg", "decides": (FULL, "FedNova")}),
    "III, printed weight": ("Table III, μ = 0.001 (printed: CIFAR-100)",
                            lambda run: _third(run, PRINTED),
                            {"less": "FedAvg", "decides": (BASE, FULL)}),
    "III, larger weight": ("Table III, μ = 0.1 (printed: CIFAR-100, 0.001)",
                           lambda run: _third(run, STRONG),
                           {"less": "FedAvg", "decides": (BASE, FULL)}),
    "IV, strong skew": ("Table IV, β = 0.1 (printed: CIFAR-100, 0.01)",
                        lambda run: _fourth(run, False),
                        {"less": "argmax mask", "decides": ("adaptive mask",)}),
    "IV, mild skew": ("Table IV, β = 0.5 (printed: CIFAR-100)", lambda run: _fourth(run, True),
                      {"less": "argmax mask", "decides": ("adaptive mask",)}),
    "Fig. 3, weight": ("Fig. 3, the weight μ", _weights,
                       {"less": "μ = 0.001", "decides": ("μ = 0.1", "μ = 1")}),
    "Fig. 3, temperature": ("Fig. 3, the temperature τ", _temperatures,
                            {"less": {f"τ = {t}, μ = {m:g}": f"τ = 10, μ = {m:g}"
                                      for m in (PRINTED, STRONG) for t in (1, 20)},
                             "base": "τ = 10",
                             "decides": tuple(f"τ = {t}, μ = 0.001" for t in (1, 20))}),
    "Fig. 4": ("Fig. 4, the moving average's α", _memories,
               {"less": "α = 0", "decides": ("α = 0.9",)}),
}  # fmt: skip
