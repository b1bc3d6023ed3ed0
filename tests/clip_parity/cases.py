"""The cases of the table: a data set, a task, and their settings on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skymark.suites.clip.reading.user_files import Prompting


@dataclass(frozen=True)
class Case:
    """One data set with one task."""

    title: str
    set: str
    """Directory of the data set."""
    peer_name: str
    """Its name in clip_benchmark."""
    task: str
    layout: str = "webdataset"
    peer_options: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    """Further fields of the cell's specification."""
    peer_precision: tuple[str, ...] = ("--no_amp",)
    tolerance: float = 1e-6
    """Largest difference of a metric."""

    @property
    def name(self) -> str:
        """The data set's name in skymark."""
        return self.peer_name.removeprefix("wds/")


SEARCH = {"train_split": "train", "val_split": "val", "epochs": 2}
ALL = {"train_split": "train", "epochs": 4}
FEW = {"train_split": "train", "epochs": 4, "fewshot_k": 8}
PROMPTS = Path(__file__).with_name("prompts.json")
CAPTIONING_CASES = (Case("captioning", "captions", "wds/captions", "captioning"),)
"""Cases of the CoCa model."""
CASES = (
    Case("classification", "digits", "wds/digits", "zeroshot_classification"),
    Case(
        "classification, prompts of each class",
        "digits",
        "wds/digits",
        "zeroshot_classification",
        peer_options=("--custom_template_file", str(PROMPTS)),
        settings={"prompt_file": Prompting(PROMPTS).entry_for("wds/digits")},
    ),
    Case("multi-label", "properties", "wds/properties", "zeroshot_classification"),
    Case(
        "retrieval",
        "captions",
        "wds/captions",
        "zeroshot_retrieval",
        peer_options=("--recall_k", "1", "5", "10"),
        settings={"recall_k": (1, 5, 10)},
    ),
    Case(
        "selection, one image (SugarCrepe)",
        "sugar_crepe",
        "sugar_crepe/add_att",
        "image_caption_selection",
        layout="folder",
    ),
    Case(
        "selection, two images (Winoground)",
        "winoground",
        "winoground",
        "image_caption_selection",
        layout="folder",
    ),
    Case(
        "linear probe",
        "digits",
        "wds/digits",
        "linear_probe",
        peer_options=("--train_split", "train", "--fewshot_epochs", "4"),
        settings={"linear_probe": ALL},
    ),
    Case(
        "linear probe, 8 images per class",
        "digits",
        "wds/digits",
        "linear_probe",
        peer_options=("--train_split", "train", "--fewshot_epochs", "4", "--fewshot_k", "8"),
        settings={"linear_probe": FEW},
    ),
    Case(
        "linear probe, weight decay searched",
        "digits",
        "wds/digits",
        "linear_probe",
        peer_options=(
            *("--train_split", "train", "--val_split", "val"),
            *("--fewshot_epochs", "2"),
        ),
        settings={"linear_probe": SEARCH},
    ),
)
"""In fp32."""
AMP_SETTINGS = {"precision": "amp", "drop_text_tail": False}
AMP_TOLERANCE = 0.02
"""Of metrics between 0 and 1. clip_benchmark's logits and similarities are in bf16 on a CPU, whose
step is 0.125 at a logit of 20, so that classes and captions tie; the suite's are in fp32. About
twice what was seen."""


def in_amp(case: Case) -> Case:
    """Return a case in mixed precision, with texts in full length as clip_benchmark has them."""
    return replace(
        case,
        title=f"{case.title}, amp",
        settings={**case.settings, **AMP_SETTINGS},
        peer_precision=(),
        tolerance=AMP_TOLERANCE,
    )


AMP_CASES = tuple(in_amp(case) for case in CASES if case.task != "linear_probe")
"""All in mixed precision but linear probes, whose training goes on from every rounding."""
