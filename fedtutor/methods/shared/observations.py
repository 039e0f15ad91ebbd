"""RepShare's observations, relayed by the server: up into buffers, down to others by a draw.

An observation shows every class by the mean feature of a few images of one client. The server keeps
what each client has sent last, "observations" [m_up, classes, d] and "owned" bool [classes]: the
classes that it has. One client's behind the other's, these are the buffers of Algorithm 1.
"""

import torch
from torch import Tensor

from ...errors import SettingError
from ...randomness import generator

DRAWS = {
    "client": "all classes from one random client (Sec. 4 and the author's code)",
    "classes": "the buffers of the classes are shuffled one by one (Algorithm 1)",
}


def require_enough(fed, method) -> None:
    """Raise `SettingError` where a client could not get m_down different ones of a class."""
    buffered = (len(fed.clients) - method.exclude_self) * method.m_up
    if method.m_down > buffered:
        whose, also = "", ""
        if method.exclude_self:
            whose, also = " by other clients", ", or set exclude_self = False"
        raise SettingError(
            f"m_down = {method.m_down}, but there are {buffered} observations of a class{whose}",
            where=f"method {method.name}, {len(fed.clients)} clients",
            do=f"lower m_down, raise m_up, take more clients{also}",
        )


def collect(fed, clients) -> None:
    """The clients' observations go up; the server keeps the last ones of every client."""
    kept = fed.server.state.setdefault("observations", {})
    told = fed.upload(clients, "observations", told_observations)
    kept |= {c.id: own for c, own in zip(clients, told, strict=True)}


def told_observations(client) -> dict:
    return client.held.pop("observations")


def deal(fed, clients, method) -> None:
    """Every client gets m_down of each class: "observed" [m_down, classes, d], "known" bool."""
    kept, dealt = fed.server.state.get("observations", {}), {}
    for client in clients:
        if ids := owners(fed, client, kept, method):
            buffer = torch.cat([kept[i]["observations"] for i in ids])  # [entries, classes, d]
            entry, known = drawn(fed, client, [kept[i]["owned"] for i in ids], method)
            observed = buffer[entry, torch.arange(entry.shape[1], device=fed.device)]
            dealt[client.id] = {"observed": observed * known[:, :, None], "known": known}
    getting = [c for c in clients if c.id in dealt]
    fed.download(getting, "observations", method.receive, own=list(dealt.values()))


def owners(fed, client, known, method) -> list[str]:
    """Whose observations the client may get, of those in `known`, in the clients' usual order."""
    others = [c for c in fed.clients if not (method.exclude_self and c is client)]
    return [c.id for c in others if c.id in known]


def drawn(fed, client, owned: list[Tensor], method) -> tuple[Tensor, Tensor]:
    """Which entries of the buffers the client gets, and whether they show the class.

    Both [m_down, classes]; `owned`: bool [classes] of each owner. Without replacement; where there
    are fewer than m_down, they come up again. Of a class that nobody has, an empty entry.
    """
    own, turn = generator(fed.seed, client.id, fed.round_, "draw"), torch.arange(method.m_down)
    owned = torch.stack(owned).cpu().repeat_interleave(method.m_up, 0)  # [entries, classes]
    if method.draw == "client":
        order = torch.randperm(len(owned), generator=own)
        entry = order[turn % len(order)][:, None].expand(-1, owned.shape[1])
    else:
        columns = []
        for has in owned.T:
            order = torch.randperm(len(owned), generator=own)
            order = order[has[order]] if has.any() else order
            columns.append(order[turn % len(order)])
        entry = torch.stack(columns, 1)
    return entry.to(fed.device), owned.gather(0, entry).to(fed.device)
