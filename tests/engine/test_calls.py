"""What a method asks of its clients could cross to another process: names and plain values."""

import functools
import io
import threading

import pytest
import torch
from support.every import NAMES, same, small
from support.every import crowded as ready
from support.federations import federation

from fedtutor import clients, methods
from fedtutor import federation as federation_module
from fedtutor.engine import calls
from fedtutor.errors import SettingError
from fedtutor.methods import Method
from fedtutor.rounds import run

ALONE = {"solo"}  # asks its clients for nothing but to begin pretrained


def crossed(value):
    """`value` as another process would read it."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def found(method: Method, name: str):
    """The function that another process finds under this name."""
    module, _, own = name.rpartition(":")
    return getattr(__import__(module, fromlist=[own]) if module else method, own)


def remotely(fed) -> set[str]:
    """From now on whatever `fed.call` hands over is written and read; returns who is asked."""
    asked, usual = set(), fed.call

    def call(clients, function, *arguments, own=None):
        name = calls.require_named(fed.method, function)
        asked.add(name)
        if own is not None:
            own = crossed([own(c) for c in clients] if callable(own) else list(own))
        called = found(fed.method, crossed(name))
        return crossed(usual(clients, called, *crossed(list(arguments)), own=own))

    fed.call = call
    return asked


@pytest.mark.parametrize("name", NAMES)
def test_every_question_and_answer_could_cross(name):
    """Written to bytes and read again, it is the same run, and the same bytes are counted."""
    parameters = {"pretrain_epochs": 1} if "pretrain_epochs" in methods.parameters(name) else {}
    here, there = (ready(name, method=small(name, **parameters)) for _ in range(2))
    asked = remotely(there)
    run(here)
    run(there)
    same(here, there)
    assert here.history["bytes"] == there.history["bytes"]
    assert bool(asked - {"fedtutor.methods.shared.pretraining:load_pretrained",
                         "fedtutor.distillation:replace_data"}) == (name not in ALONE)  # fmt: skip
    assert not any(client.held for client in there.clients)


OPTIONS = [
    ("fccl", {"pretrain_epochs": 1, "code_target": True}),
    ("kd", {"public_optimizer": "adam-fresh"}),
    ("kd", {"public_optimizer": "adam-kept"}),
    ("repshare", {"topology": "peer", "clip": 1.0, "noise": 0.5}),
    ("repshare", {"first": "networks"}),
    ("fedlgd", {"target": "gradient", "local_steps": 2, "global_steps": 2, "every": 2}),
    ("fedcsd", {"prototypes": "local"}),
]


@pytest.mark.parametrize("name, parameters", OPTIONS)
def test_so_could_those_of_their_options(name, parameters):
    here, there = (ready(name, method=small(name, **parameters)) for _ in range(2))
    remotely(there)
    run(here)
    run(there)
    same(here, there)


def helper(client, x, own=None):
    return {"id": client.id, "x": x, "own": own}


class Asks(Method):
    name = "asks"

    def part(self, client, *given):
        return client.model.classifier.weight * 1, given


def test_answers_come_in_order_and_without_gradient():
    fed = federation(Asks())
    told = fed.call(fed.clients, fed.method.part, 3, own=["a", None, {"b": 2.5}])
    assert [given for _, given in told] == [(3, "a"), (3, None), (3, {"b": 2.5})]
    assert not any(w.requires_grad for w, _ in told)
    assert fed.call(fed.clients[1:2], helper, 1) == [{"id": "domain1", "x": 1, "own": None}]
    with pytest.raises(ValueError, match="argument 2"):
        fed.ask(fed.clients, fed.method.part, own=["a"])


def test_what_the_server_shall_know_is_uploaded():
    fed = federation(Asks())
    with pytest.raises(SettingError, match="part returned a tuple to the server") as caught:
        fed.ask(fed.clients, fed.method.part)
    assert "fed.upload" in caught.value.do


def test_only_this_process_knows_it():
    fed, other = federation(Asks()), Asks()

    def closure(client):
        return client.id

    for function, name in (
        (lambda client: client.id, "<lambda>"), (closure, "closure"),
        (functools.partial(helper, x=1), "partial"), (other.part, "part"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=f"cannot be asked for {name}: only") as caught:
            fed.ask(fed.clients, function)
        assert "method asks, fed.ask" in str(caught.value) and "self.my_part" in str(caught.value)


class Shows(Method):
    name = "shows"

    def network(self, client):
        return client.model


def test_what_is_not_plain_cannot_leave_a_process():
    fed = federation(Shows())
    with pytest.raises(SettingError, match="a Network cannot leave a process") as caught:
        fed.ask(fed.clients, fed.method.network)
    assert "network, answer" in str(caught.value) and "client.held" in str(caught.value)
    with pytest.raises(SettingError, match="a function cannot leave a process"):
        fed.ask(fed.clients, helper, helper)
    with pytest.raises(SettingError, match="a set cannot leave a process"):
        fed.ask(fed.clients, helper, 1, own=[{1}, None, None])


# --- what the server may know of a client

KNOWN = {"id", "domain", "network", "layout", "__class__"}  # and nothing that the client holds
SERVERS = ("start", "select", "collaborate", "aggregate")


def watched(monkeypatch, method: Method) -> set[tuple[str, str]]:
    """From now on it is noted which hook of `method` looks into a client that it did not ask."""
    touched, hook, inside = set(), [], threading.local()
    usual = clients.Client.__getattribute__

    def look(client, name):
        if hook and not getattr(inside, "asked", False) and name not in KNOWN:
            touched.add((hook[-1], name))
        if name != "layout":
            return usual(client, name)
        hooks, hook[:] = hook[:], []  # the client itself looks at its network
        try:
            return usual(client, name)
        finally:
            hook[:] = hooks

    def of_server(name):
        own = getattr(method, name)

        def hooked(*given):
            hook.append(name)
            try:
                return own(*given)
            finally:
                hook.pop()

        return hooked

    each = federation_module.Federation.each

    def at_clients(fed, those, fn):
        def work(client):
            inside.asked = True
            try:
                return fn(client)
            finally:
                inside.asked = False

        hooks, hook[:] = hook[:], []
        try:
            return each(fed, those, work)
        finally:
            hook[:] = hooks

    monkeypatch.setattr(clients.Client, "__getattribute__", look)
    monkeypatch.setattr(federation_module.Federation, "each", at_clients)
    for name in SERVERS:
        setattr(method, name, of_server(name))
    return touched


@pytest.mark.parametrize("name, parameters", [*((name, {}) for name in NAMES), *OPTIONS])
def test_the_server_looks_into_no_client(monkeypatch, name, parameters):
    """What a hook of the server needs of a client arrives as an answer, or by the channel."""
    method = small(name, **parameters)
    touched = watched(monkeypatch, method)
    run(ready(name, method=method))
    assert touched == set()


def test_a_look_into_a_client_is_noticed(monkeypatch):
    class Looks(Method):
        name = "looks"

        def aggregate(self, fed, clients):
            return [c.model for c in clients if c.id]

    method = Looks()
    touched = watched(monkeypatch, method)
    run(federation(method))
    assert touched == {("aggregate", "model"), ("aggregate", "models"), ("aggregate", "_models")}
