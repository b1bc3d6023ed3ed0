"""The metrics of CLIP models, for tables, charts and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from skymark.model.metric import Better, ColumnType, Declaration, Distribution, Metric, Shown
from skymark.suites.clip.specification import OWN_FIGURES

SCORE = "score"
"""Main figure of a task, from `score_of`."""
DECODE_RATE = "decoded_images_per_s"
ENCODE_RATE = "encoded_images_per_s"
"""Figure that decides the number of rounds: accuracy does not vary."""
CAPTION_RATE = "captioned_images_per_s"
END_TO_END_RATE = "end_to_end_images_per_s"

IMAGE_RECALL = "image_retrieval_recall@"
TEXT_RECALL = "text_retrieval_recall@"
"""Names of recalls, before their number of results."""

COMMON_RECALLS = (1, 5, 10)
"""Declared numbers of results for recall; tables show others as plain numbers."""


def recall_names(k: int) -> tuple[str, str]:
    """Return the metrics of image and text retrieval at a number of results."""
    return f"{IMAGE_RECALL}{k}", f"{TEXT_RECALL}{k}"


def score_of(metrics: Mapping[str, float]) -> float | None:
    """Return the main figure of a round's task; None without one.

    A data set's own figure, such as the worst group's accuracy, comes first. Classification: acc1.
    Several labels: mean average precision. Retrieval: mean of image and text recall at the smallest
    number of results. Image-caption selection: share of instances with images and texts right.
    Association: Jaccard index. Captioning: CIDEr.
    """
    usual = ("acc1", "lp_acc1", "mean_average_precision", "acc", "jaccard", "CIDEr")
    for name in (*OWN_FIGURES, *usual):
        if name in metrics:
            return metrics[name]
    numbers = [
        int(name.removeprefix(IMAGE_RECALL)) for name in metrics if name.startswith(IMAGE_RECALL)
    ]
    if not numbers:
        return None
    found = [metrics[name] for name in recall_names(min(numbers)) if name in metrics]
    return fmean(found)


def _accuracy(name: str, heading: str, description: str, outcome: str | None) -> Metric:
    """Return a metric of accuracy, which does not vary."""
    return Metric(
        name=name,
        heading=heading,
        description=description,
        better="higher",
        scale="exact",
        compared=True,
        gated=True,
        outcome=outcome,
        own=True,
        shown=Shown(digits=4, gives_way=1),
    )


def _cost(
    name: str,
    heading: str,
    unit: str,
    description: str,
    shown: Shown,
    better: Better | None = "lower",
    *,
    own: bool = False,
) -> Metric:
    """Return a metric of time or resources, which varies between rounds."""
    return Metric(
        name=name,
        heading=heading,
        unit=unit,
        description=description,
        better=better,
        own=own,
        shown=shown,
    )


ACCURACIES = (
    _accuracy("acc1", "acc1", "share of images whose class scores highest", "correct"),
    _accuracy(
        "acc5",
        "acc5",
        "share of images whose class is among the five highest; five classes or more",
        "correct_5",
    ),
    _accuracy(
        "mean_per_class_recall",
        "class recall",
        "recall of each class, averaged",
        "class_recall_part",
    ),
    _accuracy(
        "mean_average_precision",
        "mAP",
        "average precision of each class, averaged",
        "precision_part",
    ),
    _accuracy(
        "worst_group_acc1",
        "worst group",
        "acc1 of the worst group of images, such as a region",
        "worst_group_acc1_part",
    ),
    _accuracy(
        "worst_group_acc5",
        "worst group acc5",
        "acc5 of the worst group of images, such as an income",
        "worst_group_acc5_part",
    ),
    _accuracy("f1_macro", "F1", "F1 of each class that occurs, averaged", "f1_macro_part"),
    *(
        metric
        for k in COMMON_RECALLS
        for metric in (
            _accuracy(
                recall_names(k)[0],
                f"image R@{k}",
                f"share of texts whose image is among the {k} nearest",
                f"image_hit_{k}",
            ),
            _accuracy(
                recall_names(k)[1],
                f"text R@{k}",
                f"share of images with a caption among the {k} nearest",
                f"text_hit_{k}",
            ),
        )
    ),
    _accuracy(
        "image_acc",
        "image acc",
        "share of instances with the right image for each text",
        "image_right",
    ),
    _accuracy(
        "text_acc",
        "text acc",
        "share of instances with the right text for each image",
        "text_right",
    ),
    _accuracy("acc", "both acc", "share of instances with images and texts right", "both_right"),
    _accuracy(
        "jaccard",
        "Jaccard",
        "Jaccard index of a word's nearest images with its own, averaged",
        "jaccard_part",
    ),
    _accuracy(
        "jaccard_10_12",
        "Jaccard 10-12",
        "Jaccard index of the words with ten candidates or more",
        "jaccard_10_12_part",
    ),
    _accuracy("lp_acc1", "probe acc1", "acc1 of a linear classifier on image features", "correct"),
    _accuracy(
        "lp_acc5", "probe acc5", "acc5 of a linear classifier on image features", "correct_5"
    ),
    _accuracy(
        "lp_mean_per_class_recall",
        "probe recall",
        "class recall of a linear classifier on image features",
        "class_recall_part",
    ),
    *(
        _accuracy(f"Bleu_{n}", f"BLEU-{n}", f"BLEU of captions, n-grams up to length {n}", None)
        for n in (1, 2, 3, 4)
    ),
    _accuracy("METEOR", "METEOR", "METEOR of captions", None),
    _accuracy("ROUGE_L", "ROUGE-L", "ROUGE-L of captions, averaged", "rouge_part"),
    _accuracy("CIDEr", "CIDEr", "CIDEr of captions, averaged", "cider_part"),
)
"""Metrics of the tasks, by CLIP_benchmark's names and definitions."""

METRICS = (
    Metric(
        name=SCORE,
        heading="score",
        description="the task's own figure: acc1, mAP, mean of image and text recall, both acc or "
        "CIDEr",
        better="higher",
        scale="exact",
        compared=True,
        gated=True,
        outcome="score_part",
        shown=Shown(digits=4),
    ),
    *ACCURACIES,
    Metric(
        name=ENCODE_RATE,
        heading="encoded images/s",
        unit="1/s",
        description="images per second from cached pixels through the image encoder to features in "
        "host memory; absent if an earlier cell computed the features",
        better="higher",
        compared=True,
        shown=Shown(format="count", gives_way=2),
    ),
    _cost(
        CAPTION_RATE,
        "captioned images/s",
        "1/s",
        "images per second from cached pixels to written captions",
        Shown(format="count", gives_way=2),
        "higher",
        own=True,
    ),
    _cost(
        DECODE_RATE,
        "decoded images/s",
        "1/s",
        "images read, decoded, resized and cached per second, on all cores of the worker; absent "
        "if the cache had the pixels",
        Shown(format="count", gives_way=4),
        "higher",
        own=True,
    ),
    _cost(
        END_TO_END_RATE,
        "end-to-end images/s",
        "1/s",
        "images per second of decoding, both encoders and scoring together; absent if an earlier "
        "cell did a part",
        Shown(format="count", gives_way=3),
        "higher",
        own=True,
    ),
    _cost(
        "batch_latency_ns",
        "batch ms",
        "ns",
        "median time of one batch through the image encoder in ms",
        Shown(format="milliseconds", gives_way=7),
    ),
    _cost(
        "encoder_s",
        "encoder s",
        "s",
        "time of the image and text encoders, and of writing captions",
        Shown(gives_way=7),
    ),
    _cost(
        "other_s",
        "other s",
        "s",
        "other time in the timed region: reading of cached pixels, tokenizer, scoring",
        Shown(gives_way=5),
    ),
    _cost(
        "peak_pss_bytes",
        "host mem",
        "B",
        "largest proportional set size of the process tree while the cell was scored",
        Shown(format="size", gives_way=8),
    ),
    _cost(
        "peak_device_bytes",
        "device mem",
        "B",
        "largest memory of the model and its batches on the accelerator",
        Shown(format="size", gives_way=4),
        own=True,
    ),
    _cost(
        "energy_j",
        "energy J",
        "J",
        "energy of the accelerator, or else of the CPU package, in the timed region",
        Shown(gives_way=7),
        own=True,
    ),
    _cost(
        "energy_j_per_1000_images",
        "energy J/1k",
        "J",
        "that energy per 1000 images encoded",
        Shown(gives_way=9),
        own=True,
    ),
    Metric(
        name="images",
        heading="images",
        description="images scored",
        scale="exact",
        integer=True,
        shown=Shown(gives_way=9),
    ),
    Metric(
        name="damaged_elements",
        heading="damaged",
        description="damaged elements that --skip-damaged left out",
        scale="exact",
        integer=True,
        own=True,
        shown=Shown(),
    ),
    Metric(
        name="texts",
        heading="texts",
        description="prompts or captions of the data set",
        scale="exact",
        integer=True,
        shown=Shown(gives_way=10),
    ),
    Metric(
        name="classes",
        heading="classes",
        description="classes of the data set",
        scale="exact",
        integer=True,
        own=True,
    ),
    Metric(
        name="weight_decay",
        heading="decay",
        description="weight decay that the linear probe's search chose",
        scale="exact",
        own=True,
        shown=Shown(gives_way=10),
    ),
)

SAMPLE_COLUMNS: dict[str, ColumnType] = {
    "batch": "int32",
    "encoder_ns": "int64",
    "images": "int32",
    "predicted": "int32",
    "label": "int32",
    "correct": "bool",
    "correct_5": "bool",
    "class_recall_part": "float64",
    "precision_part": "float64",
    **{f"{name}_part": "float64" for name in OWN_FIGURES},
    **{f"image_hit_{k}": "float64" for k in COMMON_RECALLS},
    **{f"text_hit_{k}": "bool" for k in COMMON_RECALLS},
    "image_right": "bool",
    "text_right": "bool",
    "both_right": "bool",
    "jaccard_part": "float64",
    "jaccard_10_12_part": "float64",
    "rouge_part": "float64",
    "cider_part": "float64",
    "score_part": "float64",
}
"""Columns of the samples: a row per batch of images, then columns with a row per image."""

DECLARATION = Declaration(
    suite="clip",
    metrics=METRICS,
    primary=SCORE,
    noun="model",
    distributions=(
        Distribution(
            heading="batches, ms", column="encoder_ns", shown=Shown(format="milliseconds")
        ),
    ),
    sample_columns=SAMPLE_COLUMNS,
    elements=("labels_digest", "elements_digest"),
    conditions=(
        "precision",
        "batch_size",
        "preprocessing",
        "normalisation",
        "preprocessing_of",
        "tokenizer",
        "weights_digest",
        "activation",
        "pixels",
        "device",
        "accelerator",
        "images_digest",
        "labels_digest",
        "elements_digest",
        "texts_digest",
    ),
    method=(
        "Figures follow CLIP_benchmark's definitions and do not vary: one round gives them.",
        "Intervals are over images: Wilson's for shares, else normal.",
        "Models are compared image by image: McNemar's test for shares, else a paired bootstrap.",
        "Similarities are computed in fp32, whatever the encoders' precision is.",
        "Encoders run on batches of the cell's shapes before the clock starts.",
        "Decoding, encoding and end to end are three rates; each counts only the cell's own work.",
        "Pixels after resizing and cropping are cached as 8-bit integers, which is exact.",
    ),
    legend="score is the task's own figure",
    oracle=(
        "the oracle accounted for every image and text of the data set, and compared a sample of "
        "pixels with the reference preprocessing and the prompts with the templates"
    ),
)
