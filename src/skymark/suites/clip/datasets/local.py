"""Data sets of a plan, and their making from the user's own directory."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.data import DataTaken, LeftOut
from skymark.model.errors import DataError
from skymark.suites.clip.reading.folder import (
    folder_prompts,
    image_file,
    images_by_class,
    other_files,
)
from skymark.suites.clip.reading.layout import (
    CLASS_FILE,
    LANGUAGE_FILE,
    SHARD_COUNT_FILE,
    TEMPLATE_FILE,
    TYPE_FILE,
    Kind,
    kind_of,
    prompts_of,
    read_text,
    require_shard,
    shards_of,
)
from skymark.suites.clip.reading.samples import SplitFile, readable, real_path
from skymark.suites.clip.reading.selection import (
    SUGAR_CREPE_IMAGES,
    WINOGAVIL_FILE,
    WINOGROUND_FILE,
)
from skymark.suites.clip.specification import CAPTIONING, OwnFigure, Source, Task
from skymark.tar_files import printable


class DataSet(Frozen):
    """A data set for scoring."""

    title: str
    source: Source
    task: Task
    """The data set's own task."""
    multilabel: bool = False
    group_column: int | None = None
    """Column of each image's metadata that has its group."""
    figure: OwnFigure | None = None
    """The data set's own figure; None for the task's."""
    languages: tuple[str, ...] = ("en",)
    """Languages of class names and templates, or of captions."""
    classes: int | None = None
    names: tuple[str, ...] = ()
    """English class names of a local data set."""
    prompts: int | None = None
    """Templates per class."""
    images: int | None = None
    """Images of the test split."""
    texts: int | None = None
    """Captions of the test split; None for a data set with classes."""
    local_files: tuple[str, ...] = ()
    taken: DataTaken | None = None
    """Account of a folder's images; None for layouts that are counted when they are read."""
    damaged: tuple[str, ...] = ()
    """Faults of elements that planning sees."""

    @property
    def name(self) -> str:
        """Name in cells."""
        return self.source.name

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Possible tasks, its own first; a data set with several labels trains no probe."""
        if self.task == "zeroshot_classification" and not self.multilabel:
            return (self.task, "linear_probe")
        if self.task == "zeroshot_retrieval":
            return (self.task, CAPTIONING)
        return (self.task,)


LAYOUTS = (
    "DIRECTORY/SPLIT/nshards.txt with 0.tar, 1.tar … beside it (CLIP_benchmark's builder writes "
    "them), or DIRECTORY/SPLIT/CLASS/*.jpg; Winoground as DIRECTORY/examples.jsonl, SugarCrepe as "
    "DIRECTORY/PART.json with DIRECTORY/val2017 (give the name DIRECTORY/PART.json)"
)
KINDS: dict[Kind, tuple[Task, bool]] = {
    "classification": ("zeroshot_classification", False),
    "multilabel": ("zeroshot_classification", True),
    "retrieval": ("zeroshot_retrieval", False),
    "selection": ("image_caption_selection", False),
}
"""Task, and whether images have several labels, by the content of the file."""
USUAL_BYTES = 30_000
"""Bytes of an image in a shard, to guess the number of images. Assumed: images of MS COCO have
160 kB, of CIFAR-10 in PNG 2 kB."""
USUAL_ANNOTATION_BYTES = 200
"""Bytes of an image's captions. Assumed: captions of SugarCrepe have 180."""


def local_set(path: Path, name: str, split: str) -> DataSet:
    """Return the data set in a directory.

    Args:
        path: the directory.
        name: of the data set in cells.
        split: to score.

    Raises:
        DataError: the directory has no known layout, or a part is missing or empty.
    """
    path = real_path(path)
    with readable(path):
        return _local_set(path, name, split)


def _local_set(path: Path, name: str, split: str) -> DataSet:
    if (path / WINOGROUND_FILE).is_file():
        return _selection(path, name, path / WINOGROUND_FILE)
    if (path / WINOGAVIL_FILE).is_file():
        found = _selection(path, name, path / WINOGAVIL_FILE)
        return found.model_copy(update={"task": "image_association", "texts": found.images})
    folder = path / split
    if not folder.is_dir():
        splits = sorted(one.name for one in path.iterdir() if one.is_dir())
        raise DataError(
            f"{path} has no split {split!r}, but {', '.join(splits[:10]) or 'no directory'}; name "
            f"one with --test-split. A data set lies as {LAYOUTS}"
        )
    if (folder / SHARD_COUNT_FILE).is_file() or any(folder.glob("*.tar")):
        return _shards(path, name, split)
    return _folder(path, name, split)


def sugar_crepe(path: Path, name: str) -> DataSet:
    """Return the part of SugarCrepe in a file, as its authors publish it.

    Raises:
        DataError: the file or its images are missing.
    """
    path = real_path(path)
    if not path.is_file() or path.stat().st_size == 0:
        raise DataError(f"{path} is missing or empty; it has the captions of {name}")
    if not (path.parent / SUGAR_CREPE_IMAGES).is_dir():
        raise DataError(f"{path.parent} has no {SUGAR_CREPE_IMAGES} with the images of {path.name}")
    return _selection(path.parent, name, path)


def _selection(path: Path, name: str, annotations: Path) -> DataSet:
    images = max(1, annotations.stat().st_size // USUAL_ANNOTATION_BYTES)
    return DataSet(
        title=f"images and captions in {path}",
        source=_source(path, name, "folder", [annotations]),
        task="image_caption_selection",
        images=images,
        texts=2 * images,
        local_files=(str(path),),
    )


def _shards(path: Path, name: str, split: str) -> DataSet:
    shards = shards_of(path, split)
    for shard in shards:
        require_shard(shard)
    task, multilabel = KINDS[kind_of(path)]
    classes: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    if task == "zeroshot_classification":
        written = prompts_of(path, "en")
        classes, prompts = written.classes, written.templates
    size = sum(shard.stat().st_size for shard in shards)
    images = max(1, size // USUAL_BYTES)
    return DataSet(
        title=f"shards in {path}",
        source=_source(path, name, "webdataset", shards),
        task=task,
        multilabel=multilabel,
        languages=_languages(path) if classes else _language_of_captions(path),
        classes=len(classes) or None,
        names=classes,
        prompts=len(prompts) or None,
        images=images,
        texts=None if classes else 5 * images,
        local_files=(str(path),),
    )


def _folder(path: Path, name: str, split: str) -> DataSet:
    files: list[SplitFile] = []
    damaged: list[str] = []
    folders = images_by_class(path, split)
    for image in (one for images in folders.values() for one in images):
        try:
            files.append(image_file(image))
        except DataError as error:
            damaged.append(str(error))
    written = folder_prompts(path, split, "en")
    if len(written.classes) != len(folders):
        raise DataError(
            f"{path / CLASS_FILE} has {len(written.classes)} names for {len(folders)} folders in "
            f"{path / split}; write one per folder, in their order"
        )
    return DataSet(
        title=f"images in {path}",
        source=_source(path, name, "folder", [Path(one.path) for one in files]),
        task="zeroshot_classification",
        languages=_languages(path),
        classes=len(folders),
        names=written.classes,
        prompts=len(written.templates),
        images=len(files),
        local_files=(str(path),),
        taken=_taken(path, split, len(folders), len(files), len(damaged)),
        damaged=tuple(damaged),
    )


def _taken(path: Path, split: str, classes: int, taken: int, damaged: int) -> DataTaken:
    """Count a folder's images, and its other files by extension."""
    others = [
        LeftOut(count=count, what=f"{kind} (no image of a class)")
        for kind, count in other_files(path, split).most_common()
    ]
    lost = [LeftOut(count=damaged, what="damaged")] if damaged else []
    return DataTaken(
        name=str(path / split),
        noun="images",
        taken=taken,
        found=taken + damaged,
        classes=classes,
        left_out=(*lost, *others),
    )


def _source(path: Path, name: str, layout: str, files: Sequence[Path]) -> Source:
    listed = [f"{printable(str(one.relative_to(path)))} {one.stat().st_size}" for one in files]
    listed += [
        f"{file} {sha256(text.encode()).hexdigest()}"
        for file in (CLASS_FILE, TEMPLATE_FILE, TYPE_FILE)
        if (text := _text(path / file)) is not None
    ]
    return Source.model_validate(
        {
            "name": name,
            "kind": "directory",
            "address": str(path),
            "layout": layout,
            "fingerprint": sha256("\n".join(listed).encode()).hexdigest(),
        }
    )


def _languages(path: Path) -> tuple[str, ...]:
    """Return the languages of a directory's class names and templates.

    ``classnames.txt`` has the English names, ``classnames.LANGUAGE.txt`` another language's.
    """
    names, templates = Path(CLASS_FILE).stem, Path(TEMPLATE_FILE).stem
    others = {one.name.split(".")[1] for one in path.glob(f"{names}.*.txt")}
    return ("en", *sorted(one for one in others if (path / f"{templates}.{one}.txt").is_file()))


def _language_of_captions(path: Path) -> tuple[str, ...]:
    """Return the language of a directory's captions from ``language.txt``; else English."""
    return ((_text(path / LANGUAGE_FILE) or "en").strip() or "en",)


def _text(path: Path) -> str | None:
    """Read a small text file; None if it does not exist."""
    return read_text(path) if path.is_file() else None
