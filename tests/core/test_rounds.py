"""The round loop: order of hooks, randomness, threads, observation, errors."""

import pytest
import torch
from support.federations import (
    assert_same_bits,
    federation,
    images,
    played,
    tiny_scenario,
    weights_of,
)
from support.runs import NoGlobalRandomness, sized

from fedtutor import rounds
from fedtutor.engine.batches import batches
from fedtutor.errors import DataError, ModelError, SettingError, TrainingError
from fedtutor.methods import Method
from fedtutor.models import Network
from fedtutor.scenarios.base import ClientData


class Diary(Method):
    """Writes down which hook was called when."""

    name = "diary"

    def __init__(self):
        self.lines = []

    def start(self, fed):
        self.lines.append("start")

    def select(self, fed):
        self.lines.append(f"select {fed.round_}")
        return fed.clients[:2]

    def collaborate(self, fed, clients):
        self.lines.append(f"collaborate {len(clients)}")

    def after_step(self, client):
        self.lines.append("step")

    def after_epoch(self, client):
        self.lines.append("epoch")

    def after_local(self, client):
        self.lines.append(f"after_local {client.id}")

    def aggregate(self, fed, clients):
        self.lines.append("aggregate")


def test_hooks_are_called_in_the_order_of_the_contract():
    diary = Diary()
    scenario = tiny_scenario(clients=2, count=8)
    fed = rounds.Federation(scenario, diary, federation(rounds=1, local_epochs=1).settings, seed=0)
    rounds.run(fed)
    assert diary.lines == [
        "start", "select 1", "collaborate 2",
        "step", "epoch", "after_local domain0",
        "step", "step", "epoch", "after_local domain1", "aggregate",
    ]  # fmt: skip
    assert [c.steps for c in fed.clients] == [1, 2]


def test_a_look_after_every_local_epoch_changes_nothing():
    """What a notebook does: put a function in the place of the hook."""
    fed, seen = federation(local_epochs=3, rounds=1), {}

    def look(client):
        with torch.no_grad():
            apart = client.model.classifier.weight - fed.server.model.classifier.weight
        seen.setdefault(client.id, []).append(float(apart.norm()))

    fed.method.after_epoch = look
    rounds.run(fed)
    assert {len(distances) for distances in seen.values()} == {3}
    for distances in seen.values():
        assert 0 < distances[0] < distances[1] < distances[2]
    assert_same_bits(weights_of(fed), weights_of(played(local_epochs=3, rounds=1)))


def test_torch_threads_are_set_back(two_threads):
    played(threads=2)
    assert torch.get_num_threads() == 2


def test_another_seed_gives_other_weights():
    a, b = weights_of(played(seed=0)), weights_of(played(seed=1))
    assert not torch.equal(a["server/model/classifier.weight"], b["server/model/classifier.weight"])


def test_the_guard_itself_catches_dropout():
    with pytest.raises(AssertionError, match="global"), NoGlobalRandomness():
        torch.nn.functional.dropout(torch.ones(4), 0.5)


@pytest.mark.parametrize("network", ["noisy", "small_mobile", "small_resnet"])
@pytest.mark.parametrize("method", ["solo", "central", "fedavg", "fedprox"])
def test_nothing_in_a_round_reads_the_global_generator(method, network):
    scenario = tiny_scenario(clients=2, count=8)
    if network != "noisy":
        scenario = sized(scenario, 32)
    before = torch.get_rng_state()
    with NoGlobalRandomness():
        played(method, scenario=scenario, rounds=1, models=[network])
    played(method, scenario=scenario, rounds=1, models=[network], threads=2)
    assert torch.equal(torch.get_rng_state(), before)


def test_evaluation_and_observation():
    fed = played(rounds=2, observe=list(rounds_moments()), eval_every=2)
    seen = [(e["round"], e["moment"], e["epoch"]) for e in fed.history["accuracy"]]
    inside = [("after_collaborate", None), ("local_epoch", 1), ("local_epoch", 2),
              ("after_local", None), ("after_aggregate", None)]  # fmt: skip
    assert seen == [(0, "end", None), *((1, *m) for m in inside), *((2, *m) for m in inside),
                    (2, "end", None)]  # fmt: skip
    by = {(e["round"], e["moment"], e["epoch"]): e["matrix"] for e in fed.history["accuracy"]}
    assert by[1, "after_collaborate", None] == by[0, "end", None]  # everybody holds w_0
    assert by[1, "local_epoch", 2] == by[1, "after_local", None]
    assert by[2, "after_aggregate", None] == by[2, "end", None]
    assert len({tuple(row) for row in by[2, "end", None]}) == 1  # one shared network


def rounds_moments():
    from fedtutor.settings import MOMENTS

    return MOMENTS


def test_clients_may_train_for_different_numbers_of_epochs():
    fed = played("solo", rounds=1, client_epochs=[3, 1, 2], observe=["local_epoch"], batch_size=99)
    assert [c.steps for c in fed.clients] == [3, 1, 2]
    matrices = [e["matrix"] for e in fed.history["accuracy"] if e["moment"] == "local_epoch"]
    assert [[row is None for row in m] for m in matrices] == [
        [False, False, False], [False, True, False], [False, True, True],
    ]  # fmt: skip
    with pytest.raises(SettingError, match="2 entries for 3 clients"):
        federation("solo", client_epochs=[1, 2])


def test_a_shared_network_is_run_once(monkeypatch):
    calls = []
    original = Network.forward
    monkeypatch.setattr(Network, "forward", lambda self, x: calls.append(1) or original(self, x))
    fed = federation("fedavg")
    fed.method.start(fed)
    fed.evaluate("end")
    assert len(calls) == len(fed.scenario.tests)


def test_participation_draws_clients_per_round_and_seed():
    fed = federation("solo", scenario=tiny_scenario(clients=6), participation=0.5)
    drawn = []
    for round_ in range(1, 9):
        fed.begin_round(round_)
        drawn.append(tuple(c.id for c in fed.method.select(fed)))
    assert all(len(d) == 3 and list(d) == sorted(d) for d in drawn)
    assert len(set(drawn)) > 3
    fed.begin_round(1)
    assert tuple(c.id for c in fed.method.select(fed)) == drawn[0]


def test_who_sits_out_has_no_loss_and_no_row_inside_the_round():
    fed = played("solo", participation=0.4, rounds=1, observe=["after_local"])
    losses = fed.history["loss"][0]["values"]
    inside = fed.history["accuracy"][1]["matrix"]
    assert [v is None for v in losses] == [row is None for row in inside]
    assert sum(v is not None for v in losses) == 2
    assert None not in fed.history["accuracy"][-1]["matrix"]


def test_public_batches_are_the_same_for_all_and_cover_every_image():
    fed = federation("solo", public_batch_size=8, public_epochs=2)
    orders = fed.public_batches(3)
    assert [len(i) for i in orders] == [8, 8, 4, 8, 8, 4]
    assert sorted(torch.cat(orders[:3]).tolist()) == list(range(20))
    assert all(torch.equal(a, b) for a, b in zip(orders, fed.public_batches(3), strict=True))
    assert not torch.equal(orders[0], fed.public_batches(4)[0])


def test_drop_last():
    fed = federation("solo", batch_size=5, drop_last=True)
    own = torch.Generator().manual_seed(0)
    assert [len(b) for b in batches(fed, 12, own)] == [5, 5]
    assert [len(b) for b in batches(fed, 3, own)] == [3]  # a small client still trains


def test_a_lone_last_image_joins_the_batch_before_it():
    fed = federation("solo", batch_size=5)
    own = torch.Generator().manual_seed(0)
    for count, sizes in ((11, [5, 6]), (12, [5, 5, 2]), (6, [6]), (1, [1]), (10, [5, 5])):
        parts = batches(fed, count, own)
        assert [len(b) for b in parts] == sizes
        assert sorted(torch.cat(parts).tolist()) == list(range(count))


def test_keep_optimizer():
    fed = federation("solo", momentum=0.9, keep_optimizer=True, rounds=1)
    rounds.run(fed)
    kept = fed.clients[0].optimizer
    rounds.run_round(fed, 2)
    assert fed.clients[0].optimizer is kept
    forgetful = played("solo", momentum=0.9, rounds=1)
    assert all(c.optimizer is None for c in forgetful.clients)
    for c in [*fed.clients, *forgetful.clients]:
        assert all(p.grad is None for p in c.model.parameters())  # memory that nobody needs


def test_the_loss_of_an_epoch_is_the_sum_of_float32_in_order():
    drawn = torch.rand(1000, generator=torch.Generator().manual_seed(0)) ** 8 * 1e4
    losses, sizes = list(drawn), [1 + i % 7 for i in range(1000)]
    total = 0.0
    for loss, size in zip(losses, sizes, strict=True):
        total = total + loss * size
    assert rounds.epoch_loss(losses, sizes) == float(total) / sum(sizes)
    assert rounds.epoch_loss(losses[:1], sizes[:1]) == float(losses[0])
    shaped = [loss[None] for loss in losses]  # backward() takes a loss of shape [1], too
    assert rounds.epoch_loss(shaped, sizes) == rounds.epoch_loss(losses, sizes)


def test_common_and_own_initialization():
    def first_weights(**changes):
        return [c.model.classifier.weight for c in federation("solo", **changes).clients]

    a, b, _ = first_weights()
    assert torch.equal(a, b)
    a, b, _ = first_weights(common_init=False)
    assert not torch.equal(a, b)


# Bad input: one clear error each.


def test_an_empty_client_is_refused():
    from dataclasses import replace

    scenario = tiny_scenario()
    none = images(3, seed=0)[torch.tensor([], dtype=torch.long)]
    with pytest.raises(DataError, match="holds no image"):
        federation(scenario=replace(scenario, clients=(
            *scenario.clients[:2], ClientData("lone", "domain2", none))))  # fmt: skip


def test_a_wrong_number_of_networks_is_refused():
    with pytest.raises(SettingError, match="2 networks for 3 clients"):
        federation(models=["linear", "noisy"])


def test_different_networks_cannot_be_averaged():
    with pytest.raises(ModelError, match="domain1 one of"):
        played("fedavg", models=["linear", "noisy", "linear"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_the_run(value):
    class Broken(Method):
        name = "broken"

        def local_loss(self, client, x, y):
            return super().local_loss(client, x, y) * (value if client.round_ == 2 else 1)

    fed = rounds.Federation(tiny_scenario(), Broken(), federation().settings, seed=0)
    with pytest.raises(TrainingError, match="broken, round 2, local epoch 1"):
        rounds.run(fed)


def test_a_class_count_that_does_not_fit_is_refused():
    class TooMany(Method):
        name = "too-many"

        def build(self, client, make):
            return {"model": make(num_classes=7)}

    with pytest.raises(ModelError, match="num_classes=3"):
        rounds.run(rounds.Federation(tiny_scenario(), TooMany(), federation().settings, seed=0))


def test_public_data_must_be_there():
    with pytest.raises(DataError, match="there are none"):
        federation("solo", scenario=tiny_scenario(public=False)).public_batches(1)


def test_rounds_is_short_and_names_no_method():
    from pathlib import Path

    from fedtutor.methods import METHODS

    source = Path(rounds.__file__).read_text()
    assert len(source.splitlines()) <= 200
    assert not [name for name in METHODS if name in source.lower()]


# --- precision


def test_bf16_is_asked_for_and_the_same_for_any_number_of_threads():
    full = weights_of(played("fedavg", precision="float32"))
    assert_same_bits(full, weights_of(played("fedavg")))
    half = weights_of(played("fedavg", precision="bf16"))
    assert any(not torch.equal(full[name], half[name]) for name in full)
    assert_same_bits(half, weights_of(played("fedavg", precision="bf16", threads=2)))


@pytest.mark.parametrize(
    "precision, unit", [("float32", "ieee"), ("tf32", "tf32"), ("bf16", "ieee")]
)
def test_matrix_units_round_only_where_the_settings_say_so(precision, unit):
    units = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = [u.fp32_precision for u in units]
    fed = federation(precision=precision)
    with fed.workers():
        assert [u.fp32_precision for u in units] == [unit, unit]
    assert [u.fp32_precision for u in units] == before


def test_an_unknown_precision_is_refused():
    with pytest.raises(SettingError, match="unknown precision 'fp16'"):
        federation(precision="fp16")
