"""Mutations of small data sets, read by the clip suite: no foreign exception, no hang, no loss.

    python -m tests.clip_fuzz 20000 [SEED]

Each case changes a file of a sound data set, plans it, opens it and decodes its images. Two ends
are right: an error of skymark's own, or as many images as an independent count of blocks finds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from skymark.model.errors import SkymarkError
from skymark.suites.clip.datasets.choosing import chosen_set
from skymark.suites.clip.datasets.local import DataSet
from skymark.suites.clip.pixels.preprocessing import decoded
from skymark.suites.clip.reading.opening import OpenedSplit, open_split, prompts_for
from skymark.suites.clip.reading.user_files import Naming, Prompting
from skymark.suites.clip.specification import ClipSpecification, Model, Weights
from tests.clip.drawing import CLASSES, captions, pictures
from tests.clip.shards import write_shards

LIMIT_S = 10.0
MODEL = Model(architecture="ViT-B-32", weights=Weights(tag="laion2b_s34b_b79k"))
IMAGES = (b".jpg", b".png")
WORDS = (
    *(b"9" * 5000, b"-1", b"1e999", b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"\r\n\r\n"),
    *(b"{0.__class__}", b"{c:>999999999}", b"{c!r}", b"{", b"\\ud800"),
    *(b"null", b"[]", b"{}", b"[" * 2000, b"../../x", b"/dev/zero"),
    *(b"30 path=../../../etc/passwd\n", b"15 size=-1024\n", b"40 size=" + b"9" * 31 + b"\n"),
    *(b"22 GNU.sparse.major=1\n", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"ustar\x0000"),
)


def make_sets(root: Path) -> list[Path]:
    """Write a small set of every layout, and return the files that are mutated."""
    drawn = pictures(8, seed=3)
    labelled = [{"png": one.file, "cls": one.label_text} for one in drawn]
    write_shards(root / "shapes" / "test", labelled)
    rows = [{"png": one.file, "npy": one.multilabel} for one in drawn]
    write_shards(root / "colours" / "test", rows)
    texts = ["\n".join(captions(one)).encode() for one in drawn]
    told = [{"png": one.file, "txt": text} for one, text in zip(drawn, texts, strict=True)]
    write_shards(root / "captions" / "test", told)
    pairs = [{"0.png": one.file, "1.png": one.file, "txt": text}
             for one, text in zip(drawn, texts, strict=True)]  # fmt: skip
    write_shards(root / "selection" / "test", pairs)
    kinds = {"colours": "multilabel", "captions": "retrieval", "selection": "selection"}
    for name, kind in kinds.items():
        (root / name / "dataset_type.txt").write_text(f"{kind}\n")
    for name in ("shapes", "colours"):
        (root / name / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
        (root / name / "zeroshot_classification_templates.txt").write_text("a {c}.\n{c}\n")
    for one in drawn:
        place = root / "folder" / "test" / CLASSES[one.label]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{one.number}.png").write_bytes(one.file)
    (root / "folder" / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
    (root / "winoground" / "images").mkdir(parents=True)
    (root / "crepe" / "val2017").mkdir(parents=True)
    examples, entries = [], {}
    for one in drawn:
        for place in ("winoground/images", "crepe/val2017"):
            (root / place / f"{one.number}.png").write_bytes(one.file)
        names = {f"image_{side}": f"{one.number}.png" for side in (0, 1)}
        examples.append(json.dumps({**names, "caption_0": "a", "caption_1": "b"}))
        entries[str(one.number)] = {
            "filename": f"{one.number}.png", "caption": "a", "negative_caption": "b",
        }  # fmt: skip
    (root / "winoground" / "examples.jsonl").write_text("\n".join(examples) + "\n")
    (root / "crepe" / "add.json").write_text(json.dumps(entries))
    (root / "names.json").write_text(json.dumps({"shapes": CLASSES}))
    (root / "prompts.json").write_text(json.dumps({"shapes": ["a {c}"]}))
    return sorted(path for path in root.rglob("*") if path.is_file())


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with one to three changes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(changed) + 1)
        if chance.random() < 0.4:  # headers of archives, where most of the meaning is
            place = min(
                len(changed),
                512 * chance.randrange(len(changed) // 512 + 1) + chance.randrange(512),
            )
        length = chance.choice((1, 2, 8, 100, 512, 1024))
        match chance.randrange(8):
            case 0 if changed:
                changed[place % len(changed)] ^= 1 << chance.randrange(8)
            case 1:
                changed[place : place + length] = chance.randbytes(length)
            case 2:
                del changed[place:]
            case 3:
                del changed[place : place + length]
            case 4:
                changed[place : place + length] = bytes(length)
            case 5:
                changed[place:place] = chance.choice(WORDS)
            case 6:
                word = chance.choice(WORDS)
                changed[place : place + len(word)] = word
            case _:
                changed += changed[chance.choice((0, place)) :]
    if len(changed) > 512 and chance.random() < 0.5:
        mend_checksums(changed)
    return bytes(changed)


def mend_checksums(data: bytearray) -> None:
    """Write right checksums into the blocks that look like headers, so that readers go on."""
    for start in range(0, len(data) - 511, 512):
        if data[start + 257 : start + 262] == b"ustar":
            data[start + 148 : start + 156] = b" " * 8
            data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])


def blocks_with_images(path: Path) -> int:
    """Count the headers of images in an archive, block by block, whatever an archive's end says."""
    data, found = path.read_bytes(), 0
    for start in range(0, len(data) - 511, 512):
        block = data[start : start + 512]
        if block[156:157] in {b"0", b"\0"} and block[:100].split(b"\0")[0].lower().endswith(IMAGES):
            plain = block[:148] + b" " * 8 + block[156:]
            found += block[148:156].strip(b"\0 ").lstrip(b"0") == b"%o" % sum(plain)
    return found


def replaced(path: Path, chance: random.Random) -> None:
    """Put something in a file's place that is no regular file."""
    path.unlink()
    match chance.randrange(5):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to(path)
        case 2:
            path.symlink_to(path.parent, target_is_directory=True)
        case 3:
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()


def read_everything(root: Path, changed: Path, cache: Path, *, skip: bool) -> None:
    """Plan, open and decode the set that a file is part of.

    Raises:
        SkymarkError: it is refused.
        AssertionError: it is taken with another number of images than its archives have.
    """
    part = changed.relative_to(root).parts[0]
    if part == "names.json":
        Naming(changed).names(Naming(changed).entry_for("shapes").entry, len(CLASSES))
        return
    if part == "prompts.json":
        found = Prompting(changed)
        prompts = found.prompts(found.entry_for("shapes").entry, tuple(CLASSES))
        assert all(prompts.of_class(name) for name in CLASSES)
        return
    name = str(root / part / "add.json") if part == "crepe" else str(root / part)
    planned = chosen_set(name, None, "test")
    if planned.damaged and not skip:
        return
    opened = open_split(planned.source, "test", planned.task, cache, skip_damaged=skip)
    if planned.task == "zeroshot_classification":
        prompts_for(specification_of(planned), opened)
    samples = opened.samples
    for number in range(len(samples)):
        decoded(samples.read(number), samples.name_of(number))
    check_count(opened, skip=skip)


def check_count(opened: OpenedSplit, *, skip: bool) -> None:
    """Compare the number of images with the number of an archive's headers.

    Raises:
        AssertionError: they differ, and nothing says so.
    """
    if opened.source.layout != "webdataset":
        return
    held = sum(blocks_with_images(Path(one.path)) for one in opened.samples.files)
    taken = len(opened.samples) + len(opened.samples.left_out) * (skip and 2)
    assert held == taken or (skip and len(opened.samples) <= held <= taken), f"{taken} of {held}"


def specification_of(planned: DataSet) -> ClipSpecification:
    """Return the specification of a set's own task."""
    return ClipSpecification(model=MODEL, source=planned.source, task=planned.task)


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise TimeoutError in what takes longer than a case may."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(count: int, seed: int, say: Callable[[str], None] = print) -> Counter[str]:
    """Try mutations, and return the number of sets by their end: refused, taken or a finding.

    Args:
        count: of mutations.
        seed: of all choices.
        say: gets a line for each case that ended otherwise.
    """
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        root, cache = Path(place, "sets"), Path(place, "cache")
        files = make_sets(root)
        for number in range(count):
            chance = random.Random(f"{seed} {number}")
            path = chance.choice(files)
            whole = path.read_bytes()
            if chance.random() < 0.05:
                replaced(path, chance)
            else:
                path.write_bytes(mutated(whole, chance))
            try:
                with time_limit():
                    read_everything(root, path, cache, skip=number % 4 == 3)
                ends["taken"] += 1
            except SkymarkError:
                ends["refused"] += 1
            except Exception as error:  # the finding
                kind = "short" if isinstance(error, AssertionError) else type(error).__name__
                ends[kind] += 1
                say(f"{seed} {number}: {path.relative_to(root)}: {kind}: {str(error)[:200]}")
            finally:
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                else:
                    path.unlink(missing_ok=True)
                path.write_bytes(whole)
                shutil.rmtree(cache, ignore_errors=True)
    return ends


if __name__ == "__main__":
    ended = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(ended))
    sys.exit(bool(ended.keys() - {"taken", "refused"}))
