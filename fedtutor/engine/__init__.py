"""How a run is carried out: optimizers, checkpoints, files, and counting of work."""
