"""A workload of the benchmark that is over at once."""

import bench_rounds as bench


def small(**changes) -> bench.Workload:
    settings = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "batch_size": 1000, **changes}
    build = bench.mnist(num_clients=3, private_size=90, min_per_client=5, partition="dirichlet")
    return bench.Workload("small", "lenet5", settings, build)
