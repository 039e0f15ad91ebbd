"""What a user's part of a run can get wrong: one clear error each, before or where it happens."""

import torch
from torch import Tensor, nn

from ..errors import DataError, ModelError, SettingError, TrainingError
from ..settings import Settings
from .kinds import in_short, is_finite


def require_parts(scenario, method, settings) -> None:
    """Raise an error where a part of a `Federation` is something else, or they do not fit."""
    parts = (
        (
            "scenario",
            scenario,
            hasattr(scenario, "clients") and hasattr(scenario, "inputs"),
            'build one: scenarios.build("digits-mini")',
        ),
        (
            "method",
            method,
            hasattr(method, "local_loss") and not isinstance(method, type),
            'make one: methods.make("fedavg")',
        ),
        ("settings", settings, isinstance(settings, Settings), "write Settings(rounds=3)"),
    )
    for name, value, right, do in parts:
        if not right:
            raise SettingError(f"the {name} is {in_short(value)}", where="Federation", do=do)
    for name, value in vars(method).items():
        if not is_finite(value):
            raise SettingError(
                f"{name} = {value!r}", where=f"method {method.name}", do="give a finite number"
            )


def require_counts(scenario, settings) -> None:
    """Raise an error where counts of the settings do not fit the clients or classes, or a client
    holds no image."""
    count = len(scenario.clients)
    if settings.top > scenario.num_classes:
        raise SettingError(
            f"top = {settings.top} for {scenario.num_classes} classes",
            where="setting 'top'",
            do=f"give at most {scenario.num_classes}; the accuracy of one answer is top = 1",
        )
    if len(settings.client_epochs) not in (0, count):
        raise SettingError(
            f"{len(settings.client_epochs)} entries for {count} clients",
            where="setting 'client_epochs'",
            do="give one number per client, or none at all",
        )
    for client in scenario.clients:
        if not len(client.private):
            raise DataError(
                f"client {client.id} holds no image",
                where=f"scenario {scenario.name}",
                do="ask for fewer clients or a larger minimum per client",
            )
    if len(settings.models) not in (1, count):
        raise SettingError(
            f"{len(settings.models)} networks for {count} clients",
            where="setting 'models'",
            do="name one network for all clients, or one for each",
        )


def networks(method, built) -> dict[str, nn.Module]:
    """What the method's `build` returned, if it can be a client's networks."""
    right = isinstance(built, dict) and all(
        isinstance(role, str) and isinstance(network, nn.Module) for role, network in built.items()
    )
    if not right or "model" not in built:
        raise ModelError(
            f"build returned {in_short(built)}",
            where=f"method {method.name}",
            do='return networks by name, "model" among them: {"model": make()}',
        )
    return built


def evaluated(fed, client) -> nn.Module:
    """What the method's `evaluated` returns, if it can stand for the client."""
    network = fed.method.evaluated(fed, client)
    if not isinstance(network, nn.Module):
        raise ModelError(
            f"evaluated returned a {type(network).__name__} for client {client.id}",
            where=f"method {fed.method.name}",
            do="return the network that stands for this client, such as client.model",
        )
    return network


def has_numbers(network: nn.Module) -> bool:
    """Whether all weights and running statistics are finite."""
    found = [v.isfinite().all() for v in network.state_dict().values() if v.is_floating_point()]
    return not found or bool(torch.stack(found).all())


def selected(fed) -> list:
    """The clients that the method selects; raises `SettingError` for none, or other objects."""
    chosen = fed.method.select(fed)
    clients = list(chosen) if isinstance(chosen, list | tuple) else []
    own, ids = {id(c) for c in fed.clients}, [id(c) for c in clients]
    foreign = [c for c in clients if id(c) not in own]
    twice = len(set(ids)) < len(ids)
    if not clients or foreign or twice:
        found = f"{foreign[0]!r}" if foreign else "a client twice" if twice else f"{chosen!r}"
        raise SettingError(
            f"select returned {found}",
            where=f"{fed.method.name}, round {fed.round_}",
            do="return a list of different clients of fed.clients, at least one; "
            "fed.sample(count) draws some",
        )
    return clients


def local_data(fed, client):
    """What the method lets the client train on; raises `DataError` where there is no image."""
    data = fed.method.local_data(client)
    if not all(isinstance(getattr(data, part, None), Tensor) for part in "xy") or not len(data):
        raise DataError(
            f"local_data returned {data!r} for client {client.id}",
            where=f"{fed.method.name}, round {fed.round_}",
            do="return `Images` or `VirtualImages` with at least one image, such as client.data",
        )
    return data


def one_of_a_kind(clients) -> list:
    """The first client with each network: what holds for it holds for all that have the same."""
    found = {}
    for client in clients:
        found.setdefault(client.network, client)
    return list(found.values())


def require_word(role: str, what, client) -> None:
    """Raise `SettingError` where `client.fixed` is not given a name for what is computed."""
    if not isinstance(what, str):
        raise SettingError(
            f"client.fixed({role!r}, {type(what).__name__}, ...) does not say what is computed",
            where=f"client {client.id}",
            do=f'name the answer: client.fixed({role!r}, "logits", compute, x)',
        )


def require_loss(loss, fed, client) -> None:
    """Raise `TrainingError` for what `backward` cannot begin with."""
    what = do = ""
    if not isinstance(loss, Tensor):
        what = f"a {type(loss).__name__}" if loss is not None else "None"
        do = "return a tensor: local_loss has no return, or float(...) or .item() took it out"
    elif loss.numel() != 1:
        what, do = f"{list(loss.shape)} numbers", "return one: their .mean()"
    elif not loss.requires_grad:
        what = "a tensor without gradient"
        do = "compute it from the client's network, without no_grad, detach or argmax"
    if what:
        raise TrainingError(
            f"local_loss returned {what} for client {client.id}",
            where=f"{fed.method.name}, round {fed.round_}",
            do=do,
        ) from None
