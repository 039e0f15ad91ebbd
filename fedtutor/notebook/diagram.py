"""Who sends what in a round of a method: counted, drawn, and said in words."""

import pandas as pd
from matplotlib.figure import Figure

from ..experiments.exchange import ROUNDS, exchange
from ..figures import display_name, human_bytes, who_sends_what
from .algorithm import boxes

WORDS = {
    "up": "each client sends to the server: {}",
    "down": "the server sends to each client: {}",
    "peer": "a client sends to another client: {}",
    "client": "at the clients: {}",
}
SAID = {"up": "sends", "down": "receives", "peer": "sends to other clients"}


def diagram(run, method: str, recipe, scenario) -> None:
    """Show the sequence diagram of a round of `method`, its description and the table behind it.

    run: the `Run` of the notebook, whose first seed and device are taken; recipe and scenario are
    its own, or changed ones. See `experiments.exchange` for what is counted.
    """
    seed = run.seeds[0]
    rows = exchange(recipe, method, scenario=scenario, seed=seed, device=run.device)
    called = boxes().get(method, {}).get("called", {})
    rows = [{**row, "name": called.get(row["name"], row["name"])} for row in rows]
    figure = who_sends_what(rows, title=title(method, rows), clients=len(scenario.clients),
                            notes=notes(rows))  # fmt: skip
    run.show(figure, description(method, rows), table=table(rows), seed=seed)


def drawn(recipe, method: str, *, seed: int, device) -> tuple[Figure, str]:
    """The sequence diagram of a round of `method` in a recipe's own scenario, and it in words."""
    scenario = recipe.build(seed)
    rows = exchange(recipe, method, scenario=scenario, seed=seed, device=device)
    figure = who_sends_what(
        rows, title=title(method, rows), clients=len(scenario.clients), notes=notes(rows)
    )
    return figure, description(method, rows)


def title(method: str, rows: list[dict]) -> str:
    """What a client sends and receives in a round; the last one counted, where they differ."""
    name = display_name(method)
    name = name[:1].upper() + name[1:]
    if not any(row["totals"] for row in rows):
        return f"{name}: nothing is sent"
    if not any(_each(rows, ROUNDS).values()):
        first = min(_rounds(rows))
        ahead = f"in round {first}" if first else "before round 1"
        return f"{name}: nothing is sent in a round; {ahead} a client {_said(rows, first)}"
    if _alike(rows):
        return f"{name}: in a round each client {_said(rows, ROUNDS)}"
    return f"{name}: what each client {_ways(rows)} differs from round to round"


def notes(rows: list[dict]) -> list[str]:
    """A line for the foot: bytes per client round by round, where the rounds differ."""
    if _alike(rows):
        return []
    said = [f"in round {r} it {_said(rows, r)}" for r in range(1, ROUNDS + 1)]
    return [f"A client, round by round: {'; '.join(said)}."]


def description(method: str, rows: list[dict]) -> str:
    """The diagram in words, message by message; sizes are in the table."""
    said = [WORDS[row["direction"]].format(row["name"]) + _when(row) for row in rows]
    if not any(row["totals"] for row in rows):
        said.append("nothing is sent")
    return (f"Sequence diagram of a round of {display_name(method)}, the server at the left, "
            f"a client at the right, time from top to bottom. In this order: {'; '.join(said)}."
            )  # fmt: skip


def table(rows: list[dict]) -> pd.DataFrame:
    """The rows with their sizes, without the one for local training."""
    names = {"up": "to the server", "down": "to the clients", "peer": "to another client"}
    found = [
        {"message": row["name"], "direction": names[row["direction"]], "shape": row["shape"],
         "bytes": _range(row["bytes"]), "per client": row["times"], "clients": row["clients"],
         "when": row["when"] or "in every round"}
        for row in rows if row["direction"] in names
    ]  # fmt: skip
    return pd.DataFrame(found) if found else None


def _each(rows: list[dict], round_: int) -> dict[str, float]:
    """Direction -> bytes per client in a round, of those clients who send or receive."""
    each = dict.fromkeys(SAID, 0.0)
    for row in rows:
        if round_ in row["totals"]:
            each[row["direction"]] += row["totals"][round_] / row["clients"]
    return each


def _said(rows: list[dict], round_: int) -> str:
    each = _each(rows, round_)
    shown = [way for way in SAID if each[way] or (way != "peer" and round_)]
    return " and ".join(f"{SAID[way]} {human_bytes(each[way])}" for way in shown)


def _ways(rows: list[dict]) -> str:
    """The directions in which anything crosses in a round."""
    used = {way for r in range(1, ROUNDS + 1) for way, size in _each(rows, r).items() if size}
    return " and ".join(SAID[way] for way in SAID if way in used)


def _rounds(rows: list[dict]) -> set[int]:
    return {round_ for row in rows for round_ in row["totals"]}


def _alike(rows: list[dict]) -> bool:
    """Whether all counted rounds cost a client the same, up to a hundredth."""
    each = [list(_each(rows, round_).values()) for round_ in range(1, ROUNDS + 1)]
    return all(max(sizes) - min(sizes) <= max(sizes) / 100 for sizes in zip(*each, strict=True))


def _range(size) -> str:
    return f"{size:,}" if isinstance(size, int) else f"{size[0]:,} to {size[1]:,}"


def _when(row: dict) -> str:
    times = f"{row['times']} times, " if row["times"] > 1 else ""
    return f" ({times}{row['when']})" if times or row["when"] else ""
