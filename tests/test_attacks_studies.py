"""The long attacks: what is committed is what would be computed today, and small runs of them."""

import inspect
import json

import pytest
import torch

from fedtutor import attacks
from fedtutor.attacks import committed, studies
from fedtutor.channel import Message
from fedtutor.errors import SettingError

NAMES = [*studies.STUDIES, *studies.QUEUED]


@pytest.mark.parametrize("name", NAMES)
def test_every_study_has_the_options_of_its_function(name):
    function, options = {**studies.STUDIES, **studies.QUEUED}[name][:2]
    inspect.signature(function).bind(**options)
    json.dumps(options)


@pytest.mark.parametrize("name", studies.STUDIES)
def test_what_is_committed_is_read_and_not_computed(name, monkeypatch):
    if not (committed.FOLDER / f"{name}.json").exists():
        pytest.skip(f"{name} is not committed")
    function, options = studies.STUDIES[name]

    def refuse(**_):
        raise AssertionError(f"{name} would be computed: its setting has changed")

    refuse.__name__ = function.__name__
    monkeypatch.setitem(studies.STUDIES, name, (refuse, options))
    assert studies.study(name)


def test_an_unknown_study_is_one_clear_error():
    with pytest.raises(SettingError, match="unknown study"):
        studies.study("figure-7")


def test_the_client_sends_its_weights_and_nothing_of_its_images():
    pool, *norm = studies.pool_of("street")
    heard = studies.overheard(studies.alone(pool[:20], pool[:1], norm), "fedavg", seed=0,
                              **{**studies.OVERFIT, "local_epochs": 1})  # fmt: skip
    assert all(isinstance(m, Message) for m in heard)
    assert {row["name"] for row in attacks.inventory(heard)} == {"weights", "number of images"}


def test_shadow_clients_give_the_same_bits_for_any_number_of_threads():
    few = {"pool": "street", "networks": 4, "targets": 1, "settings": {"local_epochs": 1}}
    one, two = (studies.likelihood(**few, threads=threads) for threads in (1, 2))
    assert one == two
    assert one.keys() == {"accuracy", "lira", "offline", "threshold"}
    assert len(one["lira"]["curve"][0]) == len(studies.RATES)


def test_both_sides_of_a_pair_of_pictures():
    numbers, images = studies.raw_and_distilled(pool="mnist", seed=3, network="plain_cnn", held=6,
                                                steps=2, pictures=True)  # fmt: skip
    assert numbers["raw"]["used to nearest private"] < 1e-9 < numbers["distilled"][
        "used to nearest private"]  # fmt: skip
    assert numbers["raw"]["label"] and numbers["distilled"]["label"]
    for pictures in images.values():
        for image in pictures.values():
            assert image.shape == (3, 32, 32) and 0 <= float(image.min()) <= float(image.max()) <= 1


def test_dp_sgd_is_fedavg_with_another_gradient():
    pool, *norm = studies.pool_of("street")
    scene = studies.alone(pool[:16], pool[:1], norm)
    short = {**studies.OVERFIT, "local_epochs": 1, "momentum": 0.0}
    plain, loose, noisy = (
        attacks.crossed(studies.overheard(scene, method, seed=0, **short), "weights",
                        client="victim", round_=1)
        for method in ("fedavg", studies.PrivateFedAvg(clip=1e6, noise=0.0),
                       studies.PrivateFedAvg(clip=1.0, noise=1.0))
    )  # fmt: skip
    for name, value in plain.items():
        assert torch.allclose(loose[name], value, atol=1e-5)
    assert any(not torch.allclose(noisy[name], value, atol=1e-3) for name, value in plain.items())
