"""The long attacks: what is committed is what would be computed today, and small runs of them."""

import inspect
import json
import math
from statistics import mean, stdev

import pytest
import torch
from support.federations import tiny_scenario

from fedtutor import attacks, scenarios
from fedtutor.channel import Message
from fedtutor.errors import DataError, SettingError, StorageError
from fedtutor.experiments import attack_list, attack_messages, attack_studies
from tools import record

LISTS = attack_list.STUDIES | {row["name"]: (row["function"], row["options"])
                          for row in attack_list.waiting()}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_every_study_has_the_options_of_its_function(name):
    function, options = LISTS[name]
    inspect.signature(function).bind(**options)
    json.dumps(options)


@pytest.mark.parametrize("name", attack_list.STUDIES)
def test_what_is_committed_is_read_and_not_computed(name, monkeypatch):
    function, options = attack_list.STUDIES[name]

    def refuse(**_):
        raise AssertionError(f"{name} would be computed: its setting has changed")

    refuse.__name__ = function.__name__
    monkeypatch.setitem(attack_list.STUDIES, name, (refuse, options))
    assert attack_list.study(name)


def test_every_committed_file_is_of_a_list():
    assert {path.stem for path in attack_list.FOLDER.glob("*.json")} <= set(LISTS)


def test_an_unknown_study_is_one_clear_error():
    with pytest.raises(SettingError, match="unknown study"):
        attack_list.study("figure-7")


# ------------------------------------------------------------------------------ what waits


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Three studies that wait, and a folder of their own; the names that were computed."""
    played = []

    def count(*, size, threads=1, device="cpu"):
        if size > 2:
            raise DataError("no images", where="here", do="fetch them")
        played.append((size, threads, device))
        return {"size": size}

    text = "".join(
        f'[[study]]\nname = "toy-{size}"\nlike = "toy"\nvalue = {size}\nminutes = {minutes}\n'
        f'device = "{device}"\noptions = {{ size = {size} }}\n'
        for size, minutes, device in ((1, 2, "cpu"), (2, 4, "cpu"), (3, 1, "cpu"), (4, 1, "cuda"))
    )
    (tmp_path / "queue.toml").write_text(text)
    monkeypatch.setattr(attack_list, "STUDIES", {"toy": (count, {"size": 0})})
    monkeypatch.setattr(attack_list, "waiting", lambda: _waiting(tmp_path / "queue.toml"))
    monkeypatch.setattr(attack_list, "FOLDER", tmp_path)
    return played


_waiting = attack_list.waiting


def test_one_of_either_list_is_computed_anew_and_kept(toy, tmp_path):
    assert record.main(["attack", "toy-2", "--threads", "2", "--device", "cpu"]) == 0
    assert record.main(["attack", "toy", "--threads", "1", "--device", "cpu"]) == 0
    assert toy == [(2, 2, "cpu"), (0, 1, "cpu")]
    assert json.loads((tmp_path / "toy-2.json").read_text())["numbers"] == {"size": 2}


def test_what_cannot_be_computed_is_said_and_nothing_is_kept(toy, tmp_path, capsys):
    assert record.main(["attack", "toy-3"]) == 1
    assert "no images" in capsys.readouterr().err
    assert record.main(["attack", "nonsense"]) == 1
    assert "unknown study 'nonsense'" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


def test_numbers_that_are_none_are_one_clear_error(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(attack_list.STUDIES, "toy", (lambda: {"auc": math.nan}, {}))
    with pytest.raises(StorageError, match=r"toy\.json is no JSON"):
        attack_list.study("toy", keep=True)
    assert not (tmp_path / "toy.json").exists()


def test_what_was_found_stands_below_its_original():
    rows = attack_list.sizes()
    keys = [(row["study"], row["data"], row["networks"]) for row in rows]
    assert len(set(keys)) == len(keys)
    row = rows[keys.index(("no-defense", "street", 64))]
    assert keys.index(("no-defense", "street", 12)) < keys.index(("no-defense", "street", 64))
    numbers = json.loads((attack_list.FOLDER / "no-defense-64.json").read_text())["numbers"]
    areas = numbers["offline"]["auc"]
    assert row["AUC, offline"] == f"{mean(areas):.2f} ± {stdev(areas):.2f}"
    rates = max((numbers[kind]["tpr"] for kind in ("lira", "offline", "threshold")), key=mean)
    assert row["found at 1 %"] == f"{mean(rates):.3f} ± {stdev(rates):.3f}"


@pytest.mark.parametrize("old, new, words", [
    ('like = "toy"', 'like = "tox"', "unknown study"),
    ("minutes = 2", 'minutes = "2"', "minutes = '2'"),
    ("minutes = 2\n", "", "no 'minutes'"),
    ("value = 1", "worth = 1", "unknown key"),
])  # fmt: skip
def test_a_wrong_queue_is_one_clear_error(old, new, words, toy, tmp_path):
    path = tmp_path / "queue.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(SettingError, match=words):
        _waiting(path)


# ------------------------------------------------------------------------- small runs of them


def test_the_client_sends_its_weights_and_nothing_of_its_images():
    pool, *norm = attack_studies.pool_of("street")
    few = attack_studies.alone(pool[:20], pool[:1], norm)
    settings = {**attack_studies.OVERFIT, "local_epochs": 1}
    heard = attack_studies.overheard(few, "fedavg", seed=0, **settings)
    assert all(isinstance(m, Message) for m in heard)
    assert {row["name"] for row in attacks.inventory(heard)} == {"weights", "number of images"}


def test_shadow_clients_give_the_same_bits_for_any_number_of_threads():
    few = {"pool": "street", "networks": 4, "targets": 1, "settings": {"local_epochs": 1}}
    one, two = (attack_studies.likelihood(**few, threads=threads) for threads in (1, 2))
    assert one == two
    assert one.keys() == {"accuracy", "lira", "offline", "threshold"}
    assert one["lira"].keys() == {"auc", "tpr"}


def test_the_truth_about_an_observation_is_what_was_averaged():
    few = {"rounds": 1, "scenario.private_size": 40, "repshare.n_avg": 2}
    fed = attack_studies.played_by_recipe("repshare", few, seed=0, clients=["street", "synthetic"])
    sent = attack_messages._sent(fed, "observations")
    client = fed.clients[0]
    inside = attack_messages._averaged_images(fed, client)
    with torch.no_grad():
        h = client.model.eval().features(fed.scenario.inputs(client.data.x))
    for c in sent["owned"].nonzero()[:, 0]:
        one = h[inside & (client.data.y == c)]
        assert len(one) == min(2, int((client.data.y == c).sum()))
        torch.testing.assert_close(sent["observations"][0, c], one.mean(0))


def test_a_tenth_of_a_percent_is_said_only_of_ten_thousand_others():
    own = torch.Generator().manual_seed(0)
    for others, more in ((9_999, set()), (10_000, {"tpr 0.1 %"})):
        member = torch.arange(100 + others) < 100
        found = attack_studies.summary([(torch.rand(len(member), generator=own) + member, member)])
        assert found.keys() == {"auc", "tpr", "curve"} | more
        assert len(found["curve"][0]) == len(attack_studies.RATES)


def test_fig_6_attacks_whom_it_is_told_to(monkeypatch):
    """All clients take part, one is attacked, rounds beyond the last are left out."""
    seen = []
    tiny = tiny_scenario(count=40, public=False)
    monkeypatch.setattr(scenarios, "build", lambda *_, **__: tiny)
    whole = attack_studies.played

    def played(data, *given, **options):
        seen.append(len(data.clients))
        return whole(data, *given, **options)

    def counted(pairs):
        return {"members": [int(m.sum()) for _, m in pairs],
                "others": [int((~m).sum()) for _, m in pairs]}  # fmt: skip

    monkeypatch.setattr(attack_studies, "played", played)
    monkeypatch.setattr(attack_studies, "summary", counted)
    options = {"seeds": [0], "scenario": "digits-mini", "clients": ["domain1", "elsewhere"],
               "variants": {"FedAvg": ["fedavg", {"local_epochs": 1}]}, "moments": [1, 2, 9],
               "settings": {"rounds": 2, "models": ["linear"], "eval_every": 2}}  # fmt: skip
    found = [attack_studies.figure_six(**options, **more) for more in
             ({}, {"everyone": True}, {"everyone": True, "most": 20})]  # fmt: skip
    assert seen == [1, len(tiny.clients), len(tiny.clients)]
    for one in found:
        assert one["FedAvg"].keys() == {"domain1"}
        assert one["FedAvg"]["domain1"]["up"].keys() == {"1", "2"}
    up = [one["FedAvg"]["domain1"]["up"]["2"] for one in found]
    assert up[0]["members"] == up[1]["members"] == [43] and up[2]["members"] == [20]
    assert up[2]["others"] == [20] and len(up[2]["accuracy"]) == 1


def test_both_sides_of_a_pair_of_pictures():
    numbers, images = attack_studies.raw_and_distilled(
        pool="mnist", seed=3, network="plain_cnn", held=6, steps=2, pictures=True
    )
    assert numbers["raw"]["used to nearest private"] < 1e-9 < numbers["distilled"][
        "used to nearest private"]  # fmt: skip
    assert numbers["raw"]["label"] and numbers["distilled"]["label"]
    for pictures in images.values():
        for image in pictures.values():
            assert image.shape == (3, 32, 32) and 0 <= float(image.min()) <= float(image.max()) <= 1


def test_dp_sgd_is_fedavg_with_another_gradient():
    pool, *norm = attack_studies.pool_of("street")
    scene = attack_studies.alone(pool[:16], pool[:1], norm)
    short = {**attack_studies.OVERFIT, "local_epochs": 1, "momentum": 0.0}
    plain, loose, noisy = (
        attacks.crossed(attack_studies.overheard(scene, method, seed=0, **short), "weights",
                        client="victim", round_=1)
        for method in ("fedavg", attack_studies.PrivateFedAvg(clip=1e6, noise=0.0),
                       attack_studies.PrivateFedAvg(clip=1.0, noise=1.0))
    )  # fmt: skip
    for name, value in plain.items():
        assert torch.allclose(loose[name], value, atol=1e-5)
    assert any(not torch.allclose(noisy[name], value, atol=1e-3) for name, value in plain.items())
