"""What notebook 03 sees: looks return what their words say, on a small federation."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedtutor import Federation, Settings, methods, rounds, scenarios
from fedtutor.experiments import looks
from fedtutor.notebook import seen_fedcsd as seen


@pytest.fixture(scope="module")
def played():
    """Method -> a federation of three clients behind its only round."""
    made = scenarios.build(
        "mnist-mini", num_clients=3, partition="dirichlet", beta=0.5, private_size=60
    )
    settings = Settings(rounds=1, local_epochs=1, batch_size=16, models=["small_cnn"])
    found = {}
    for name in ("fedavg", "fedcsd"):
        fed = Federation(made, methods.METHODS[name](), settings, seed=1)
        rounds.run(fed)
        found[name] = fed
    return found


def test_a_long_round_begins_at_the_global_network(played):
    found = seen.drift(played["fedavg"])
    assert found["further"].keys() == seen.TRIED.keys()
    for rows in found["further"].values():
        assert rows.shape == (1 + len(seen.EPOCHS), len(seen.COLUMNS))
        assert rows[0, :4].tolist() == [0, 0, 0, 0] and (rows[1:, :4] > 0).all()
        assert rows[0, 4] == rows[0, 5] == pytest.approx(found["right"][1, 1].item())


def test_strong_distillation_holds_logits_and_features(played):
    further = seen.drift(played["fedavg"])["further"]
    assert (further[seen.STRONG][1:, :2] < further[seen.NO][1:, :2]).all()


def test_a_look_leaves_the_federation_as_it_was(played):
    fed = played["fedcsd"]
    before = {name: w.clone() for name, w in fed.server.model.state_dict().items()}
    seen.teaching(fed)
    after = fed.server.model.state_dict()
    assert fed.round_ == 1 and all(torch.equal(w, after[name]) for name, w in before.items())


def test_what_the_teacher_says(played):
    found = seen.teaching(played["fedcsd"])
    every, kept, wrong, both = found["counts"].tolist()
    assert every == 60 and both <= min(kept, wrong)
    assert found["logits"].shape == (2, seen.SHOWN, 10)
    assert found["spread"][2] < found["spread"][1]  # scores shrink
    assert found["entropy"][0] < found["entropy"][1] <= 1
    assert found["further"].keys() == seen.LOCAL.keys()


def test_a_look_can_be_recorded():
    assert looks.root_of(seen.drift) and looks.root_of(seen.teaching)


def test_entropy_is_a_share_of_the_largest():
    assert seen.entropy(torch.zeros(3, 7), 1.0) == pytest.approx(1)
    assert seen.entropy(torch.tensor([[100.0, 0.0]]), 1.0) == pytest.approx(0)
    two = torch.tensor([[3.0, 3.0, -99.0, -99.0]])
    assert seen.entropy(two, 1.0) == pytest.approx(0.5)


def test_a_teacher_of_zeros_pulls_like_a_uniform_one():
    g = torch.Generator().manual_seed(0)
    z, y = 3 * torch.randn(8, 5, generator=g), torch.randint(5, (8,), generator=g)
    nothing, strong = torch.zeros(8, 5), 3 * torch.randn(8, 5, generator=g)
    found = seen.pulls(z, strong, nothing, y, tau=10.0, mu=0.5)
    plain, own = found["cosine"]
    assert own == pytest.approx(1) and plain < 0.95
    more = seen.pulls(z, strong, nothing, y, tau=10.0, mu=1.0)
    assert more["share"] == pytest.approx(2 * found["share"])


def test_reading_looks():
    further = {name: torch.arange(30.0).reshape(5, 6) for name in seen.TRIED}
    run = [{"a": 9}, {"a": [1, 2]}, {"a": [3, 4], "further": further, "groups": 0.5}]
    assert seen.per_round([run, run], "a").tolist() == [[[1, 2], [3, 4]]] * 2
    assert seen.last([run], "groups").tolist() == [0.5]
    assert seen.column([run], seen.LD, "features").tolist() == [[1, 7, 13, 19, 25]]


def test_what_a_further_round_keeps_is_compared_with_labels_alone():
    further = {seen.CE: (0.25, 0.5), seen.NOTHING: (0.5, 0.375)}
    run = [{}, {"further": further}]
    assert seen.stays([run, run], seen.NOTHING, 0).tolist() == [25, 25]
    assert seen.stays([run], seen.NOTHING, 1).tolist() == [-0.125]


def test_gains_pair_the_seeds():
    def result(seed, *accuracies):
        entries = [{"moment": "end", "round": i, "matrix": [[a]]} for i, a in enumerate(accuracies)]
        history = {"tests": ["t"], "domains": ["t"], "accuracy": entries}
        return SimpleNamespace(seed=seed, history=history)

    ours = [result(2, 0, 0.5, 0.9), result(0, 0, 0.4, 0.6)]
    theirs = [result(0, 0, 0.3, 0.3), result(1, 0, 1, 1), result(2, 0, 0.5, 0.5)]
    assert np.allclose(seen.gains(ours, theirs, slice(0, 1)), [0, 10])
    assert np.allclose(seen.gains(ours, theirs, slice(-2, None)), [20, 20])


def test_who_leads_names_those_that_do_not():
    sure, wide, unclear, behind = [2, 2.1], [1, 9], [-1, 2], [-2, -2.1]
    assert seen.leading({"a": sure, "b": sure}) == "all 2 variants are ahead"
    apart = seen.leading({"a": sure, "b": wide})
    said = "*b* is too close to call (all seeds are ahead, but too far apart)"
    assert apart == f"1 of 2 are ahead; {said}"
    said = seen.leading({"a": wide, "b": unclear, "c": behind})
    assert said == "0 of 3 are ahead; *a* and *b* are too close to call; *c* is behind"
