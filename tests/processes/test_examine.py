"""`examine` says what a reader's method promises, and shows what goes silently wrong."""

from dataclasses import dataclass

import pytest
import torch
from support.notebook_run import notebook_run

from fedtutor import methods
from fedtutor.errors import SettingError
from fedtutor.methods.fedavg import FedAvg, average
from fedtutor.processes.examine import examine


@pytest.fixture
def run():
    return notebook_run()


@pytest.fixture
def said(run, own_tables, capsys):
    """Registers a class, examines it: (whether it keeps all promises, what was printed)."""

    def of(cls):
        methods.register("mine")(dataclass(cls))
        kept = examine("mine", run)
        lines = capsys.readouterr().out.replace("\n" + " " * 29, " ").splitlines()
        return kept, {line[:28].strip(): line[29:] for line in lines if line[28:29] == " "}

    return of


def test_a_sound_method_keeps_all(run, capsys):
    assert examine("fedavg", run)
    said = capsys.readouterr().out
    assert said.count(" yes\n") == 5 and "NO" not in said
    assert "a client begins with         the server's network\n" in said
    assert "the server's network         changes\n" in said
    assert said.endswith("a client keeps beside them   nothing\n")


def test_without_a_notebook_it_takes_the_benchmark_on_bundled_digits(capsys):
    assert examine("fedprox")
    assert "a client keeps beside them   w_global (set anew)" in capsys.readouterr().out


def test_a_misspelt_name_is_one_clear_error(run):
    with pytest.raises(SettingError, match="did you mean 'fedavg'"):
        examine("fedavgg", run)


def test_global_random_numbers(said):
    class Careless(FedAvg):
        def local_loss(self, client, x, y):
            return super().local_loss(client, x, y) * torch.rand(())

    kept, lines = said(Careless)
    assert not kept and lines["same bits with two threads"] == "NO"


def test_a_memory_on_the_method_itself_is_lost_at_a_stop(said):
    class Forgetful(FedAvg):
        def after_local(self, client):
            self.__dict__.setdefault("seen", {}).setdefault(client.id, 0)
            self.seen[client.id] += 1
            with torch.no_grad():
                next(client.model.parameters()).mul_(1 + 0.1 * self.seen[client.id])

    kept, lines = said(Forgetful)
    assert not kept and lines["same bits after a stop"] == "NO"


def test_a_server_that_looks_into_a_client(said):
    class Looking(FedAvg):
        def collaborate(self, fed, clients):
            for client in clients:
                sent = fed.channel.down(client, "weights", fed.server.model.state_dict())
                client.model.load_state_dict(sent)

    kept, lines = said(Looking)
    assert not kept and "looks at client.model" in lines["same bits with clients apart"]


def test_a_weight_that_is_no_copy(said):
    class Living(FedAvg):
        def after_local(self, client):
            client.state["w"] = {"all": list(client.model.parameters())}

    kept, lines = said(Living)
    assert not kept and "state['w']" in lines["weights it keeps are copies"]


def test_a_memory_that_nobody_made(said):
    class Missing(FedAvg):
        def after_local(self, client):
            client.state["h"] += 1

    kept, lines = said(Missing)
    assert not kept and list(lines) == ["plays two rounds"]
    assert "'h' is missing. Is it made in `start`" in lines["plays two rounds"]


def test_a_start_that_forgets_its_parent(said):
    class Orphan(FedAvg):
        def start(self, fed):
            pass

    kept, lines = said(Orphan)
    assert not kept and list(lines) == ["plays two rounds"]
    assert "'model' is missing" in lines["plays two rounds"]
    assert "super().start(fed)" in lines["plays two rounds"]


def test_a_download_that_is_forgotten(said):
    class Deaf(FedAvg):
        def collaborate(self, fed, clients):
            fed.ask(clients, self.part)

        def part(self, client):
            pass

    assert said(Deaf)[1]["a client begins with"] == "its own network, as it was"


def test_an_average_that_nobody_loads(said):
    class Idle(FedAvg):
        def aggregate(self, fed, clients):
            return average(fed.upload(clients, "weights", self.told), self.shares(fed, clients))

        def told(self, client):
            return client.model.state_dict()

    assert said(Idle)[1]["the server's network"] == "stays as it was"


def test_a_memory_that_is_lost_in_every_round(said):
    class Memory(FedAvg):
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
            client.state["late"] = client.round_

    kept, lines = said(Memory)
    assert kept
    assert lines["a client keeps beside them"].startswith(
        "kept (kept from round 1), lost (set anew)"
    )
