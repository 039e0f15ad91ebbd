"""How a run is carried out: workers, batches, optimizers, checkpoints, who is left out, files."""
