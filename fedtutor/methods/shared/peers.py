"""RepShare without a server (Sec. 3, "Relaxation to peer-to-peer"): clients ask each other.

`client.state["shown"]` [m_up, classes, d] is what a client gives to whoever asks, its last
observations. Only who takes part in a round is asked. Which classes a client has, it tells once, to
a directory that all can read. L_KD takes the mean of the observations that arrived in the place of
the global means.
"""

import torch
from torch import Tensor

from .observations import drawn, owners
from .prototypes import over_owners


def collect(fed, clients) -> None:
    """What the clients have computed is shown from now on, and, once, of which classes it is."""
    directory = fed.server.state.setdefault("classes", {})
    new = [c for c in clients if c.id not in directory]
    told = fed.upload(new, "classes", told_classes)
    directory |= {c.id: own for c, own in zip(new, told, strict=True)}
    fed.ask(clients, show)


def told_classes(client) -> Tensor:
    return client.held["observations"]["owned"]


def show(client) -> None:
    client.state["shown"] = client.held.pop("observations")["observations"]


def deal(fed, clients, method) -> None:
    """Every client gets m_down observations of each class, its own ones from itself."""
    everything = torch.ones(fed.scenario.num_classes, dtype=torch.bool, device=fed.device)
    # who has not trained yet shows random vectors of all classes, or nothing
    known = {c.id: everything for c in clients if method.first == "random"}
    directory = fed.server.state.get("classes", {})
    known |= {c.id: directory[c.id] for c in clients if c.id in directory}
    wanted = {c.id: requests(fed, c, known, method) for c in clients}
    asked = {c.id: {} for c in clients}  # giver -> who asks it -> for what
    for id, own in wanted.items():
        for giver in own.keys() - {id}:
            asked[giver][id] = own[giver]
    givers, asking = ([c for c in clients if own[c.id]] for own in (asked, wanted))
    own = [asked[c.id] for c in givers]
    arrived = fed.pass_on(givers, "observations", rows_of, own=own)
    own = [{"wanted": wanted[c.id], "rows": arrived.get(c.id, {})} for c in asking]
    fed.ask(asking, put_together, bool(method.lambda_kd), own=own)


def requests(fed, client, known: dict[str, Tensor], method) -> dict[str, dict]:
    """Whom the client asks -> for what: {"m": which observation, "wanted": bool}.

    Both [m_down, classes]; `known`: bool [classes] of everybody who can be asked.
    """
    if not (ids := owners(fed, client, known, method)):
        return {}
    entry, there = drawn(fed, client, [known[i] for i in ids], method)
    place, m = entry // method.m_up, entry % method.m_up
    asked = {id: {"m": m, "wanted": there & (place == k)} for k, id in enumerate(ids)}
    return {id: request for id, request in asked.items() if request["wanted"].any()}


def rows_of(client, asked: dict[str, dict]) -> dict[str, Tensor]:
    """Who asks -> the rows that it wants, [wanted, d]."""
    shown = client.state["shown"]
    column = torch.arange(shown.shape[1], device=shown.device)
    return {id: shown[own["m"], column][own["wanted"]] for id, own in asked.items()}


def put_together(client, average: bool, got: dict) -> None:
    """What arrived, as a server would have dealt it; `average`: and its mean, with "owned"."""
    wanted, rows = got["wanted"], got["rows"]
    if client.id in wanted:
        rows = rows | rows_of(client, {client.id: wanted[client.id]})
    known = torch.stack([own["wanted"] for own in wanted.values()]).any(0)
    some = next(iter(rows.values()))  # [wanted, d]
    observed = some.new_zeros(*known.shape, some.shape[1])
    for giver, own in wanted.items():
        observed[own["wanted"]] = rows[giver]
    client.state["received"] = {"observed": observed, "known": known}
    if average:
        client.state["received"] |= over_owners(observed, known)
