"""Who sends what in a round: rows for `figures.who_sends_what`, counted in rounds that were played.

The rounds are real ones with the recipe's clients, networks, images and batches, so every shape and
every byte is that of a run. What changes no message is made short: one local epoch, one epoch of
pretraining, one step of each distillation, no evaluation.

Some messages do not cross in every round. A client says only once how many images it has; FD sends
means down from round 2 on, because nobody has any before. So three rounds are played, and each row
says when its message crosses.
"""

from collections.abc import Sequence

from ..channel import SERVER, Message
from ..federation import Federation
from ..methods import parameters
from ..rounds import run_round
from .payloads import in_words, spread
from .recipes import Recipe, load

ROUNDS = 3  # no method of the suite begins to send something later
SHORT = ("pretrain_epochs", "local_steps", "global_steps")  # parameters that change no message
TRAINING = "local training"
SOMETIMES = "only in round {}; rounds 1 to 3 are drawn"


def exchange(recipe: Recipe | str, method: str, *, scenario=None, seed: int = 0,
             device="cpu") -> list[dict]:  # fmt: skip
    """What crosses in a round of `method`, one row per message, in the order of the round.

    recipe: a recipe, or the name of one, which is taken in its quick profile. scenario: that of the
    recipe where it is already built. See `counted` for the rows. What does not fit together raises
    the `FedtutorError` that a run of it raises.
    """
    recipe = load(recipe, profile="quick") if isinstance(recipe, str) else recipe
    recipe = recipe.change(_cuts(recipe, method))
    data = recipe.build(seed) if scenario is None else scenario
    settings = recipe.settings_of(method)
    return counted(Federation(data, recipe.make(method), settings, seed=seed, device=device))


def counted(fed: Federation) -> list[dict]:
    """Play three rounds of a new federation and return what crossed, in the order of the round.

    A row is a dict:

    - "direction": "up", "down" or "peer"; "name" of the message; "shape" in words;
    - "bytes" of one message, (least, most) where they differ;
    - "times": how many of them one client sends or receives in a round; "when", in words, empty
      for once in every round; "clients": how many send or receive it;
    - "totals": round -> bytes of all its messages in that round; round 0 is before round 1.

    The row of direction "client" says where the clients train: nothing crosses there. A message
    that crosses only before round 1 stands first; one of a later round behind the message that it
    follows there.
    """
    sent, active = _played(fed)
    order = _order([list(sent[r]) for r in range(1, ROUNDS + 1)], list(sent[0]))
    rows = [_row(fed, key, sent, active) for key in order]
    trains = {"direction": "client", "name": TRAINING, "shape": "", "bytes": 0, "times": 1,
              "when": "", "clients": len(active[1]), "totals": {}}  # fmt: skip
    place = len(rows) - sum(any(m.late for m in _first(sent, key)) for key in order)
    return [*rows[:place], trains, *rows[place:]]


def _cuts(recipe: Recipe, method: str) -> dict:
    """The changes that make a run short and leave every message as it is."""
    known, settings = {**parameters(method), **recipe.methods.get(method, {})}, recipe.settings
    own = {f"{method}.{name}": 1 for name in SHORT if known.get(name, 0) > 1}
    return {
        "local_epochs": 1, "client_epochs": [], "observe": [], "eval_every": ROUNDS + 1,
        "virtual_steps": min(settings.virtual_steps, 1),
        "rounds": max(settings.rounds, ROUNDS + 1), **own,
    }  # fmt: skip


class _Sent:
    """What is kept of one message: its client, its shape in numbers, bytes, whether it was sent
    after local training."""

    def __init__(self, message: Message, late: bool):
        up = message.target == SERVER
        self.client = message.source if up or message.source != SERVER else message.target
        self.bytes, self.shape, self.late = message.bytes, in_words(message.payload), late


def _played(fed: Federation) -> tuple[dict, dict]:
    """Round -> (direction, name) -> messages, in the order of their first; round -> who trained."""
    channel, order, late = fed.channel, [], {}

    def note(message: Message, _) -> object:
        key = _key(message)
        if key not in late:
            order.append(key)
            late[key] = fed.inside_round
        return message.payload

    channel.record = {"rounds": list(range(ROUNDS + 1))}
    channel.filters.append(note)
    sent, active = {}, {}
    with fed.workers():
        for round_ in range(ROUNDS + 1):
            order.clear(), late.clear()
            if round_:
                run_round(fed, round_)
                losses = fed.history["loss"][-1]["values"]
                active[round_] = {c.id for c, v in zip(fed.clients, losses, strict=True)
                                  if v is not None}  # fmt: skip
            else:
                fed.begin()
            found = {key: [] for key in order}
            for message in channel.messages:
                found[_key(message)].append(_Sent(message, late[_key(message)]))
            sent[round_] = found
            channel.restore({**channel.state(), "messages": []})  # they can be large
    return sent, active


def _key(message: Message) -> tuple[str, str]:
    up, down = message.target == SERVER, message.source == SERVER
    return "up" if up else "down" if down else "peer", message.name


def _order(rounds: Sequence[list], before: list) -> list:
    """All keys in one order: each behind the one that it follows in its round."""
    order = []
    for keys in rounds:
        place = 0
        for key in keys:
            if key in order:
                place = order.index(key) + 1
            else:
                order.insert(place, key)
                place += 1
    return [key for key in before if key not in order] + order


def _first(sent: dict, key: tuple) -> list[_Sent]:
    """The messages of the first round in which they cross, round 0 only where there is no other."""
    there = [r for r in (*range(1, ROUNDS + 1), 0) if key in sent[r]]
    return sent[there[0]][key]


def _row(fed: Federation, key: tuple, sent: dict, active: dict) -> dict:
    messages = _first(sent, key)
    clients = [m.client for m in messages]
    times = max(clients.count(c) for c in clients)
    sizes = sorted({m.bytes for m in messages})
    rounds = {r: {m.client for m in found[key]} for r, found in sent.items() if key in found}
    return {
        "direction": key[0], "name": key[1], "shape": spread([m.shape for m in messages]),
        "bytes": sizes[0] if len(sizes) == 1 else (sizes[0], sizes[-1]), "times": times,
        "when": ", ".join(filter(None, [_how_often(fed, times), _in_which(rounds, active)])),
        "clients": len(set(clients)),
        "totals": {r: sum(m.bytes for m in sent[r][key]) for r in rounds},
    }  # fmt: skip


def _how_often(fed: Federation, times: int) -> str:
    if times == 1:
        return ""
    public = fed.scenario.public is not None and len(fed.public_batches(1)) == times
    return "once per public batch" if public else "in a round"


def _in_which(rounds: dict[int, set], active: dict[int, set]) -> str:
    """Words for the rounds in which a message crosses; "" where it is every one.

    rounds: round -> who sent or received it; active: round -> who trained.
    """
    if list(rounds) == [0]:
        return "once, before round 1"
    own = {r: who for r, who in rounds.items() if r}
    begin = min(own)
    ahead = "before round 1 and " if 0 in rounds else ""
    if all(own.get(r) == own[begin] or own.get(r, set()) >= who
           for r, who in active.items() if r >= begin):  # fmt: skip
        if begin == 1:
            return f"{ahead}in every round" if ahead else ""
        return f"{ahead}from round {begin} on"
    seen, once = set(), True
    for who in own.values():
        once, seen = once and not (who & seen), seen | who
    if once and begin == 1:
        return ahead + ("once, in round 1" if len(own) == 1 else "once, in a client's first round")
    return ahead + SOMETIMES.format(" and ".join(map(str, own)))
