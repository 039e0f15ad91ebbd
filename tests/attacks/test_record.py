"""An attacker reads the channel's record and nothing else; and what the record gives exactly."""

import ast
import inspect
import json

import pytest
import torch
from support.federations import federation, played, tiny_scenario

from fedtutor import attacks, models
from fedtutor.attacks import inversion, membership, quality, record
from fedtutor.errors import DataError, SettingError, StorageError
from fedtutor.experiments import attack_list
from fedtutor.randomness import generator
from fedtutor.rounds import run


def linear(name="linear"):
    return models.build(name, num_classes=3, in_channels=1, image_size=4,
                        generator=generator("attacker"))  # fmt: skip


def one_step(name="linear", count=6, **changes):
    """One round of FedAvg in which each client takes one step on all its images."""
    return played("fedavg", scenario=tiny_scenario(count=count, public=False), rounds=1,
                  local_epochs=1, batch_size=50, models=[name], record={"rounds": [1]},
                  **changes)  # fmt: skip


# --------------------------------------------------------------------- nothing but the record


@pytest.mark.parametrize("module", [record, membership, inversion, quality])
def test_no_attack_knows_a_class_that_holds_private_images(module):
    """The source imports neither clients, federations, scenarios nor data sets."""
    forbidden = {"clients", "federation", "scenarios", "datasets", "rounds", "experiments"}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.level:
            name, names = (node.module or "").split(".")[0], {a.name for a in node.names}
            assert name not in forbidden and not names & forbidden, (name, names)


@pytest.mark.parametrize("holder", ["fed", "channel", "client"])
def test_what_holds_more_than_the_record_is_refused(holder):
    fed = one_step()
    given = {"fed": fed, "channel": fed.channel, "client": fed.clients[0]}[holder]
    with pytest.raises(SettingError, match="is no record"):
        attacks.crossed(given, "weights", client="domain0", round_=1)
    with pytest.raises(SettingError, match="is no record"):
        attacks.inventory(given)


def reconstructed(messages):
    before, after = attacks.before_and_after(messages, client="domain0", round_=1)
    network = attacks.with_weights(linear(), before)
    way = attacks.way_of(network, before, after)
    y = torch.arange(6) % 3
    return attacks.invert(network, way, y, mean=(0.5,), std=(0.25,), steps=5).x


def test_the_attack_gives_the_same_bits_when_the_clients_are_gone():
    fed = one_step()
    messages = fed.channel.messages
    first = reconstructed(messages)
    for client in fed.clients:  # whoever looked at them now would see something else
        client.private.x.zero_()
        client.data.x.zero_()
        client.models.clear()
    fed.server.models.clear()
    assert torch.equal(reconstructed(messages), first)
    assert not torch.equal(reconstructed(one_step(seed=1).channel.messages), first)


def test_changing_what_was_read_does_not_change_the_record():
    messages = one_step().channel.messages
    attacks.crossed(messages, "weights", client="domain0", round_=1)["classifier.bias"].zero_()
    again = attacks.crossed(messages, "weights", client="domain0", round_=1)
    assert again["classifier.bias"].abs().sum() > 0


def test_only_recorded_rounds_and_names_can_be_read():
    fed = federation("fedavg", record={"rounds": [2], "clients": ["domain1"]})
    run(fed)
    messages = fed.channel.messages
    attacks.crossed(messages, "weights", client="domain1", round_=2)
    for client, round_, name in (("domain0", 2, "weights"), ("domain1", 1, "weights"),
                                 ("domain1", 2, "logits")):  # fmt: skip
        with pytest.raises(DataError, match="0 messages"):
            attacks.crossed(messages, name, client=client, round_=round_)
    with pytest.raises(SettingError, match="way"):
        attacks.crossed(messages, "weights", client="domain1", round_=2, way="out")


def test_inventory_has_one_row_per_kind():
    rows = attacks.inventory(one_step().channel.messages)
    assert [(r["direction"], r["name"], r["holds"]) for r in rows] == [
        ("up", "number of images", "one number"), ("up", "weights", "51 numbers in 2 tensors"),
        ("down", "weights", "51 numbers in 2 tensors"),
    ]  # fmt: skip
    assert rows[1]["bytes"] == 4 * 51


# ------------------------------------------------------------------ what the record gives exactly


def test_one_step_is_the_learning_rate_times_the_gradient():
    fed = one_step()
    client = fed.clients[0]
    before, after = attacks.before_and_after(fed.channel.messages, client=client.id, round_=1)
    network = attacks.with_weights(linear(), before)
    x = fed.scenario.normalize(client.data.x)
    slopes = attacks.gradient(network, x, client.data.y)
    for way, slope in zip(attacks.way_of(network, before, after), slopes, strict=True):
        assert torch.allclose(way, fed.settings.lr * slope, atol=1e-7)


# ------------------------------------------------------------------------- kept as JSON


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A study, and a folder of its own; one entry for each time that it was computed."""
    calls = []

    def compute(*, seed):
        calls.append(seed)
        return {"auc": [0.5, 0.75]}

    monkeypatch.setattr(attack_list, "FOLDER", tmp_path)
    monkeypatch.setattr(attack_list, "STUDIES", {"a": (compute, {"seed": 0})})
    monkeypatch.setattr(attack_list, "waiting", list)
    return calls


def test_a_kept_attack_is_computed_once(toy, tmp_path, monkeypatch):
    for count, record_ in ((1, ""), (2, "1"), (2, ""), (2, "1")):
        monkeypatch.setenv("FEDTUTOR_RECORD", record_)
        assert attack_list.study("a") == {"auc": [0.5, 0.75]}
        assert len(toy) == count
    value = json.loads((tmp_path / "a.json").read_text())
    assert value.keys() == attack_list.PARTS and value["environment"]["torch"]
    attack_list.study("a", seed=1)  # another setting
    attack_list.study("a", seed=1, recompute=True)
    assert len(toy) == 4


def test_a_damaged_file_is_one_clear_error(toy, tmp_path):
    (tmp_path / "a.json").write_text('{"format": 1}')
    with pytest.raises(StorageError):
        attack_list.study("a")


COMMITTED = sorted(attack_list.FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_attacks_are_whole(path):
    value = json.loads(path.read_text())
    assert value.keys() == attack_list.PARTS and value["name"] == path.stem and value["format"] == 1
    assert value["environment"]["torch"] and value["numbers"] and value["cpu_seconds"] > 0
