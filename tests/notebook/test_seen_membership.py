"""What notebook 06 sees: the attack, defenses judged by their best attack, equal accuracy."""

import numpy as np
import pytest
import torch

from fedtutor import attacks
from fedtutor.experiments import attack_list
from fedtutor.notebook import seen_membership as seen


@pytest.fixture(scope="module")
def street():
    return seen.Street()


def test_a_half_is_half_and_another_for_another_seed(street):
    one, other = street.half(0), street.half(1)
    assert int(one.sum()) == int(other.sum()) == len(street) // 2 == 500
    assert not torch.equal(one, other) and torch.equal(one, street.half(0))


def test_the_network_is_surer_of_its_own_images_only_after_training(street):
    own = street.half(3)
    after, before = (street.sureness(own, 7, way)[:, 0] for way in ("up", "down"))
    assert after.shape == (1000,)
    assert float(after[own].mean() - after[~own].mean()) > 1
    assert abs(float(before[own].mean() - before[~own].mean())) < 0.2


def study(accuracy, **found):
    empty = {"auc": [0.5, 0.5], "tpr": [0.01, 0.01]}
    return {"accuracy": accuracy, **{kind: found.get(kind, empty) for kind in seen.ATTACKS}}


def test_a_defense_is_judged_by_its_best_attack_for_each_measure():
    mine = study([0.9, 0.7], lira={"auc": [0.6, 0.6], "tpr": [0.2, 0.2]},
                 offline={"auc": [0.7, 0.7], "tpr": [0.1, 0.1]})  # fmt: skip
    both = seen.Defended({"12 epochs": mine, "noise 1": study([0.5, 0.5])})
    assert both.best("12 epochs", "auc") == "offline" and both.best("12 epochs", "tpr") == "lira"
    assert both.of("12 epochs", "accuracy").tolist() == [0.9, 0.7]
    assert both.less("tpr", "12 epochs", "noise 1") == pytest.approx([19, 19])
    table = both.table()
    assert table.loc["12 epochs", "epsilon"] == "no promise"
    assert float(table.loc["noise 1", "epsilon"]) == pytest.approx(seen.epsilon(1.0, 32), abs=0.06)


def test_more_noise_promises_more_and_a_larger_batch_less():
    assert seen.epsilon(3.0, 32) < seen.epsilon(1.0, 32) < seen.epsilon(0.3, 32)
    assert seen.epsilon(1.0, 32) < seen.epsilon(1.0, 128)


def moment(accuracy, auc):
    return {"accuracy": [accuracy, accuracy], "auc": [auc, auc + 0.1]}


@pytest.mark.parametrize("way", ["up", "down"])
def test_equal_accuracy_takes_the_nearest_round_and_the_same_message(way):
    other = {"up": "down", "down": "up"}[way]
    fast = {
        other: {"10": moment(0.58, 0.9)},
        way: {"1": moment(0.1, 0.5), "2": moment(0.6, 0.55), "10": moment(0.9, 0.8)},
    }
    slow = {other: {"10": moment(0.9, 0.1)}, way: {"1": moment(0.1, 0.5), "10": moment(0.58, 0.5)}}
    both = {"fast": {"a": fast}, "slow": {"a": slow}}
    found = seen.apart(both, "fast", "slow", way=way, nearest=True)
    assert found["auc"] == pytest.approx([5, 5]) and found["accuracy"] == pytest.approx([2, 2])
    assert seen.nearest_rounds(both, "fast", "slow", way=way) == [2]
    found = seen.apart(both, "fast", "slow", way=way, nearest=False)
    assert found["auc"] == pytest.approx([30, 30]) and found["accuracy"] == pytest.approx([32, 32])


def test_differences_are_the_mean_over_clients():
    one = {c: {"up": {"3": moment(a, a)}} for c, a in (("a", 0.5), ("b", 0.9))}
    other = {c: {"up": {"3": moment(0.4, 0.4)}} for c in "ab"}
    found = seen.apart({"one": one, "other": other}, "one", "other", way="up", nearest=False)
    assert found["auc"] == pytest.approx([30, 30])


def test_the_client_with_the_least_lead_decides():
    last = {"FedAvg": {"a": 0.9, "b": 0.7}, "FedLGD": {"a": 0.5, "b": 0.6}}
    study = {words: {c: {"up": {"2": moment(0.5, 0), "10": moment(0.5, v)}}
                     for c, v in clients.items()} for words, clients in last.items()}  # fmt: skip
    decides, least = seen.least_lead(study)
    assert decides == "b" and least == pytest.approx([10, 10])
    for clients in study.values():
        for ways in clients.values():
            ways["down"] = {"10": moment(0.5, 0.8)}
    study["FedLGD"]["a"]["down"] = {"10": moment(0.5, 0.7)}
    decides, least = seen.least_lead(study, way="down")  # the server's weights
    assert decides == "b" and least == pytest.approx([0, 0])


def test_a_promise_bounds_what_is_found_or_says_nothing():
    assert seen.most_found(0.0) == pytest.approx(0.01 + seen.DELTA)
    assert seen.most_found(1.0) == pytest.approx(0.0282, abs=1e-4)
    assert seen.most_found(5.0) > 1


def test_the_recorded_figure_has_a_row_per_training_client_and_round():
    six = attack_list.study("figure-6")
    table = seen.figure_6(six)
    assert len(table) == sum(len(ways["up"]) for c in six.values() for ways in c.values())
    assert not table.isna().any().any()
    uploads = seen.last_upload(six)
    assert {values.shape for values in uploads.values()} == {(2, 3)}


def test_the_curve_agrees_with_the_library():
    draw = np.random.default_rng(0)
    member = np.arange(400) < 150
    scores = draw.normal(0, 1, 400) + member
    alarms, found = seen.roc_points(scores, member)
    assert alarms[0] == found[0] == 0 and alarms[-1] == found[-1] == 1
    assert np.trapezoid(found, alarms) == pytest.approx(attacks.auc(scores, member), abs=1e-9)


def test_few_members_first_are_found_without_an_alarm():
    alarms, found = seen.roc_points([3, 2, 1, 0], [True, False, True, False])
    assert alarms == [0, 0, 0.5, 0.5, 1] and found == [0, 0.5, 0.5, 1, 1]
