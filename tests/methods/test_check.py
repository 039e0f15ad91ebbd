"""`methods.check` says which promises a method keeps, and shows what goes silently wrong."""

import random
import re
import sys
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from support.every import NAMES, SETTINGS, small
from support.federations import tiny_scenario
from torch import nn

from fedtutor import Settings, methods
from fedtutor.errors import SettingError
from fedtutor.methods.fedavg import FedAvg, average
from fedtutor.processes.checking import PROMISES

TINY = {"models": ["hidden"], "batch_size": 16, "lr": 0.05}
WORDS = {  # of each promise
    "parameters": "dataclass",
    "rounds": "two rounds",
    "threads": "threads",
    "resume": "resume",
    "apart": "processes of their own",
    "copies": "copies",
    "random": "random numbers",
    "self": "on self",
}


@pytest.fixture
def said(capsys):
    """Checks a method on tiny images; returns broken promises with their lines, and all lines."""

    def of(method, **changes):
        settings = Settings(**{**TINY, **changes})
        kept = methods.check(method, scenario=tiny_scenario(clients=2), settings=settings)
        lines = re.sub(r"\n +", " ", capsys.readouterr().out).splitlines()
        broken = {}
        for line in (line for line in lines if line.startswith("BROKEN")):
            (key,) = [key for key, words in WORDS.items() if words in line.partition(". ")[0]]
            broken[key] = line
        assert kept == (not broken)
        return broken, lines

    return of


# --- what keeps all promises


@pytest.mark.parametrize("name", NAMES)
def test_every_method_keeps_all_promises(name, said):
    broken, lines = said(small(name), **SETTINGS.get(name, {}))
    assert broken == {}
    assert sum(line.startswith("kept") for line in lines) == len(PROMISES) == len(WORDS)


def test_by_name_on_the_bundled_digits(capsys):
    assert methods.check("fedprox")
    said = capsys.readouterr().out
    assert said.startswith("fedprox ") and "digits-mini" in said and "register" not in said
    assert "begins with the server's network." in said and "network changes." in said
    assert "keeps w_global (set anew)." in said


def test_a_class_or_an_object_need_not_be_registered(said):
    @dataclass
    class Mine(FedAvg):
        amount: float = 0.1

        def local_loss(self, client, x, y):
            return super().local_loss(client, x, y) * self.amount

    for method in (Mine, Mine(amount=0.5)):
        broken, lines = said(method)
        assert not broken and lines[0].startswith("Mine ") and "@register" in lines[0]
    assert Mine.name == "fedavg" and vars(Mine()).keys() == vars(FedAvg()).keys() | {"amount"}


def test_the_object_that_is_given_stays_as_it_is(said):
    @dataclass
    class Counting(FedAvg):
        def aggregate(self, fed, clients):
            super().aggregate(fed, clients)
            self.rounds = fed.round_

    method = Counting(weighting="uniform")
    assert list(said(method)[0]) == ["self"]
    assert vars(method) == vars(FedAvg(weighting="uniform"))


def test_hooks_that_were_set_on_an_object(said):
    method = FedAvg()
    method.local_loss = lambda client, x, y: FedAvg.local_loss(method, client, x, y) * 0.5
    assert said(method)[0] == {}


def test_it_is_found_where_methods_are():
    from fedtutor.methods import check

    assert check is methods.check and "check" in dir(methods) and "make" in dir(methods)
    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        _ = methods.chek


# --- what is no method, no scenario, no settings


@pytest.mark.parametrize(
    "method, options, words",
    [
        ("fedavgg", {}, "did you mean 'fedavg'"),
        (3, {}, "the method is a int"),
        (nn.Linear, {}, "the method is the class Linear"),
        ("fedavg", {"scenario": 3}, "the scenario"),
        ("fedavg", {"scenario": "digits-mni"}, "did you mean"),
        ("fedavg", {"settings": {"lr": 0.1}}, "the settings"),
    ],
)
def test_another_argument_is_one_clear_error(method, options, words):
    with pytest.raises(SettingError, match=words):
        methods.check(method, **options)


# --- a method that breaks a promise, for each of them: (the promises, a word of advice)


class Undecorated(FedAvg):
    """A parameter that nobody could set."""

    amount: float = 0.1


@dataclass
class Overwritten(FedAvg):
    amount: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        self.amount = 0.1


@dataclass
class NotGiven(FedAvg):
    amount: float = field(default=0.1, init=False)


@dataclass
class NoDefault(methods.Method):
    amount: float


@dataclass
class Misspelt(FedAvg):
    def local_los(self, client, x, y):
        return super().local_loss(client, x, y)


@dataclass
class Raising(FedAvg):
    def local_loss(self, client, x, y):
        return 1 / 0


@dataclass
class Missing(FedAvg):
    def after_local(self, client):
        client.state["h"] += 1


@dataclass
class Orphan(FedAvg):
    def start(self, fed):
        pass


@dataclass
class Diverging(FedAvg):
    def local_loss(self, client, x, y):
        return super().local_loss(client, x, y) * float("nan")


@dataclass
class Past(FedAvg):
    """Weights that a client tells beside the channel."""

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)
        fed.ask(clients, self.own)

    def own(self, client):
        return client.model.state_dict()


@dataclass
class Threaded(FedAvg):
    """The thread decides; with clients apart the server has threads, too."""

    def local_loss(self, client, x, y):
        alone = threading.current_thread() is threading.main_thread()
        return super().local_loss(client, x, y) * (1 if alone else 2)


@dataclass
class Forgetful(FedAvg):
    """A memory on the client itself, which no checkpoint has."""

    def after_local(self, client):
        client.seen = getattr(client, "seen", 0) + 1
        with torch.no_grad():
            next(client.model.parameters()).mul_(1 + 0.1 * client.seen)


@dataclass
class Looking(FedAvg):
    """The server takes what the client holds."""

    def collaborate(self, fed, clients):
        for client in clients:
            sent = fed.channel.down(client, "weights", fed.server.model.state_dict())
            client.model.load_state_dict(sent)


@dataclass
class Telling(FedAvg):
    """The server tells the clients something through the method itself."""

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        self.scale = 1 + fed.round_

    def local_loss(self, client, x, y):
        return super().local_loss(client, x, y) * getattr(self, "scale", 1)


@dataclass
class Living(FedAvg):
    def after_local(self, client):
        client.state["w"] = {"all": list(client.model.parameters())}


@dataclass
class Careless(FedAvg):
    def local_loss(self, client, x, y):
        return super().local_loss(client, x, y) * torch.rand(())


@dataclass
class Drawing(FedAvg):
    """A draw that changes nothing here."""

    draw = staticmethod(torch.randperm)

    def after_local(self, client):
        self.draw(3)


@dataclass
class DrawingNumPy(Drawing):
    draw = staticmethod(np.random.permutation)


@dataclass
class DrawingPython(Drawing):
    draw = staticmethod(random.getrandbits)


@dataclass
class Keeping(FedAvg):
    """Something new on self, which changes nothing here."""

    def after_local(self, client):
        self.last = client.id


@dataclass
class InPlace(FedAvg):
    """An attribute that stays the same object, and has other numbers inside."""

    def __post_init__(self):
        super().__post_init__()
        self.noted = self.made()

    made = staticmethod(list)

    def aggregate(self, fed, clients):
        super().aggregate(fed, clients)
        self.noted.append(fed.round_)


@dataclass
class InPlaceTensor(InPlace):
    made = staticmethod(lambda: torch.zeros(2))

    def aggregate(self, fed, clients):
        FedAvg.aggregate(self, fed, clients)
        self.noted += 1


@dataclass
class InPlaceNetwork(InPlace):
    made = staticmethod(lambda: nn.BatchNorm1d(2))

    def aggregate(self, fed, clients):
        FedAvg.aggregate(self, fed, clients)
        self.noted.running_mean += 1


@dataclass
class InPlaceGenerator(InPlace):
    made = staticmethod(lambda: np.random.default_rng(0))

    def aggregate(self, fed, clients):
        FedAvg.aggregate(self, fed, clients)
        self.noted.random()


BREAKING = [
    (Undecorated, ["parameters"], "@dataclass"),
    (Overwritten, ["parameters"], "amount"),
    (NotGiven, ["parameters"], "amount"),
    (NoDefault, ["parameters", "rounds"], "has no default"),
    (Misspelt, ["parameters"], "local_loss"),
    (Raising, ["rounds"], "ZeroDivisionError"),
    (Missing, ["rounds"], "'h' is missing; make it in start"),
    (Orphan, ["rounds"], "super().start(fed)"),
    (Diverging, ["rounds"], "learning rate"),
    (Past, ["rounds"], "fed.upload"),
    (Threaded, ["threads", "apart"], "client.generator"),
    (Forgetful, ["resume"], "client.state"),
    (Looking, ["apart"], "client.model"),
    (Telling, ["self", "apart"], "self.scale"),
    (Living, ["copies"], "state['w']"),
    (Careless, ["random", "threads", "resume", "apart"], "client.generator"),
    (Drawing, ["random"], "torch"),
    (DrawingNumPy, ["random"], "NumPy"),
    (DrawingPython, ["random"], "random"),
    (Keeping, ["self"], "self.last"),
    (InPlace, ["self"], "self.noted"),
    (InPlaceTensor, ["self"], "self.noted"),
    (InPlaceNetwork, ["self"], "self.noted"),
    (InPlaceGenerator, ["self"], "self.noted"),
]


@pytest.mark.parametrize(
    "cls, promises, advice", BREAKING, ids=[row[0].__name__ for row in BREAKING]
)
def test_a_broken_promise_is_named_with_what_to_do(cls, promises, advice, said):
    broken, lines = said(cls)
    assert list(broken) == promises
    assert advice in broken[promises[0]]
    assert ("could not be checked" in lines[-1]) == ("rounds" in promises)


def test_each_promise_is_broken_by_a_method_here():
    assert {promises[0] for _, promises, _ in BREAKING} == WORDS.keys()


def test_what_is_written_to_stderr_is_not_lost(capsys):
    @dataclass
    class Writing(FedAvg):
        def aggregate(self, fed, clients):
            super().aggregate(fed, clients)
            print("look here", file=sys.stderr)

    methods.check(Writing, scenario=tiny_scenario(clients=2), settings=Settings(**TINY))
    assert "look here" in capsys.readouterr().err


# --- what raises no error: it is shown below the promises


@dataclass
class Deaf(FedAvg):
    """A download that is forgotten."""

    def collaborate(self, fed, clients):
        pass


@dataclass
class Idle(FedAvg):
    """An average that nobody loads."""

    def aggregate(self, fed, clients):
        average(fed.upload(clients, "weights", self.told), self.shares(fed, clients))

    def told(self, client):
        return client.model.state_dict()


@dataclass
class Remembering(FedAvg):
    """A memory that is kept, one that is lost in every round, one that begins in training."""

    def start(self, fed):
        super().start(fed)
        fed.ask(fed.clients, self.begin)

    def begin(self, client):
        client.state |= {"kept": torch.zeros(2), "lost": torch.zeros(2)}

    def collaborate(self, fed, clients):
        super().collaborate(fed, clients)
        fed.ask(clients, self.forget)

    def forget(self, client):
        client.state["lost"] = torch.zeros(2)

    def after_local(self, client):
        for key in ("kept", "lost"):
            client.state[key] = client.state[key] + client.round_
        client.state[f"late{client.round_}"] = client.round_


@pytest.mark.parametrize(
    "cls, words",
    [
        (FedAvg, ["the server's network.", "network changes.", "keeps nothing."]),
        (Deaf, ["its own network, as it was."]),
        (Idle, ["stays as it was."]),
        (Remembering, ["kept (kept from round 1), lost (set anew)", "late2 (made in this round)"]),
    ],
)
def test_what_happened_in_round_2_is_shown(cls, words, said):
    broken, lines = said(cls)
    assert not broken
    for word in words:
        assert sum(line.startswith("- ") and word in line for line in lines) == 1, word
