"""The tables of notebook 02b: FCCL+ with one thing changed, beside what the paper prints.

`ablation(run, name)` reads one table of recorded results; `run` is what the start cell made.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from ..errors import choose
from ..papers import published_table
from .doubts import accuracy
from .rows import Rows, signed, told
from .seen import REDUCED, on_real_digits
from .seen_fccl_plus import points
from .start import setting

# What is switched off in FCCL+. Where FNTD is off, the paper keeps FCCL's two teachers.
TWO_TEACHERS = {"fntd": "none", "teachers": "both"}
PIECES = {
    "FISL": {"fccm": False, **TWO_TEACHERS},
    "FCCM + FISL": TWO_TEACHERS,
    "FCCM + FNTD": {"fisl": False},
    "all three (FCCL+)": {},
}
ALONE, FCCL, FULL = "none (training alone)", "FCCM (FCCL)", "all three (FCCL+)"
MEMORIES = {
    "no memory": {"fntd": "none"},
    "FNTD": {},
    "FNTD times τ²": {"fntd": "tau2"},
    "FNTD renormalized": {"fntd": "renormalized"},
    "renormalized, times τ²": {"fntd": "fedntd"},
    "KD": {"fntd": "kd"},
    "teacher in training mode": {"teacher_mode": "train"},
    "teacher after the public half": {"teacher": "current"},
}
TAUS, EPOCHS, SHARES = (1.0, 3.0, 10.0), (1, 2, 4), (0, 0.1, 0.3)
EWC, LAMBDAS, OMEGAS = (0.01, 0.1, 0.7, 1.0), (0.0, 0.002, 0.0051, 0.1), (1.0, 2.0, 3.0, 4.0)
CIFAR = "CIFAR-10 (paper: CIFAR-100)"
SETS = {"Tiny-ImageNet": None, CIFAR: "cifar10", "Fashion-MNIST": "fashion-mnist"}
NETWORKS = {
    "no mixer": ["small_resnet", "small_cnn", "small_mobile", "small_cnn"],
    "no resnet": ["small_mixer", "small_cnn", "small_mobile", "small_mixer"],
}
ONE = {"models": ["small_cnn"]}
DATA = {"digits-partial": "partial digits", "digits-mini": "mini digits"}


# ------------------------------------------------------------------------------ the tables


class Table(Rows):
    """Rows whose corner says which data and how many rounds; `note`: what differs in the paper."""

    def __init__(self, caption: str, measured: Mapping, *, where: str, note: str = "", **about):
        super().__init__(caption, measured, side="own digits", **about)
        self.where, self.note = where, note

    def columns(self) -> list[str]:
        printed = f"printed ({self.note})" if self.note else "printed"
        return [printed if name == "printed" else name for name in super().columns()]

    def _repr_html_(self) -> str:
        corner = '<th scope="col">{}</th>'.format
        page = super()._repr_html_().replace(corner(""), corner(escape(self.where)), 1)
        return page.replace("</caption>", "; outlined: a claim is about it</caption>")


def ablation(run, name: str) -> Table:
    """A table of recorded results beside the paper's: accuracy on other domains, in percent.

    name: a key of `TABLES`, such as "X, partial" or "XVI".
    """
    title, rows, printed, about = TABLES[
        choose(name, TABLES, kind="table", where="ablation of FCCL+")
    ]
    found = rows(run)
    first = next(iter(found.values()))
    length = first[0].settings["rounds"]
    length = f"{length} round{'s' * (length > 1)}"
    data = first[0].scenario["name"]
    return Table(
        f"{title}: accuracy on others' digits, in %. {setting(first)} · {length} · recorded",
        {label: accuracy(r, "inter") for label, r in found.items()},
        where=f"{DATA.get(data, data)}, {length}",
        home={label: accuracy(r, "intra") for label, r in found.items()},
        printed=printed(), results=found, **about,
    )  # fmt: skip


def decided(differences: Mapping[str, Sequence[float]]) -> str:
    """How many of several differences the seeds decide, and which: "none is decided"."""
    found = [f"{words} ({points(gains)})" for words, gains in differences.items() if told(gains)]
    many = "only one is" if len(found) == 1 else f"{len(found)} are"
    return f"{many} decided: {'; '.join(found)}" if found else "none is decided"


def on_each(sets: Mapping[str, Rows], label: str, over: str, *, home: bool = False) -> str:
    """A row minus another in each of two tables: "+4.2 ± 1.7 points on partial digits and"."""
    gains = {data: rows.gains(label, over, home=home) for data, rows in sets.items()}
    if not any(map(told, gains.values())):
        return f"undecided on both ({' and '.join(map(signed, gains.values()))} points)"
    return " and ".join(f"{points(values)} on {data}" for data, values in gains.items())


def plus(run, **changes) -> list:
    """FCCL+ on the mini digits, six rounds; `changes` of its own parameters."""
    known = [*PIECES.values(), MEMORIES["no memory"]]  # were tested after every round
    last = {} if changes in known else {"eval_every": 6}
    return run.recorded("fccl+", **last, **_own(changes))


def short(run, method: str = "fccl+", **changes) -> list:
    """The same with three rounds, any method and any setting."""
    return run.recorded(method, **{"rounds": 3, "eval_every": 3}, **changes)


def paper(table: str, column: str = "") -> dict[str, float]:
    """Row -> the printed number of a column; without one, the mean over the four digit domains."""
    found = published_table("FCCL+", table).set_index("method")
    four = [c for c in found if c.startswith("Digits/") and c.endswith("->") and "AVG" not in c]
    return (found[column] if column else found[four].mean(axis=1)).to_dict()


def _own(changes: Mapping) -> dict:
    return {f"fccl+.{name}": value for name, value in changes.items()}


def _pieces(run, real: bool) -> dict:
    def each(method, **changes):
        if real:
            return on_real_digits(run, method, recipe="fccl", **changes)
        return run.recorded(method, recipe="fccl")

    rows = {ALONE: each("solo"), FCCL: each("fccl")}
    for name, changes in PIECES.items():
        rows[name] = on_real_digits(run, "fccl+", **_own(changes)) if real else plus(run, **changes)
    return rows


def _printed_pieces() -> dict[str, float]:
    names = {"BASE": ALONE, "FCCM": FCCL, "FISL": "FISL", "FCCM+FISL": "FCCM + FISL",
             "FCCM+FISL+FNTD (FCCL+)": FULL}  # fmt: skip
    return {names[row]: value for row, value in paper("X-inter").items()}


def _temperatures(run) -> dict:
    rows = {}
    for name, kind in (("FNTD", {}), ("KD", _own({"fntd": "kd"}))):
        for tau in TAUS:
            changed = {} if tau == 3.0 else {"fccl+.tau": tau}
            rows[f"{name}, τ = {tau:g}"] = short(run, **kind, **changed)
    return rows


def _ewc(run) -> dict:
    rows = {"FNTD": short(run)}
    for weight in EWC:
        rows[f"EWC, weight {weight}"] = short(
            run, "ewc", **({} if weight == 0.7 else {"ewc.lambda_ewc": weight})
        )
    return {**rows, "no memory": short(run, **_own(MEMORIES["no memory"]))}


def _printed_ewc() -> dict[str, float]:
    row = published_table("FCCL+", "XVI").iloc[0]
    names = {"FNTD": "Digits/Ours", **{f"EWC, weight {w}": f"Digits/EWC {w}" for w in EWC}}
    return {label: float(row[column]) for label, column in names.items()}


def _epochs(run) -> dict:
    return {
        f"{name}, {count} local epoch{'s' * (count > 1)}": short(
            run, **({} if count == 2 else {"local_epochs": count}), **change
        )
        for count in EPOCHS
        for name, change in (("without FNTD", _own(MEMORIES["no memory"])), ("with FNTD", {}))
    }


def _printed_epochs() -> dict[str, float]:
    columns = {"without FNTD": "w/o FNTD Digits/AVG", "with FNTD": "w/ FNTD Digits/AVG"}
    return {
        f"{name}, {ours} local epoch{'s' * (ours > 1)}": paper("XIX", column)[
            f"local epochs {theirs}"
        ]
        for ours, theirs in zip(EPOCHS, (10, 20, 30), strict=True)
        for name, column in columns.items()
    }


def _lambdas(run) -> dict:
    return {
        f"λ = {v}": run.recorded(
            "fccl", recipe="fccl", **({} if v == 0.0051 else {"fccl.lambda_col": v})
        )
        for v in LAMBDAS
    }


def _omegas(run) -> dict:
    rows = {f"ω = {v:g}": plus(run, **({} if v == 3 else {"omega": v}), **TWO_TEACHERS)
            for v in OMEGAS}  # fmt: skip
    return {"ω = 0: FCCM alone": run.recorded("fccl", recipe="fccl"), **rows}


def _sets(run, method: str) -> dict:
    brief = {"rounds": 1, "eval_every": 1, **_own(PIECES["FISL"])}
    rows = {}
    for name, id in SETS.items():
        public = {"scenario.public": id} if id else {}
        rows[name] = (
            run.recorded(method, "digits-partial", **{**REDUCED, **brief, **public})
            if method == "fccl+"
            else on_real_digits(run, method, recipe="fccl", **public)
        )
    return rows


def _networks(run) -> dict:
    return {f"{name}, {where}": short(run, method, models=networks)
            for where, networks in NETWORKS.items()
            for name, method in {"FCCL": "fccl", "FedMD": "fedmd",
                                 "FCCL+": "fccl+"}.items()}  # fmt: skip


def _printed_networks() -> dict[str, float]:
    found = list(published_table("FCCL+", "XVIII")["Digits/AVG->"])
    names = [f"{name}, {where}" for where in NETWORKS for name in ("FedMD", "FCCL", "FCCL+")]
    return dict(zip(names, found, strict=True))


def _averaged(run) -> dict:
    return {
        name: run.recorded(m, eval_every=6, **ONE, **{f"{m}.evaluate": "client"})
        for name, m in {"FedAvg": "fedavg", "FedProx": "fedprox", "MOON": "moon",
                        "FedProc": "fedproc", "FedRS": "fedrs"}.items()
    }  # fmt: skip


def _talking(run) -> dict:
    rows = {"training alone": run.recorded("solo", recipe="fccl", **ONE)}
    for name, m in {"FedMD": "fedmd", "FedDF": "feddf", "FCCL": "fccl"}.items():
        rows[name] = run.recorded(m, recipe="fccl", **ONE, **{f"{m}.average": True})
    rows["FCCL+"] = run.recorded("fccl+", eval_every=6, **ONE, **_own({"average": True}))
    return rows


def _printed_equal(*names: str) -> dict[str, float]:
    found = paper("XV-inter")
    theirs = {"training alone": "BASE", "MOON": "MOON (tau=1)"}
    return {name: found[theirs.get(name, name)] for name in names}


def _with_its_own(pairs: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {row: base for base, rows in pairs.items() for row in rows}


def _by_epochs() -> dict[str, str]:
    counts = [f"{count} local epoch{'s' * (count > 1)}" for count in EPOCHS]
    return {f"with FNTD, {count}": f"without FNTD, {count}" for count in counts}


PHOTOGRAPHS = {"less": CIFAR, "base": "CIFAR-10", "decides": ("Tiny-ImageNet", "Fashion-MNIST")}
TABLES: dict[str, tuple[str, Callable, Callable, dict]] = {
    # name: (title, rows of a run, printed numbers, what `Rows` needs besides)
    "X, partial": ("Table X", lambda run: _pieces(run, True), _printed_pieces,
                {"less": FCCL, "base": "FCCL", "decides": ("FISL", "FCCM + FNTD", FULL)}),
    "X, mini": ("Table X", lambda run: _pieces(run, False), _printed_pieces,
                   {"less": FCCL, "base": "FCCL", "decides": ("FISL", "FCCM + FNTD", FULL)}),
    "Fig. 9": ("Fig. 9, and other memories",
               lambda run: {name: plus(run, **change) for name, change in MEMORIES.items()},
               lambda: dict(zip(("teacher after the public half", "FNTD"),
                                paper("Fig9-inter").values(), strict=True)),
               {"less": "FNTD", "decides": ("KD", "teacher after the public half")}),
    "Fig. 10": ("Fig. 10, temperatures", _temperatures, dict,
                {"less": _with_its_own({f"{name}, τ = 3": [f"{name}, τ = 1", f"{name}, τ = 10"]
                                        for name in ("FNTD", "KD")}),
                 "base": "τ = 3", "decides": ("FNTD, τ = 1", "FNTD, τ = 10")}),
    "XVI": ("Table XVI, EWC", _ewc, _printed_ewc,
            {"less": "FNTD", "decides": ("EWC, weight 0.7",)}),
    "XVII": ("Table XVII, KD first",
             lambda run: {_share(s): short(run, **({"fccl+.kd_share": s} if s else {}))
                          for s in SHARES},
             lambda: {_share(s): value for s, value in zip(reversed(SHARES), paper("XVII").values(),
                                                           strict=True)},
             {"less": "FNTD alone", "decides": ("KD in 30 % of the steps",)}),
    "XIX": ("Table XIX, local epochs", _epochs, _printed_epochs,
            {"less": _by_epochs(), "base": "the row without",
             "decides": tuple(_by_epochs()), "note": "10, 20, 30 epochs"}),
    "XI": ("Table XI, the weight λ of FCCM", _lambdas,
           lambda: {f"λ = {v}": paper("XI", "inter")[f"lambda={v}"] for v in LAMBDAS if v},
           {"less": "λ = 0.0051", "decides": ("λ = 0.0",), "note": "Office31"}),
    "XIV": ("Table XIV, the weight ω of FISL", _omegas,
            lambda: {"ω = 0: FCCM alone": paper("X-inter")["FCCM"],
                     **{f"ω = {v:g}": paper("XIV")[f"omega={v:g}"] for v in OMEGAS}},
            {"less": "ω = 0: FCCM alone", "base": "ω = 0", "decides": ("ω = 3",)}),
    "XIII, augmented": ("Table XIII, FISL with augmented photographs",
                        lambda run: {f"{a} augmentation": short(
                            run, **_own({**PIECES["FISL"], "public_augment": a}))
                            for a in ("strong", "weak")},
                        lambda: {f"{a} augmentation": paper("XIII")[f"Cifar-100/{a}"]
                                 for a in ("strong", "weak")},
                        {"less": "strong augmentation", "decides": ("weak augmentation",)}),
    "Fig. 7": ("Fig. 7, photographs for FCCM",
               lambda run: _sets(run, "fccl"), lambda: _printed_sets(paper("Fig7", "AVG")),
               PHOTOGRAPHS),
    "XIII, sets": ("Table XIII, photographs for FISL",
                   lambda run: _sets(run, "fccl+"),
                   lambda: _printed_sets({name.removesuffix("/weak"): value
                                          for name, value in paper("XIII").items()}),
                   PHOTOGRAPHS),
    "XVIII": ("Table XVIII, one network replaced", _networks, _printed_networks,
              {"less": _with_its_own({f"FCCL, {w}": [f"FedMD, {w}", f"FCCL+, {w}"]
                                      for w in NETWORKS}),
               "base": "FCCL", "decides": tuple(f"FCCL+, {w}" for w in NETWORKS)}),
    "XV, talking": ("Table XV, equal networks that also talk", _talking,
                    lambda: _printed_equal("training alone", "FedMD", "FedDF", "FCCL", "FCCL+"),
                    {"less": "FCCL", "decides": ("FCCL+",)}),
    "XV, averaging": ("Table XV, equal networks that average alone", _averaged,
                      lambda: _printed_equal("FedAvg", "FedProx", "MOON", "FedProc", "FedRS"),
                      {"less": "FedAvg", "decides": ("FedProx", "FedProc")}),
}  # fmt: skip


def _share(share: float) -> str:
    return f"KD in {100 * share:.0f} % of the steps" if share else "FNTD alone"


def _printed_sets(found: Mapping[str, float]) -> dict[str, float]:
    return {name: found["Cifar-100" if name == CIFAR else name] for name in SETS}
