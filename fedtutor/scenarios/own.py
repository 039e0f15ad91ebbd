"""A scenario of a user's own images: `of`. The page README.md in this folder has three examples."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from ..datasets.given import Given, read
from ..datasets.uniform import FITS, Form
from ..engine.kinds import is_a
from ..errors import DataError, SettingError, choose, whole
from ..images import NO_LABEL, Images
from .base import ClientData, Scenario
from .common import Look, Shares, assembled, slices
from .partitions import PARTITIONS, held_out

WHERE = "scenarios.of"
ONE = "test"  # the only test set, where nobody names it
COLUMNS = {"image", "img", "label"}  # keys of one table
SPLITS = {"train", "test", "validation", "valid", "val"}  # keys of one data set, not of clients


def of(
    data,
    *,
    tests=0.2,
    public=None,
    clients: int | None = None,
    partition: str = "iid",
    beta: float = 0.5,
    shards_per_client: int = 2,
    min_per_client: int = 1,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    fit: str = "crop",
    white: float | None = None,
    name: str = "own",
    split_seed: int = 0,
) -> Scenario:
    """The scenario of your own images, as `Federation` takes it.

    data: {name of a client: its images}, or one set, which is dealt to `clients` clients at random
    (`partition="iid"`) or with label skew ("dirichlet": class by class with Dirichlet(`beta`), the
    smaller, the more skewed; "shards": sorted by class and cut, `shards_per_client` of the pieces
    to each), each with `min_per_client` images or more.

    Images are a torch Dataset of (image, label), a pair (images, labels) of arrays or tensors, a
    folder with a sub-folder per class, or a table with a column "image" or "img" and one "label",
    such as those of Hugging Face or pandas. They are read once, into memory.

    tests: {name: images}, where a client's own test set is the one of its name; one set for all;
    or a share, such as 0.2. Then each client's own images are split, the same share of each class
    (a set that is dealt is split before). public: images whose labels nobody looks at, or None.

    Labels are whole numbers or texts. `classes` are the names in the order of the outputs: what a
    number counts in, and what a text is looked up in. Without them, names that come with the images
    count; else the labels that occur do, sorted, so that 0, 1 and 3 are three classes called so.

    size: height and width in pixels; None takes square images of one size as they are. fit: "crop"
    cuts the largest square out of the middle, "resize" squeezes the whole image into one; both
    resize bilinearly. Gray images are repeated as red, green and blue where others have colors.
    white: the value of a white pixel, where it is not clear (`datasets/uniform.py` has the rule).

    Mean and deviation are those of the clients' training images. Equal `split_seed` and images give
    equal splits. Warns where test or public images are training images, too. Raises `DataError` for
    images and labels, and `SettingError` for options, that cannot be right or can be read in two
    ways.
    """
    form = _form(size, fit, white)
    share = tests if isinstance(tests, int | float) else None
    _check(share, partition, beta, shards_per_client, split_seed, classes)
    owners, columns = _owners(data, clients, partition), {} if share else _named(tests, ONE)
    words = "images of {}" if clients is None else "images to deal"
    given = {
        **{("client", k): read(part, form, words.format(k)) for k, part in owners.items()},
        **{("test", k): read(part, form, f"test set {k}") for k, part in columns.items()},
    }
    if public is not None:
        given["public", ""] = read(public, form, "own images", labeled=False)
    images, names = alike(given, classes)
    held, columns = (
        {key: part for (kind, key), part in images.items() if kind == wanted}
        for wanted in ("client", "test")
    )
    shares = Shares(partition, clients, beta, min_per_client, shards_per_client)
    title = "own images" if clients is None else f"own images, {shares.words}"
    if share:
        title += f", {100 * share:g} % held out"
        held, columns = _split(held, share, split_seed)
    if clients is None:
        who = [ClientData(key, _domain(key, columns), part) for key, part in held.items()]
    else:
        who = _dealt(held[ONE], shares, columns, split_seed)
    norm = mean_and_deviation([client.private for client in who])
    _warn_of_equal(who, columns, images.get(("public", "")))
    look = Look(who[0].private.x.shape[-1], norm, names)
    return assembled(name, title, look, who, columns, public=images.get(("public", "")))


# --- what was asked for


def _form(size, fit, white) -> Form:
    if size is not None:
        whole("size", size, 1, WHERE)
    choose(fit, FITS, kind="fit", where=WHERE)
    if white is not None and not (is_a(white, float) and white > 0):
        _refuse(f"white = {white!r}", "give the value of a white pixel, such as 255, or None")
    return Form(size, fit, white)


def _check(share, partition, beta, shards_per_client, split_seed, classes) -> None:
    whole("split_seed", split_seed, 0, WHERE)
    if share is not None and not (is_a(share, float) and 0 < share < 1):
        _refuse(f"tests = {share!r}", "give a share above 0 and below 1, such as 0.2, or images")
    choose(partition, PARTITIONS, kind="partition", where=WHERE)
    if not (is_a(beta, float) and beta > 0):
        _refuse(f"beta = {beta!r}", "give a number above 0, such as 0.5")
    names = list(classes) if isinstance(classes, list | tuple) else None
    if classes is not None and not (is_a(names, list[str]) and len(set(names)) == len(names) > 1):
        _refuse(f"classes = {classes!r}", 'give different names, such as ["cat", "dog"]')


def _owners(data, clients, partition) -> dict:
    """Name of a client -> what it gave; of one set that will be dealt, `ONE` -> the set."""
    if not isinstance(data, Mapping):
        if clients is None:
            _refuse(
                "it is one set of images, and nobody says for how many clients",
                "deal it (clients=10), or name the owners: {name: images}",
            )
        whole("clients", clients, 1, WHERE)
        return {ONE: data}
    if clients is not None or partition != "iid":
        _refuse(
            "the table says who holds which images, and clients or partition say it again",
            "leave them out, or give one set of images to deal",
        )
    return _named(data, "")


def _named(sets, one: str) -> dict:
    """{name: images}; images without a name are called `one`."""
    if not isinstance(sets, Mapping):
        return {one: sets}
    names = list(sets)
    wrong = [name for name in names if not (isinstance(name, str) and name.strip())]
    if not names or wrong:
        _refuse(
            f"{wrong[0]!r} is no name" if names else "the table is empty",
            "write {name: images}, with texts as names",
        )
    if COLUMNS & set(names):
        _refuse(
            f"{names} look like columns of one set, and a dict names several",
            "give a pair (images, labels)",
        )
    if len(names) > 1 and SPLITS.issuperset(names):
        _refuse(
            f"{names} look like parts of one set, not like owners",
            'deal it: of(data["train"], tests=data["test"], clients=10)',
        )
    return dict(sets)


def _refuse(what: str, do: str, error=SettingError):
    raise error(what, where=WHERE, do=do)


# --- labels as numbers, images of one shape


def alike(given: dict, classes) -> tuple[dict, tuple[str, ...]]:
    """The same table with `Images` of one shape, and the names of their classes."""
    parts = list(given.values())
    sizes = {tuple(part.x.shape[2:]): part.where for part in parts}
    height, width = next(iter(sizes))
    if len(sizes) > 1 or height != width:
        found = " and ".join(f"{h} x {w} ({where})" for (h, w), where in list(sizes.items())[:2])
        _refuse(
            f"the images are {found} pixels high and wide: not square, or not of one size",
            f"say how large they shall be, such as size={min(height, width)}; fit says how",
            DataError,
        )
    channels = max(part.x.shape[1] for part in parts)
    called, names = class_names([part for part in parts if part.labels], classes)
    numbers = {name: number for number, name in enumerate(names)}
    images = {}
    for key, part in given.items():
        y = [numbers[name] for name in called.get(part.where, ())] or [NO_LABEL] * len(part.x)
        x = part.x.expand(-1, channels, -1, -1).contiguous()
        images[key] = Images(x, torch.tensor(y), part.where)
    return images, names


def class_names(parts: list[Given], classes) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """{where: the names of a part's labels}, and the names of all classes in their order."""
    lists = {part.names for part in parts if part.names}
    common = tuple(classes or (lists.pop() if len(lists) == 1 else ()))
    texts = {label for part in parts for label in part.labels if isinstance(label, str)}
    known = bool(common or lists) or not all(map(_is_number, texts))  # "3" is called as 3 is
    called = {part.where: _called(part, common, known) for part in parts}
    found = {name: where for where, own in called.items() for name in own}
    if classes is not None:
        for name, where in found.items():
            choose(name, classes, kind="class", where=where, error=DataError)
    if not set(found) <= set(common):
        common = tuple(sorted({*found, *(name for own in lists for name in own)}, key=_order))
    if len(common) < 2:
        _refuse(f"all labels are {common[0]}", "give images of two classes or more", DataError)
    return called, common


def _called(part: Given, common: tuple[str, ...], known: bool) -> list[str]:
    """The names of a part's labels. known: whether any part says what its labels mean."""
    texts = {isinstance(label, str) for label in part.labels}
    if len(texts) > 1:
        raise DataError(
            "some labels are numbers and others texts",
            where=part.where,
            do="give all as texts, or all as numbers",
        )
    if True in texts:
        return part.labels
    names = part.names or common
    if not names and known:
        raise DataError(
            "the labels are numbers, those of others have names",
            where=part.where,
            do='say what they count: classes=["cat", "dog"]',
        )
    if names and max(part.labels) >= len(names):
        raise DataError(
            f"label {max(part.labels)} is behind the last of {len(names)} classes, {names[-1]!r}",
            where=part.where,
            do="labels count from 0: correct them, or give all classes=",
        )
    return [names[label] if names else str(label) for label in part.labels]


def _is_number(name: str) -> bool:
    """Whether `name` is written as a whole number is, without a 0 before it."""
    return name.isdecimal() and str(int(name)) == name


def _order(name: str):
    """Numbers by value, before all texts."""
    return (0, int(name), "") if _is_number(name) else (1, 0, name)


# --- who holds what


def _split(held: dict, share: float, seed: int) -> tuple[dict, dict]:
    """Private images and test sets, both by the names of `held`."""
    private, tests = {}, {}
    for name, images in held.items():
        rng = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()[:4]])
        kept, taken = held_out(images.y, share, rng)
        if not len(taken):
            raise DataError(
                f"a share of {share:g} of {len(images)} images is none",
                where=images.source,
                do="raise the share, or give test sets: tests={name: images}",
            )
        private[name], tests[name] = images[kept], images[taken]
    return private, tests


def _dealt(held: Images, shares: Shares, columns: dict, seed: int) -> list[ClientData]:
    try:
        parts = shares.of(held.y, np.random.default_rng([seed]))
    except SettingError as error:
        raise SettingError(error.what, where=WHERE, do=error.do) from None
    who = slices(held[torch.cat(parts)], parts, "client", ONE)
    return [replace(client, domain=_domain(client.id, columns)) for client in who]


def _domain(client: str, tests: dict) -> str:
    """The only test set, or the one of the client's name."""
    if len(tests) == 1:
        return next(iter(tests))
    return choose(
        client, tests, kind="test set", where=f"{WHERE}, client {client}", error=DataError
    )


def _warn_of_equal(who: Sequence[ClientData], tests: dict, public: Images | None) -> None:
    """Says how many test and public images are, pixel by pixel, training images as well."""
    trained = {key for client in who for key in _pixels(client.private)}
    parts = [(f"test set {k}", part, "accuracy says too much") for k, part in tests.items()]
    if public is not None:
        parts.append(("public", public, "everybody holds what is private"))
    for where, part, why in parts:
        again = sum(key in trained for key in _pixels(part))
        if again:
            warnings.warn(
                f"{WHERE}, {where}: {again} of {len(part)} images are among the training images, "
                f"too; leave them out on one side, or {why}",
                stacklevel=3,
            )


def _pixels(images: Images) -> list[bytes]:
    return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images.x.numpy()]


def mean_and_deviation(parts: Sequence[Images]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Per channel, over all pixels of all images, for pixels from 0 to 1; six digits."""
    counts = 0
    for part in parts:
        channels = [channel.reshape(-1) for channel in part.x.transpose(0, 1)]
        counts += torch.stack([torch.bincount(pixels, minlength=256) for pixels in channels])
    values = torch.arange(256, dtype=torch.float64) / 255
    weights = counts.double() / counts.sum(1, keepdim=True)
    mean = weights @ values
    deviation = (weights * (values - mean[:, None]) ** 2).sum(1).sqrt()
    if deviation.min() < 1e-4:
        _refuse(
            "the training images are of one brightness everywhere", "give other images", DataError
        )
    return tuple(round(m, 6) for m in mean.tolist()), tuple(round(d, 6) for d in deviation.tolist())
