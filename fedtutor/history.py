"""What a run leaves, as long tables: a row per measured accuracy, a row per kind of message.

    history = run(fed)
    history.accuracies()                                    # a pandas DataFrame
    history.accuracies().query("on == 'own domain'").groupby("round").accuracy.mean()

A file keeps a run on one line, with one accuracy matrix per evaluation; `long_table` melts many of
them at once.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

OWN, OTHERS = "own domain", "other domains"
ON = {"own": OWN, "others": OTHERS, OWN: OWN, OTHERS: OTHERS}  # as a reader may write them
ENDS = {"up": ("clients", "server"), "down": ("server", "clients"), "peer": ("clients", "clients")}
ACCURACIES = ("round", "moment", "epoch", "client", "test", "on", "accuracy")
MESSAGES = ("round", "source", "target", "name", "bytes", "messages")


class History(dict):
    """The history of one run.

    Keys: "clients" and "domains" (of each client), "tests"; "accuracy" (a matrix [clients, tests]
    per evaluation, shares from 0 to 1), "loss" (a list over clients per round), "bytes" (per round,
    direction and name), "seconds" (per round).
    """

    @classmethod
    def empty(cls, clients, tests) -> "History":
        """Of clients with `id` and `domain` that have not trained yet."""
        about = {"clients": [c.id for c in clients], "domains": [c.domain for c in clients]}
        return cls(about, tests=list(tests), accuracy=[], loss=[], bytes=[], seconds=[])

    def accuracies(self, **labels) -> pd.DataFrame:
        """A row per evaluation, client and test set; `labels` become columns in front.

        round (0: before any training) | moment ("end" of a round, or one inside it) | epoch (of
        the moment "local_epoch", else missing) | client | test | on ("own domain" or "other
        domains") | accuracy (percent).
        """
        return long_table([(labels, self)])

    def messages(self, **labels) -> pd.DataFrame:
        """A row per round and kind of message: round | source | target | name | bytes | messages.

        `bytes` and `messages` are sums over the clients.
        """
        rows = [
            (
                *labels.values(),
                row["round"],
                *ENDS[row["direction"]],
                row["name"],
                row["bytes"],
                row["messages"],
            )
            for row in self["bytes"]
        ]
        return pd.DataFrame(rows, columns=[*labels, *MESSAGES])


def long_table(runs: Iterable[tuple[Mapping, Mapping]]) -> pd.DataFrame:
    """The accuracies of many runs, given as (labels, history), one below the other.

    Every run has the same labels, such as method and seed; they are the first columns, and those of
    `History.accuracies` follow. Texts are categories, so that a million rows stay small.
    """
    parts, labels, counts = [], [], []
    for about, history in runs:
        part = _melted(history)
        parts.append(part)
        labels.append(about)
        counts.append(len(part[0]))
    columns = {}
    for name in labels[0] if labels else ():
        columns[name] = _repeated([about[name] for about in labels], counts)
    for name, values in zip(ACCURACIES, zip(*parts, strict=True), strict=False):
        columns[name] = np.concatenate(values)
    frame = pd.DataFrame({name: columns.get(name, []) for name in [*columns, *ACCURACIES]})
    for name in ("moment", "client", "test", "on"):
        frame[name] = frame[name].astype("category")
    return frame


def _repeated(values: list, counts: list[int]):
    """A column with each value so many times; texts as categories."""
    if all(isinstance(value, str) for value in values):
        codes, known = pd.factorize(np.array(values, dtype=object))
        return pd.Categorical.from_codes(np.repeat(codes, counts), categories=known)
    return np.repeat(np.array(values), counts)


def _melted(history: Mapping) -> list[np.ndarray]:
    """The columns ACCURACIES of one run; a client that sat out has no rows."""
    clients, tests, found = history["clients"], history["tests"], history["accuracy"]
    nothing = [np.nan] * len(tests)
    matrices = [[nothing if row is None else row for row in at["matrix"]] for at in found]
    values = np.array(matrices, dtype=float).reshape(len(found), len(clients), len(tests))
    own = np.array([[test == domain for test in tests] for domain in history["domains"]], bool)
    rounds = np.array([at["round"] for at in found], dtype=int)
    moments = np.array([at["moment"] for at in found], dtype=object)
    epochs = np.array([at["epoch"] or np.nan for at in found], dtype=float)
    when, who, where = np.nonzero(~np.isnan(values))
    names = np.array(clients, dtype=object), np.array(tests, dtype=object)
    on = np.where(own, OWN, OTHERS).astype(object).reshape(len(clients), len(tests))
    return [
        rounds[when],
        moments[when],
        epochs[when],
        names[0][who],
        names[1][where],
        on[who, where],
        100 * values[when, who, where],
    ]
