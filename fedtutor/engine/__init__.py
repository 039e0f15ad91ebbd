"""How a run is carried out.

- Work: `workers` (threads), `batches`, `optimizers`, `counting` (how much is computed).
- A client's part by its name, with plain values both ways: `asking`.
- Stop and go on: `checkpoints`, `artifacts` (stages that runs share); without a client that
  failed: `leave_out`.
- What a user can get wrong: `checks`, `kinds` (of a value).
- `files` that are never half written; `siamese`, augmentation with a gradient.
"""
