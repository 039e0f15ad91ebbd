"""The data sets that the papers use: splits, true counts, official trees, pages, checksums.

One `DataSet` per set. Addresses and checksums are torchvision's. Sources, licenses and the trees
drawn out are in `data/README.md`; `sources.py` does the looking.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from . import arrays, folders

TRAIN_TEST = ("train", "test")
RESIZED = {"npz": "resized copy", "jpeg": "JPEG copy"}
README = "see data/README.md for the files and the expected tree"


@dataclass(frozen=True)
class DataSet:
    """What is known about a set. Paths are relative to a home; {} stands for the split.

    homes: folders below FEDTUTOR_DATA beside `<name>/`; trees: (path, reader, options), the first
    that is there is read; downloads: (mirrors, file, its path, MD5); counts: images in all, or per
    class; samples: other numbers of images, with words; copy: what an .npz or JPEG copy of it is.
    """

    title: str
    num_classes: int
    trees: Callable[[str], list[tuple]]
    page: str
    counts: dict
    splits: tuple[str, ...] = TRAIN_TEST
    homes: tuple[str, ...] = ("",)
    archives: tuple[str, ...] = ()
    downloads: Callable[[str], list[tuple]] = lambda split: []
    samples: dict = field(default_factory=dict)
    copy: dict = field(default_factory=lambda: {"npz": "", "jpeg": "JPEG copy"})

    def total(self, split: str) -> int | None:
        """How many images the split has as published; None if nobody says."""
        count = self.counts.get(split)
        return sum(count) if isinstance(count, tuple) else count

    def by_hand(self) -> str:
        """What a reader does to get the set."""
        return f"get it from {self.page}, set FEDTUTOR_DATA to the folder that holds it; {README}"


def _tree(reader, *paths: str, names: dict | None = None, **options) -> Callable:
    """Trees of one reader; {} stands for the split, or for what `names` says of it."""
    return lambda split: [(path.format(name), reader, options) for path in paths
                          for name in (names or {}).get(split, (split,))]  # fmt: skip


def of_torchvision(name: str):
    """The class that knows a set; imported now, as it takes longer than all else here."""
    from torchvision import datasets

    return getattr(datasets, name)


def _idx_downloads(name: str) -> Callable[[str], list[tuple]]:
    def downloads(split):
        kind = of_torchvision(name)
        files = kind.resources[:2] if split == "train" else kind.resources[2:]
        return [([m + file for m in kind.mirrors], f"{name}/raw/{file}", md5)
                for file, md5 in files]  # fmt: skip

    return downloads


def _listed_download(name: str) -> Callable[[str], list[tuple]]:
    def downloads(split):
        url, file, md5 = of_torchvision(name).split_list[split][:3]
        return [([url], file, md5)]

    return downloads


def _cifar(name: str, folder: str, archive: str, labels: str) -> dict:
    def trees(split):
        kind = of_torchvision(name)
        names = [name for name, _ in (kind.train_list if split == "train" else kind.test_list)]
        return [(folder, arrays.cifar, {"names": names, "labels": labels})]

    def downloads(split):
        kind = of_torchvision(name)
        return [([kind.url], archive, kind.tgz_md5)]

    return {"trees": trees, "archives": (archive,), "downloads": downloads}


IDX = _tree(arrays.idx, "{}-images-idx3-ubyte", names={"test": ("t10k",)})
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur",
    "zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate",
    "jpeg_compression", "speckle_noise", "gaussian_blur", "spatter", "saturate",
)  # fmt: skip

SETS = {
    "mnist": DataSet(
        "MNIST", 10, IDX, "http://yann.lecun.com/exdb/mnist",
        {"train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
         "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)},
        homes=("MNIST/raw",), downloads=_idx_downloads("MNIST"),
    ),
    "fashion_mnist": DataSet(
        "Fashion-MNIST", 10, IDX, "https://github.com/zalandoresearch/fashion-mnist",
        {"train": (6000,) * 10, "test": (1000,) * 10},
        homes=("FashionMNIST/raw",), downloads=_idx_downloads("FashionMNIST"),
    ),
    "emnist_digits": DataSet(
        "EMNIST digits", 10, _tree(arrays.idx, "emnist-digits-{}-images-idx3-ubyte"),
        "https://www.nist.gov/itl/products-and-services/emnist-dataset",
        {"train": (24000,) * 10, "test": (4000,) * 10},
        homes=("EMNIST/raw", "gzip"), archives=("EMNIST/raw/gzip.zip", "gzip.zip"),
        downloads=lambda split: [([of_torchvision("EMNIST").url], "EMNIST/raw/gzip.zip",
                                  of_torchvision("EMNIST").md5)],
    ),
    "usps": DataSet(
        "USPS", 10, _tree(arrays.usps, "usps{}.bz2", names={"train": ("",), "test": (".t",)}),
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
        {"train": (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
         "test": (359, 264, 198, 166, 200, 160, 170, 147, 166, 177)},
        downloads=_listed_download("USPS"),
    ),
    "svhn": DataSet(
        "SVHN", 10, _tree(arrays.mat, "{}_32x32.mat"),
        "http://ufldl.stanford.edu/housenumbers",
        {"train": (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
         "test": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595)},
        downloads=_listed_download("SVHN"), samples={5000: "5,000 official test images"},
    ),
    "syn": DataSet(
        "SYN (Roy et al.)", 10,
        _tree(folders.class_folders, "imgs_{}", names={"test": ("valid",)}, num_classes=10),
        "https://www.kaggle.com/datasets/prasunroy/synthetic-digits",
        {"train": 10000, "test": 2000},
        homes=("synthetic_digits",), archives=("synthetic_digits.zip", "synthetic-digits.zip"),
    ),
    "synth_digits": DataSet(
        "SynthDigits", 10, _tree(arrays.mat, "synth_{}_32x32.mat"),
        "http://yaroslav.ganin.net (SynthDigits.zip)", {"train": 479400, "test": 9553},
        homes=("", "SynthDigits"), archives=("SynthDigits.zip",),
    ),
    "mnist_m": DataSet(
        "MNIST-M", 10, _tree(folders.listed, "mnist_m_{}"),
        "http://yaroslav.ganin.net (mnist_m.tar.gz)", {"train": 59001, "test": 9001},
        archives=("mnist_m.tar.gz",),
    ),
    "cifar10": DataSet(
        "CIFAR-10", 10, page="https://www.cs.toronto.edu/~kriz/cifar.html",
        counts={"train": (5000,) * 10, "test": (1000,) * 10},
        **_cifar("CIFAR10", "cifar-10-batches-py", "cifar-10-python.tar.gz", "labels"),
    ),
    "cifar100": DataSet(
        "CIFAR-100", 100, page="https://www.cs.toronto.edu/~kriz/cifar.html",
        counts={"train": (500,) * 100, "test": (100,) * 100},
        **_cifar("CIFAR100", "cifar-100-python", "cifar-100-python.tar.gz", "fine_labels"),
    ),
    "cifar10_c": DataSet(
        "CIFAR-10-C", 10, _tree(arrays.corrupted, "{}.npy"),
        "https://zenodo.org/records/2535967", {name: (5000,) * 10 for name in CORRUPTIONS},
        splits=CORRUPTIONS, homes=("CIFAR-10-C",), archives=("CIFAR-10-C.tar",),
    ),
    "tiny_imagenet": DataSet(
        "Tiny-ImageNet", 200,
        lambda split: [("train", folders.class_folders, {"num_classes": 200, "inner": "images"})
                       if split == "train" else ("val", folders.tiny_validation, {})],
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        {"train": (500,) * 200, "test": (50,) * 200},
        homes=("tiny-imagenet-200",), archives=("tiny-imagenet-200.zip",),
        copy={"npz": "64 x 64 copy", "jpeg": ""},
    ),
    "office_caltech10": DataSet(
        "Office-Caltech-10", 10,
        _tree(folders.class_folders, "{}", names={"caltech": ("caltech", "caltech10")},
              num_classes=10),
        "https://faculty.cc.gatech.edu/~judy/domainadapt",
        {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295},
        splits=("amazon", "caltech", "dslr", "webcam"),
        homes=("office_caltech_10", "office_caltech_10/images"),
        archives=("office_caltech_10.zip",), copy={**RESIZED, "npz": "64 x 64 copy"},
    ),
    "office31": DataSet(
        "Office-31", 31, _tree(folders.class_folders, "{}/images", "{}", num_classes=31),
        "https://faculty.cc.gatech.edu/~judy/domainadapt",
        {"amazon": 2817, "dslr": 498, "webcam": 795}, splits=("amazon", "dslr", "webcam"),
        homes=("domain_adaptation_images", "Original_images"),
        archives=("domain_adaptation_images.tar.gz",),
        copy=RESIZED,
    ),
    "office_home": DataSet(
        "Office-Home", 65,
        _tree(folders.class_folders, "{}", num_classes=65,
              names={"art": ("Art",), "clipart": ("Clipart",), "product": ("Product",),
                     "real_world": ("Real World", "Real_World")}),
        "https://www.hemanthdv.org/officeHomeDataset.html",
        {"art": 2427, "clipart": 4365, "product": 4439, "real_world": 4357},
        splits=("art", "clipart", "product", "real_world"),
        homes=("OfficeHomeDataset_10072016",), archives=("OfficeHomeDataset_10072016.zip",),
        copy=RESIZED,
    ),
    "femnist": DataSet(
        "FEMNIST (LEAF), digits", 10, _tree(arrays.leaf, "data/{}"),
        "https://github.com/TalwalkarLab/leaf (data/femnist, preprocess.sh)", {},
    ),
    "retina": DataSet(
        "retina", 2, lambda split: {
            "drishti": [("Drishti-GS1_files", folders.glaucoma, {"within": "Images"})],
            "acrima": [("Database/Images", folders.acrima, {})],
            "rim": [("RIM-ONE_DL_images", folders.glaucoma, {"within": "partitioned_randomly"})],
            "refuge": [("REFUGE", folders.glaucoma, {}), ("Training400", folders.glaucoma, {})],
        }[split],
        "the four pages in data/README.md",
        {"drishti": 101, "acrima": 705, "rim": 485, "refuge": 1200},
        splits=("drishti", "acrima", "rim", "refuge"),
        copy=RESIZED,
    ),
}  # fmt: skip
