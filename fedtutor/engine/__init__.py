"""How a run is carried out.

- Work: `workers` (threads), `batches`, `optimizers`, `counting` (how much is computed).
- A method's parts, called at clients by name and with plain values: `calls`.
- New networks, equal or not: `new_networks`.
- Stop and go on: `checkpoints`, `artifacts` (stages that runs share).
- What a user can get wrong: `checks`, `kinds` (of a value).
- `files` that are never half written.
- Of virtual images: `siamese`, augmentation with a gradient; `private_pixels`, DP-SGD.
"""
