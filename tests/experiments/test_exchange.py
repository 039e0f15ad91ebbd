"""The rows of a diagram against the channel's own table, for every method and a reader's own."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from support.every import NAMES, ready
from support.federations import tiny_scenario

from fedtutor.errors import SettingError
from fedtutor.experiments import exchange, payloads, recipes
from fedtutor.experiments.exchange import ROUNDS, counted
from fedtutor.federation import Federation
from fedtutor.methods import Method, register
from fedtutor.methods.base import METHODS
from fedtutor.rounds import run

QUICK = {"fccl": "fccl", "fccl+": "fccl_plus", "fedcsd": "fedcsd", "repshare": "repshare",
         "fedlgd": "fedlgd", "scaffold": "start", "central": "start"}  # fmt: skip


def table_of(fed) -> dict:
    return {(row["round"], row["direction"], row["name"]): row["bytes"]
            for row in fed.channel.table()}  # fmt: skip


def totals_of(rows) -> dict:
    return {(r, row["direction"], row["name"]): size
            for row in rows for r, size in row["totals"].items()}  # fmt: skip


def messages(rows) -> list[tuple[str, str]]:
    return [(row["direction"], row["name"]) for row in rows]


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_a_plain_run(name):
    """The channel of another federation, which nobody listened to, counts the same."""
    plain = ready(name, rounds=ROUNDS, local_epochs=1)
    run(plain)
    rows = counted(ready(name, rounds=ROUNDS + 1, local_epochs=1))
    assert totals_of(rows) == table_of(plain)
    assert messages(rows).count(("client", "local training")) == 1
    assert len(set(messages(rows))) == len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_adds_up(name):
    for row in counted(ready(name, rounds=ROUNDS + 1)):
        low, high = row["bytes"] if isinstance(row["bytes"], tuple) else (row["bytes"],) * 2
        for total in row["totals"].values():
            assert low <= total / row["clients"] / row["times"] <= high
        assert row["when"] or row["times"] == 1


def test_the_order_is_that_of_the_round():
    rows = counted(ready("fedcsd", rounds=ROUNDS + 1))
    assert messages(rows) == [
        ("down", "weights"), ("down", "teacher"), ("up", "prototypes"), ("down", "prototypes"),
        ("client", "local training"), ("up", "weights"), ("up", "number of images"),
    ]  # fmt: skip


def test_words_for_messages_that_do_not_cross_in_every_round():
    when = {
        (name, row["direction"], row["name"]): row["when"]
        for name in ("central", "fedavg", "fd", "fedlgd", "rhfl")
        for row in counted(ready(name, rounds=ROUNDS + 1))
    }
    assert when["central", "up", "images"] == "once, before round 1"
    assert when["fedavg", "up", "number of images"] == "once, in round 1"
    assert when["fedavg", "up", "weights"] == ""
    assert when["fd", "down", "means"] == "from round 2 on"
    assert when["rhfl", "up", "loss"] == "from round 2 on"
    assert when["rhfl", "up", "logits"] == ""
    assert when["fedlgd", "down", "virtual images"].startswith("only in round 2; ")


def test_a_message_per_public_batch_is_one_row():
    rows = counted(ready("fccl+", rounds=ROUNDS + 1, public_batch_size=6))  # 20 images: 6, 6, 6, 2
    up = next(row for row in rows if row["name"] == "similarities")
    assert (up["times"], up["when"]) == (4, "once per public batch")
    assert up["shape"] == "[2 to 6, 1 to 5]"
    assert up["bytes"] == (2 * 1 * 4, 6 * 5 * 4)


def test_clients_that_differ_are_a_range():
    rows = counted(ready("central", rounds=ROUNDS + 1))  # 24, 27 and 30 images
    assert rows[0]["shape"] == "x [27 to 30, 1, 4, 4], y [27 to 30]"
    assert rows[0]["clients"] == 2 and rows[0]["bytes"] == (27 * 24, 30 * 24)


def test_who_sits_out_is_not_counted():
    rows = counted(ready("fedavg", rounds=ROUNDS + 1, participation=0.4))
    told = {row["name"]: row for row in rows if row["direction"] == "up"}
    assert told["weights"]["clients"] == 2 and told["weights"]["when"] == ""
    assert told["number of images"]["when"] == "once, in a client's first round"


def test_a_method_of_a_readers_own(own_tables):
    @register("gossip")
    @dataclass
    class Gossip(Method):
        """Everybody tells the next client two numbers, and the server a list."""

        def collaborate(self, fed, clients):
            for a, b in pairwise(clients):
                fed.channel.send(a.id, b.id, "gossip", [1.0, 2.0])

        def aggregate(self, fed, clients):
            for client in clients:
                fed.channel.up(client, "news", {c: torch.zeros(k) for k, c in enumerate("abcd")})

    rows = counted(ready("gossip", rounds=ROUNDS + 1))
    assert messages(rows) == [("peer", "gossip"), ("client", "local training"), ("up", "news")]
    assert rows[0]["clients"] == 2 and rows[0]["bytes"] == 16
    assert rows[2]["shape"] == "6 numbers in 4 tensors"
    plain = ready("gossip", rounds=ROUNDS)
    run(plain)
    assert totals_of(rows) == table_of(plain)


def test_what_a_filter_changes_is_counted_as_it_crosses(own_tables):
    @register("halved")
    @dataclass
    class Halved(METHODS["fedavg"]):
        """FedAvg whose channel halves the numbers' length."""

        def start(self, fed):
            super().start(fed)
            fed.channel.filters.append(lambda m, _: {k: v.half() for k, v in m.payload.items()}
                                       if m.name == "weights" else m.payload)  # fmt: skip

    full, half = (counted(ready(name, rounds=ROUNDS + 1)) for name in ("fedavg", "halved"))
    assert half[0]["bytes"] * 2 == full[0]["bytes"]


@pytest.mark.parametrize("method", QUICK)
def test_cutting_short_changes_no_message_of_the_quick_recipes(method, monkeypatch):
    """The first round as the recipe has it, local epochs and steps and all."""
    recipe = recipes.load(QUICK[method], profile="quick")
    changes = {"fedlgd": {"virtual_steps": 2, "fedlgd.local_steps": 3, "fedlgd.global_steps": 3},
               "fccl": {"fccl.pretrain_epochs": 2}}.get(method, {})  # fmt: skip
    recipe = recipe.change({**changes, "local_epochs": 2, "rounds": 1, "eval_every": 9})
    scenario = recipe.build()
    fed = Federation(scenario, recipe.make(method), recipe.settings, seed=0)
    run(fed)
    rows = exchange(recipe, method, scenario=scenario)
    found = {key: size for key, size in totals_of(rows).items() if key[0] < 2}
    assert found == table_of(fed)


def test_a_recipe_can_be_named_and_what_is_unknown_is_refused():
    assert exchange("start", "solo")[0]["name"] == "local training"
    with pytest.raises(SettingError, match="fedavg"):
        exchange("start", "fedavgg")


def test_the_public_images_of_the_scenario_are_asked_for():
    rows = counted(ready("fedavg", scenario=tiny_scenario(public=False), rounds=ROUNDS + 1))
    assert all(row["times"] == 1 for row in rows)


def test_words_for_shapes():
    def said(*sent):
        return payloads.spread([payloads.in_words(payload) for payload in sent])

    a, b = torch.zeros(3, 2), torch.zeros(4, 2)
    assert said(a) == "[3, 2]" and said(a, b) == "[3 to 4, 2]"
    assert said(5) == "one number" and said({"x": a, "n": 1}) == "x [3, 2], n one number"
    assert said([a, a, a, a]) == "24 numbers in 4 tensors"
    assert said([a] * 4, [b] * 4) == "24 numbers in 4 tensors or 32 numbers in 4 tensors"
    assert said(torch.tensor(1.0)) == "one number" and said(None) == ""


def test_a_message_of_a_later_round_stands_behind_the_one_that_it_follows():
    rows = counted(ready("fedlgd", rounds=ROUNDS + 1))
    assert messages(rows)[:3] == [
        ("down", "weights"), ("down", "virtual images"), ("client", "local training"),
    ]  # fmt: skip
