"""A method on a few images: does it keep the contract, and does it do what its author means?

The promises come first; each is kept or broken. Then come things seen in the second round. No
program knows whether they are meant, and a slip there costs accuracy without any error: a download
that is forgotten, an average that nobody loads, a memory that is set to zero in every round.
"""

import textwrap
from dataclasses import replace
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import torch

from .. import figures, methods, rounds, scenarios
from ..errors import choose
from ..experiments import arenas, recipes
from ..federation import Federation
from .messages import rehearsed

MADE = "Is it made in `start`, or by super().start(fed)? What a client keeps: by fed.ask"


def examine(method: str, run=None) -> bool:
    """Try a registered method on a few images, print a line per promise; whether it keeps all.

    Two rounds of one local epoch, with the benchmark's settings on the bundled digits, or with the
    recipe and the scenario of a notebook's `run`. Below the promises: what was seen in round 2.
    Raises `SettingError` for a name that nobody registered.
    """
    choose(method, methods.METHODS, kind="method", where="examine")
    run = run or _benchmark()
    fed, seen = _stage(run, method), {}
    if not _line("plays two rounds", lambda: seen.update(watched(fed)) or "yes"):
        return False
    sent = sum(row["bytes"] for row in fed.history["bytes"])
    kept = [
        _line("what crosses is counted", lambda: f"{figures.human_bytes(sent)} in two rounds"),
        _line("same bits with two threads", lambda: _same(fed, _played(run, method, threads=2))),
        _line("same bits after a stop", lambda: _same(fed, _resumed(run, method))),
        _line("same bits with clients apart", lambda: _apart(fed, run)),
        _line("weights it keeps are copies", lambda: _copies(fed)),
    ]
    print("\nSeen in round 2; is it what you mean?")
    for words, what in seen.items():
        _print(words, what)
    return all(kept)


def watched(fed: Federation) -> dict[str, str]:
    """Play `fed`; in words, what its last round began with, changed, and left in memory."""
    rounds.run(fed, progress=lambda numbers: list(numbers)[:-1])
    server, began, usual = _weights(fed.server), {}, fed.method.collaborate
    before = {client: (_weights(client), _copy(client.state)) for client in fed.clients}

    def collaborate(stage, clients):
        usual(stage, clients)
        began.update({client: (_weights(client), _copy(client.state)) for client in clients})

    fed.method.collaborate = collaborate
    try:
        rounds.run(fed)
    finally:
        del fed.method.collaborate
    client = next(iter(began))
    (own, memory), (weights, state) = before[client], began[client]
    begins = "its own network, as it was" if _equal(weights, own) else "its own network, changed"
    if server and _equal({k: w for k, w in weights.items() if k in server}, server):
        begins = "the server's network"
    ends = "stays as it was" if _equal(server, _weights(fed.server)) else "changes"
    old, new, late = "kept from round 1", "set anew", "made in this round"
    remembers = [
        f"{key} ({late if key not in memory else old if _equal(memory[key], state[key]) else new})"
        for key in state
    ] + [f"{key} ({late})" for key in client.state if key not in state]
    return {
        "a client begins with": begins,
        "the server's network": ends if server else "there is none",
        "a client keeps beside them": ", ".join(remembers) or "nothing",
    }


# ------------------------------------------------------------------------------ a line, a promise


def _line(words: str, check) -> bool:
    """Print what a check says, or what it raises; whether the promise is kept."""
    try:
        said = check()
    except Exception as error:  # a reader's method may raise anything
        said = f"NO: {arenas.in_words(error).removeprefix('raised ')}"
        if isinstance(error, KeyError):
            said += f" is missing. {MADE}"
    _print(words, said)
    return not said.startswith("NO")


def _print(words: str, said: str) -> None:
    print(textwrap.fill(f"{words:<28} {said}", 88, subsequent_indent=" " * 29))


def _same(one: Federation, other: Federation) -> str:
    """Whether both hold the same weights, to the last bit."""
    pairs = zip((one.server, *one.clients), (other.server, *other.clients), strict=True)
    return "yes" if all(_equal(_weights(a), _weights(b)) for a, b in pairs) else "NO"


def _apart(fed: Federation, run) -> str:
    """Whether every client could be a process of its own, and nothing would change."""
    there = rehearsed(arenas.few(run.scenario), run.recipe.make(fed.method.name), fed.settings)
    rounds.run(there)
    keys = ("accuracy", "loss", "bytes")
    return "yes" if all(there.history[k] == fed.history[k] for k in keys) else "NO"


def _copies(fed: Federation) -> str:
    found = living(fed)
    return f"NO: {found[0]} is a weight itself; clone it" if found else "yes"


def living(fed: Federation) -> list[str]:
    """Where a client's `state` keeps tensors that its networks go on changing."""
    found = []
    for client in fed.clients:
        weights = [network.state_dict() for network in client.models.values()]
        places = {w.untyped_storage().data_ptr() for w in _tensors(weights)}
        for key, value in client.state.items():
            if places & {w.untyped_storage().data_ptr() for w in _tensors(value)}:
                found.append(f"state[{key!r}] of {client.id}")
    return found


# ---------------------------------------------------------------------------------- what is played


def _benchmark() -> SimpleNamespace:
    recipe = recipes.load(arenas.RECIPE, profile="quick")
    scenario = scenarios.build(recipe.scenario, **recipe.scenario_options)
    return SimpleNamespace(recipe=recipe, scenario=scenario, artifacts=None)


def _stage(run, method: str, *, threads: int = 1) -> Federation:
    settings = replace(run.recipe.settings, rounds=2, eval_every=2, observe=[], client_epochs=[],
                       local_epochs=1)  # fmt: skip
    return Federation(arenas.few(run.scenario), run.recipe.make(method), settings,
                      threads=threads, artifacts=run.artifacts)  # fmt: skip


def _played(run, method: str, *, threads: int) -> Federation:
    fed = _stage(run, method, threads=threads)
    rounds.run(fed)
    return fed


def _resumed(run, method: str) -> Federation:
    """The second round is played from a checkpoint."""
    with TemporaryDirectory() as folder:
        first, second = _stage(run, method), _stage(run, method)
        rounds.run(first, checkpoint=folder, every=0, progress=lambda n: list(n)[:1])
        rounds.run(second, checkpoint=folder, every=0)
    return second


# ------------------------------------------------------------------------------ what is looked at


def _weights(place) -> dict:
    """Copies of all weights of a client or the server, as they are now."""
    return {f"{role}/{name}": w.detach().clone() for role, network in place.models.items()
            for name, w in network.state_dict().items()}  # fmt: skip


def _copy(value):
    """The same with copies of all tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list | tuple) else value


def _tensors(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    inside = parts if isinstance(value, dict | list | tuple) else ()
    return [tensor for part in inside for tensor in _tensors(part)]


def _equal(a, b) -> bool:
    """Whether two values are the same to the last bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
