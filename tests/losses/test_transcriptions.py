"""Every numbered equation of `losses` beside its transcription in plain loops and float64.

A test without arguments that calls one function of `losses` by name is a check of its equation:
`test_mutations.py` flips signs in that function and expects the test to fail.
"""

import math

import torch

from fedtutor.losses import cross_entropy, proximal_term
from fedtutor.notebook.check import check

Z = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0], [-2.0, 0.25, 4.0], [1.0, 1.0, 1.0]])
Y = torch.tensor([0, 2, 2, 1])
W = [torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor([0.25, -1.0])]
W_GLOBAL = [torch.tensor([[0.0, 1.0], [0.75, 3.5]]), torch.tensor([-0.5, 2.0])]


def test_cross_entropy_is_fccl_eq_3():
    total = 0.0
    for z, y in zip(Z.tolist(), Y.tolist(), strict=True):
        below = sum(math.exp(z_c) for z_c in z)
        total -= math.log(math.exp(z[y]) / below)
    check("FCCL Eq. 3", cross_entropy(Z.double(), Y), total / len(Z), tolerance=1e-12)


def test_equal_logits_cost_the_log_of_the_number_of_classes():
    for classes in (2, 10):
        loss = cross_entropy(torch.full((3, classes), 0.7), torch.tensor([0, 1, 1]))
        check("equal logits", loss, math.log(classes))


def test_proximal_term_is_fedprox_eq_2():
    squares = 0.0
    for layer, layer_global in zip(W, W_GLOBAL, strict=True):
        pairs = zip(layer.flatten().tolist(), layer_global.flatten().tolist(), strict=True)
        for w_i, w_global_i in pairs:
            squares += (w_i - w_global_i) ** 2
    check("FedProx Eq. 2", proximal_term(W, W_GLOBAL, mu=0.3), 0.3 / 2 * squares)


def test_the_leash_pulls_back_with_mu_times_the_distance():
    w = [layer.clone().requires_grad_() for layer in W]
    pull = torch.autograd.grad(proximal_term(w, W_GLOBAL, mu=0.3), w)
    for got, layer, layer_global in zip(pull, W, W_GLOBAL, strict=True):
        check("gradient", got, 0.3 * (layer - layer_global))


def test_without_mu_there_is_no_leash():
    assert proximal_term(W, W_GLOBAL, mu=0.0) == 0
    assert proximal_term(W, W, mu=5.0) == 0
