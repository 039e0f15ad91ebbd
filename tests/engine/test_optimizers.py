"""Our optimizers are those of PyTorch, bit for bit."""

import copy
from functools import partial

import pytest
import torch
from support.federations import assert_same_bits, federation, played, weights_of
from torch import nn

from fedtutor import rounds
from fedtutor.clients import Client
from fedtutor.engine import batches, optimizers
from fedtutor.engine.batches import Once
from fedtutor.errors import SettingError
from fedtutor.methods.fedavg import FedAvg, average


def gradients(step: int, network: nn.Module, absent) -> list:
    own = torch.Generator().manual_seed(step)
    drawn = [torch.randn(p.shape, generator=own) for p in network.parameters()]
    return [None if absent(step, i) else g for i, g in enumerate(drawn)]


def trained(made, absent, *, stop: int = 0) -> list[torch.Tensor]:
    """20 steps; after `stop` of them a new optimizer goes on from the old one's state."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(37, 19), nn.Linear(19, 70, bias=False), nn.Linear(70, 3))
    optimizer = made(network.parameters())
    for step in range(1, 21):
        for p, g in zip(network.parameters(), gradients(step, network, absent), strict=True):
            p.grad = g
        optimizer.step()
        optimizer.zero_grad()
        assert all(p.grad is None for p in network.parameters())
        if step == stop:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = made(network.parameters())
            optimizer.load_state_dict(state)
    return [p.detach() for p in network.parameters()]


KINDS = [("SGD", {"lr": 0.05}), ("SGD", {"lr": 0.05, "momentum": 0.9}),
         ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}), ("Adam", {"lr": 1e-3}),
         ("Adam", {"lr": 1e-3, "weight_decay": 1e-2}),
         ("AdamW", {"lr": 1e-3, "weight_decay": 1e-2})]  # fmt: skip
ABSENT = {"never": lambda step, i: False, "one never comes": lambda step, i: i == 2,
          "some come late": lambda step, i: step < 4 * i,
          "now and then": lambda step, i: (3 * step + i) % 4 == 0,
          "all at once": lambda step, i: step % 5 == 0}  # fmt: skip


@pytest.mark.parametrize("kind, options", KINDS)
@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("stop", [0, 6])
def test_the_bits_of_torch(kind, options, absent, stop):
    fused = absent == "never" or "momentum" not in options  # else PyTorch's fused SGD fails
    theirs, ours = (
        trained(partial(getattr(library, kind), **options, **more), ABSENT[absent], stop=stop)
        for library, more in ((torch.optim, {"fused": fused}), (optimizers, {}))
    )
    close = torch.equal if fused else partial(torch.allclose, rtol=1e-6, atol=1e-7)
    assert all(close(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("kind, options", KINDS[1:])
def test_a_state_of_torch_can_be_read(kind, options):
    """Checkpoints of before have it."""
    networks = [nn.Linear(5, 3) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    theirs = getattr(torch.optim, kind)(networks[0].parameters(), fused=True, **options)
    ours = getattr(optimizers, kind)(networks[1].parameters(), **options)
    for step in range(1, 6):
        for optimizer, network in zip((theirs, ours), networks, strict=True):
            for p, g in zip(network.parameters(), gradients(step, network, ABSENT["never"]),
                            strict=True):  # fmt: skip
                p.grad = g
            if step <= 3 or optimizer is theirs:
                optimizer.step()
        if step == 3:
            ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
        elif step > 3:
            ours.step()
            for a, b in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
                assert torch.equal(a, b)


@pytest.mark.parametrize("kind, options", KINDS)
@pytest.mark.parametrize("odd", ["weight", "gradient"])
def test_weights_and_gradients_may_lie_otherwise_in_memory(kind, options, odd):
    """A fused kernel looks at memory alone; neither a step nor a resume may mix numbers up."""
    own = torch.Generator().manual_seed(0)
    start, grads = torch.randn(4, 3, 2, 2, generator=own), torch.randn(5, 4, 3, 2, 2, generator=own)

    def weights(layout, gradient_layout):
        p = nn.Parameter(start.clone().contiguous(memory_format=layout))
        optimizer = getattr(optimizers, kind)([p], **options)
        for step, grad in enumerate(grads):
            p.grad = grad.contiguous(memory_format=gradient_layout)
            optimizer.step()
            if step == 2:
                state = {"state": {i: {n: v.contiguous() for n, v in kept.items()} for i, kept in
                                   optimizer.state_dict()["state"].items()},
                         "param_groups": optimizer.state_dict()["param_groups"]}  # fmt: skip
                optimizer = getattr(optimizers, kind)([p], **options)
                optimizer.load_state_dict(state)
        return p.detach()

    usual, last = torch.contiguous_format, torch.channels_last
    other = weights(last, usual) if odd == "weight" else weights(usual, last)
    assert torch.equal(other, weights(usual, usual))


def test_a_changed_learning_rate_counts():
    p = nn.Parameter(torch.ones(2))
    optimizer = optimizers.SGD([p], lr=1.0)
    optimizer.param_groups[0]["lr"] = 0.25
    p.grad = torch.ones(2)
    optimizer.step()
    assert p.tolist() == [0.75, 0.75]


# --- what else was made quick must stay what it was


def test_images_come_in_the_same_batches_whatever_is_taken_ahead(monkeypatch):
    fed = federation("solo", batch_size=5)
    data = fed.clients[0].data
    plain = batches.batches(fed, len(data), torch.Generator().manual_seed(3))
    for ahead in (1, 200, 2**20):
        monkeypatch.setattr(batches, "AHEAD", ahead)
        pairs = list(rounds.loaded(fed, data, torch.Generator().manual_seed(3)))
        assert len(pairs) == len(plain) == 5
        for (told, x, y), index in zip(pairs, plain, strict=True):
            assert torch.equal(told, index)
            assert torch.equal(x, fed.scenario.normalize(data.x[index]))
            assert torch.equal(y, data.y[index])


def test_bits_do_not_depend_on_what_is_taken_ahead(monkeypatch):
    ahead = weights_of(played("fedavg", models=["hidden"]))
    monkeypatch.setattr(batches, "AHEAD", 1)
    one_by_one = weights_of(played("fedavg", models=["hidden"]))
    assert all(torch.equal(ahead[name], one_by_one[name]) for name in ahead)


@pytest.mark.parametrize("network", ["noisy", "hidden"])
def test_weights_are_read_and_written_as_pytorch_does(network):
    model = federation(models=[network]).clients[0].model
    usual = nn.Module.state_dict(model)
    found = model.state_dict()
    assert list(found) == list(usual)
    assert all(found[n].data_ptr() == usual[n].data_ptr() for n in usual)
    other = {n: v + 1 for n, v in usual.items()}
    model.load_state_dict(other)
    assert all(torch.equal(v, other[n]) for n, v in nn.Module.state_dict(model).items())


def test_weights_that_do_not_fit_are_refused_as_in_pytorch():
    model = federation(models=["hidden"]).clients[0].model
    state = model.state_dict()
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({n: v for n, v in state.items() if "bias" not in n})
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict({**state, "classifier.bias": torch.zeros(1)})


def test_a_shared_layer_is_trained_once():
    client = federation("fedavg").clients[0]
    client.model.twin = client.model.classifier
    held = client.parameters()
    assert len({id(p) for p in held}) == len(held) == len(list(client.model.parameters()))


def test_a_layer_with_rules_of_its_own_keeps_them():
    """A buffer that is not saved is neither sent nor asked for, and a hook is heard."""
    model, heard = federation("fedavg").clients[0].model, []
    model.classifier.register_buffer("passing", torch.ones(3), persistent=False)
    state = model.state_dict()
    assert "classifier.passing" not in state and "classifier.weight" in state
    model.classifier.register_load_state_dict_post_hook(lambda module, keys: heard.append(keys))
    answer = model.load_state_dict(state)
    assert len(heard) == 1 and answer.missing_keys == answer.unexpected_keys == []


def test_a_layer_that_is_replaced_is_seen():
    model = federation(models=["hidden"]).clients[0].model
    model.body[1] = nn.Linear(16, 5, bias=False)
    assert list(model.state_dict()) == list(nn.Module.state_dict(model))


def test_the_average_is_the_sum_of_shares_in_order():
    own = torch.Generator().manual_seed(0)
    states = [{"w": torch.randn(33, 5, generator=own), "n": torch.tensor(k)} for k in range(3)]
    mean, shares = average(states, [1, 2, 4]), [1 / 7, 2 / 7, 4 / 7]
    expected = states[0]["w"] * shares[0]
    for state, share in zip(states[1:], shares[1:], strict=True):
        expected = expected + state["w"] * share
    assert torch.equal(mean["w"], expected) and int(mean["n"]) == 0


TAUGHT = {"fccl": ("pretrained", "previous"), "fccl+": ("previous",), "fedcsd": ("teacher",),
          "fedgkd": ("teacher",), "moon": ("previous", "received"),
          "logit-distillation": ("received",), "feature-distillation": ("received",)}  # fmt: skip


@pytest.mark.parametrize("method", TAUGHT)
def test_a_teacher_sees_every_image_once_per_round(method, monkeypatch):
    def last_round(every_batch: bool):
        fed = federation(method, models=["hidden"], local_epochs=3, eval_batch_size=16)
        rounds.run(fed)
        if every_batch:
            monkeypatch.setattr(Client, "fixed", lambda c, role, what, f, x: f(c.models[role], x))
        client = fed.clients[0]
        before = {n: v.clone() for n, v in client.model.state_dict().items()}
        fed.begin_round(4)
        seen = []
        for role in TAUGHT[method]:
            client.models[role].register_forward_pre_hook(lambda _, x: seen.append(len(x[0])))
            client.models[role].body.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])))
        rounds.local_update(fed, client)
        assert client.once is None
        assert any(not torch.equal(v, before[n]) for n, v in client.model.state_dict().items())
        return client.model.state_dict(), seen

    once, seen = last_round(False)
    batches, often = last_round(True)
    assert sum(often) == 3 * sum(seen) > 0 and max(often) == 8 < max(seen) == 16
    for name, value in once.items():
        assert torch.allclose(value, batches[name], atol=1e-6), name


def test_outside_of_a_local_update_a_teacher_looks_at_what_it_is_given():
    client = federation("fedcsd", models=["hidden"]).clients[0]
    x = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    expected = client.models["teacher"](x)
    assert torch.equal(client.fixed("teacher", "z", lambda network, x: network(x), x), expected)
    client.once = Once(lambda: [x + 1])
    client.once.x, client.once.index = x, torch.tensor([4, 2])
    compute = lambda network, x: network(x).detach()  # noqa: E731
    assert torch.equal(client.fixed("teacher", "z", compute, x.clone()), expected)  # another batch
    other = compute(client.models["teacher"], x + 1)[[4, 2]]
    assert torch.equal(client.fixed("teacher", "z", compute, x), other)


def test_two_computations_of_one_teacher_are_two():
    client = federation("fedcsd", models=["hidden"]).clients[0]
    x = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    client.once = Once(lambda: [x])
    client.once.x, client.once.index = x, torch.tensor([4, 2])
    seen = []
    for _ in range(2):
        z = client.fixed("teacher", "z", lambda network, x: seen.append(len(x)) or network(x), x)
        h = client.fixed("teacher", "h", lambda network, x: network.features(x), x)
    network = client.models["teacher"]
    assert torch.equal(z, network(x)[[4, 2]]) and torch.equal(h, network.features(x)[[4, 2]])
    assert seen == [5]  # a lambda that is written anew for each batch is still the same one


def test_two_lambdas_that_differ_in_what_they_captured_are_two():
    """They share one code object, so that only a name can tell them apart."""
    client = federation("fedcsd", models=["hidden"]).clients[0]
    x = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    client.once = Once(lambda: [x])
    client.once.x, client.once.index = x, torch.tensor([4, 2])
    found = [
        client.fixed("teacher", f"{tau}", lambda network, x, tau=tau: network(x) / tau, x)
        for tau in (1.0, 2.0)
    ]
    assert torch.equal(found[0], 2 * found[1]) and found[0].abs().max() > 0


def test_one_name_for_two_computations_is_refused():
    client = federation("fedcsd", models=["hidden"]).clients[0]
    x = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    client.once = Once(lambda: [x])
    client.once.x, client.once.index = x, torch.tensor([4, 2])
    client.fixed("teacher", "logits", lambda network, x: network(x), x)
    with pytest.raises(SettingError, match="two different computations are called 'logits'"):
        client.fixed("teacher", "logits", lambda network, x: network.features(x), x)
    with pytest.raises(SettingError, match="does not say what is computed"):
        client.fixed("teacher", lambda network, x: network(x), x, None)


@pytest.mark.parametrize("teachers", ["previous", "both"])
def test_a_teacher_in_training_mode_is_asked_for_every_batch(teachers, monkeypatch):
    """Its running statistics move, so that nothing about it stays as it is.

    The pretrained teacher stays as it is, and answers all images at once in both runs.
    """
    parameters = {"teacher_mode": "train", "teachers": teachers, "pretrain_epochs": 1}
    options = {"parameters": parameters, "models": ["noisy"], "local_epochs": 2, "rounds": 2}
    usual, once = played("fccl+", **options), Client.fixed

    def each_batch(client, role, what, compute, x):
        if role == "previous":
            return compute(client.models[role], x)
        return once(client, role, what, compute, x)

    monkeypatch.setattr(Client, "fixed", each_batch)
    asked = weights_of(played("fccl+", **options))
    for name, value in weights_of(usual).items():
        assert torch.equal(value, asked[name]), name


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_where_pytorch_has_no_such_kernel_its_own_optimizers_do_the_work(kind, monkeypatch):
    options = {"optimizer": kind, "momentum": 0.9 * (kind == "sgd"), "weight_decay": 1e-3}
    options |= {"keep_optimizer": True, "rounds": 2}
    ours = weights_of(played("fedavg", **options))
    monkeypatch.setattr(optimizers.KINDS[kind], "kernel", "no_such_kernel_")
    theirs = weights_of(played("fedavg", **options))
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=1e-5, atol=1e-6), name


SCHEDULE = {"name": "StepLR", "step_size": 2, "gamma": 0.1}


def test_a_schedule_changes_the_learning_rate_round_by_round():
    seen = []

    class Watching(FedAvg):
        name = "watching"

        def after_step(self, client):
            seen.append((client.round_, client.optimizer.param_groups[0]["lr"]))

    for keep in (False, True):
        seen.clear()
        fed = federation(Watching(), rounds=4, lr=0.1, lr_schedule=SCHEDULE, keep_optimizer=keep)
        rounds.run(fed)
        assert dict(seen) == pytest.approx({1: 0.1, 2: 0.1, 3: 0.01, 4: 0.01})
        assert len({lr for _, lr in seen}) == 2


def test_a_schedule_that_never_changes_anything_is_none():
    constant = {"name": "ConstantLR", "factor": 1.0}
    with_it, without = (
        weights_of(played("fedavg", rounds=3, lr_schedule=given)) for given in (constant, {})
    )
    assert_same_bits(with_it, without)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"name": "StpLR", "step_size": 1}, "StepLR"),
        ({"step_size": 1}, "name"),
        ({"name": "StepLR", "size": 1}, "size"),
    ],
)
def test_a_schedule_that_pytorch_does_not_know(schedule, words):
    with pytest.raises(SettingError, match="lr_schedule") as caught:
        federation("fedavg", lr_schedule=schedule)
    assert words in str(caught.value)


def test_before_step_sees_the_gradients_and_may_clip_them():
    lengths = []

    class Clipped(FedAvg):
        name = "clipped"

        def before_step(self, client):
            torch.nn.utils.clip_grad_norm_(client.parameters(), 1e-3)
            squares = [p.grad.square().sum() for p in client.parameters()]
            lengths.append(float(torch.stack(squares).sum().sqrt()))

    settings = {"rounds": 1, "lr": 1.0, "local_epochs": 1}
    fed = federation(Clipped(), **settings)
    before = {c.id: [p.detach().clone() for p in c.parameters()] for c in fed.clients}
    rounds.run(fed)
    assert lengths and max(lengths) <= 1.01e-3
    for client in fed.clients:
        moved = [p - q for p, q in zip(client.parameters(), before[client.id], strict=True)]
        length = float(torch.stack([m.detach().square().sum() for m in moved]).sum().sqrt())
        assert 0 < length <= 1.01e-3 * client.steps
