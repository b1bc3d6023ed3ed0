"""Score CLIP models on data sets: plan, run, status and tables of models × data sets."""

from __future__ import annotations

from skymark.suite.commands import Sheet, SuiteCommands, Words

COMMANDS = SuiteCommands(
    suite="clip",
    profile="clip",
    adapters=Words(
        option="models",
        one="model",
        help="ARCHITECTURE:TAG as open_clip calls them, ARCHITECTURE:./FILE.pt for a checkpoint of "
        "your own, globs such as `ViT-B-*:laion2b*`, a .txt file with one name per line, or all.",
    ),
    scenarios=Words(
        option="datasets",
        one="data set",
        help="Public names such as wds/vtab/cifar10, a directory of your own (./my_set), globs "
        "such as `wds/vtab/*`, retrieval, sugar_crepe, imagenet_robustness, a .txt file with one "
        "name per line, or all.",
    ),
    sheets=(
        Sheet(name="classification", variants=("zeroshot_classification",), metrics=("score",)),
        Sheet(
            name="retrieval",
            variants=("zeroshot_retrieval",),
            metrics=("image_retrieval_recall@5", "text_retrieval_recall@5"),
        ),
        Sheet(name="linear probe", variants=("linear_probe",), metrics=("lp_acc1",)),
        Sheet(name="selection", variants=("image_caption_selection",), metrics=("acc",)),
    ),
)
