"""Scoring of a cell: features of its images and texts, and the metrics of its task."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.suites.clip.reading.fetching import splits_of
from skymark.suites.clip.reading.layout import check_captions
from skymark.suites.clip.reading.opening import (
    OpenedSplit,
    check_fingerprint,
    check_labels,
    check_same_classes,
    class_count,
    open_for,
    prompts_for,
)
from skymark.suites.clip.specification import CAPTIONING

if TYPE_CHECKING:
    from skymark.suites.clip.encoding.encoder import Encoder, EncoderTime
    from skymark.suites.clip.features import FeatureFacts, FeatureStore
    from skymark.suites.clip.oracle.verdict import Scored, ScoredSplit
    from skymark.suites.clip.pixels.preprocessing import (
        PixelMap,
        Preprocessing,
        UndecodedPixels,
    )
    from skymark.suites.clip.reading.layout import Prompts
    from skymark.suites.clip.specification import ClipSpecification, LinearProbe
    from skymark.suites.clip.tasks.zero_shot import Scores

REMEMBERED_BYTES = 2 << 30
"""Limit for features in memory, for further tasks and languages on the same images."""


@dataclass(frozen=True)
class Opened:
    """Data of a cell: its splits, first the scored split."""

    splits: tuple[OpenedSplit, ...]
    prompts: Prompts | None
    pixels: tuple[PixelMap | UndecodedPixels, ...] = ()
    decode_ns: tuple[int | None, ...] = ()
    """Time of decoding each split for this cell; None if it was decoded before."""

    @property
    def texts(self) -> list[str]:
        """Prompts class by class, or captions image by image; empty for a linear probe."""
        if self.prompts is not None:
            names = self.prompts.classes
            return [text for name in names for text in self.prompts.of_class(name)]
        return self.splits[0].samples.texts


@dataclass(frozen=True)
class ScoredCell:
    """Metrics of a cell, and their data."""

    scores: Scores
    scored: Scored
    work: EncoderTime
    report: Callable[[], str] | None = None
    """Makes a table of classes or captions for the cell's log, after the clock has stopped."""


class Scorer:
    """Scorer of one model's cells; remembers features for further cells."""

    def __init__(self, cache: Path, features: FeatureStore | None = None) -> None:
        self._cache = cache
        self._store = features
        self._features: OrderedDict[str, Any] = OrderedDict()
        self._classifiers: dict[str, tuple[list[str], Any]] = {}

    def forget(self) -> None:
        """Forget all features, for another model or precision."""
        self._features.clear()
        self._classifiers.clear()

    # Opening

    def check(self, specification: ClipSpecification, opened: OpenedSplit) -> Prompts | None:
        """Check a cell's labels or captions, and return its prompts; None without prompts.

        Raises:
            DataError: they are missing, or do not fit the labels.
        """
        if specification.task == "linear_probe":
            check_labels(opened, class_count(opened))
            return None
        if opened.samples.associations is not None:
            return None
        if opened.samples.captions is not None:
            check_captions(opened.directory, specification.language)
            return None
        return prompts_for(specification, opened)

    def opened(self, specification: ClipSpecification) -> Opened:
        """Open a cell's splits.

        Raises:
            DataError: a split is missing, damaged, or does not fit the task.
        """
        check_fingerprint(specification.source, specification.split)
        splits = tuple(
            open_for(specification, split, self._cache) for split in splits_of(specification)
        )
        check_same_classes(splits)
        prompts = [self.check(specification, split) for split in splits]
        return Opened(splits, prompts[0])

    def with_pixels(
        self, specification: ClipSpecification, opened: Opened, encoder: Encoder
    ) -> Opened:
        """Add the pixels of all splits; decodes them if the cache lacks them.

        A split with stored features is not decoded; its features are remembered.
        """
        pixels = tuple(self._pixels(specification, split, encoder) for split in opened.splits)
        decode_ns = tuple(one.take_decode_ns() for one in pixels)
        return Opened(opened.splits, opened.prompts, pixels, decode_ns)

    def _pixels(
        self, specification: ClipSpecification, split: OpenedSplit, encoder: Encoder
    ) -> PixelMap | UndecodedPixels:
        from skymark.suites.clip.pixels.building import ensure_map
        from skymark.suites.clip.pixels.preprocessing import UndecodedPixels

        preprocessing, samples = encoder.loaded.preprocessing, split.samples
        facts = self._facts(specification, split, preprocessing, encoder.loaded.weights_digest)
        if self._store is not None and facts is not None:
            name = specification.model.architecture
            if (stored := self._store.get(facts, split, name)) is not None:
                self._features.setdefault(split.identity, stored.features)
                return UndecodedPixels(
                    lambda number: preprocessing.pixels(
                        samples.read(number), samples.name_of(number)
                    ),
                    len(samples),
                    stored.images_digest,
                )
        return ensure_map(self._cache, split, preprocessing)

    def has_features(
        self, specification: ClipSpecification, split: OpenedSplit, preprocessing: Preprocessing
    ) -> bool:
        """Whether features of a split are stored, if the digest of weights is in the plan."""
        facts = self._facts(specification, split, preprocessing, specification.model.weights.sha256)
        if self._store is None or facts is None:
            return False
        return self._store.get(facts, split, specification.model.architecture) is not None

    def _facts(
        self,
        specification: ClipSpecification,
        split: OpenedSplit,
        preprocessing: Preprocessing,
        weights_digest: str | None,
    ) -> FeatureFacts | None:
        """Return the facts of a split's features; None if they are not kept."""
        from skymark.suites.clip.features import FeatureFacts

        weights = specification.model.weights
        own = weights_digest if specification.model.library == "python" else weights.sha256
        digest = own or weights_digest
        if self._store is None or digest is None:
            return None
        if specification.model.library == "python" and weights_digest == weights.sha256:
            return None  # the tensors that the function makes are not known yet
        return FeatureFacts.of(specification, digest, preprocessing, split)

    def warm(self, specification: ClipSpecification, opened: Opened, encoder: Encoder) -> None:
        """Warm the encoder with batches of a cell's images and texts, before the clock starts.

        Raises:
            OutOfMemoryError: not even one image or text fits.
        """
        from skymark.suites.clip.pixels.preprocessing import PixelMap

        pairs = zip(opened.splits, opened.pixels, strict=True)
        pixels = [
            one
            for split, one in pairs
            if isinstance(one, PixelMap) and split.identity not in self._features
        ]
        is_built = opened.prompts is not None and opened.prompts.digest in self._classifiers
        writes = specification.task == CAPTIONING
        encoder.warm(pixels, [] if is_built or writes else opened.texts)

    def expected_texts(self, specification: ClipSpecification, opened: Opened) -> Sequence[str]:
        """Read a cell's texts from the data set's files again."""
        if specification.task == "zeroshot_classification":
            prompts = prompts_for(specification, opened.splits[0])
            return [text for name in prompts.classes for text in prompts.of_class(name)]
        if specification.task == "linear_probe":
            return []
        return opened.splits[0].samples.texts

    # Scoring

    def score(
        self, specification: ClipSpecification, opened: Opened, encoder: Encoder
    ) -> ScoredCell:
        """Return the metrics of a cell.

        Raises:
            OutOfMemoryError: not even one image fits.
        """
        from skymark.suites.clip.encoding.encoder import EncoderTime

        encoder.work = EncoderTime()
        if specification.task == CAPTIONING:
            return _captioned(opened, encoder)
        splits = tuple(
            self._scored(specification, split, pixels, encoder)
            for split, pixels in zip(opened.splits, opened.pixels, strict=True)
        )
        if specification.linear_probe is not None:
            return _probed(specification, specification.linear_probe, splits, encoder)
        if opened.prompts is not None:
            figure = specification.figure
            return self._classified(opened, opened.prompts, splits[0], encoder, figure)
        return _matched(specification, opened.texts, splits[0], encoder)

    def _scored(
        self,
        specification: ClipSpecification,
        opened: OpenedSplit,
        pixels: PixelMap | UndecodedPixels,
        encoder: Encoder,
    ) -> ScoredSplit:
        from skymark.suites.clip.features import StoredFeatures
        from skymark.suites.clip.oracle.verdict import ScoredSplit
        from skymark.suites.clip.pixels.preprocessing import PixelMap

        key = opened.identity
        if isinstance(pixels, PixelMap) and key not in self._features:
            self._features[key] = encoder.images(pixels)
            loaded = encoder.loaded
            facts = self._facts(specification, opened, loaded.preprocessing, loaded.weights_digest)
            if self._store is not None and facts is not None:
                features = StoredFeatures(self._features[key], pixels.images_digest)
                self._store.put(facts, opened, specification.model.architecture, features)
            while len(self._features) > 1 and self._remembered_bytes() > REMEMBERED_BYTES:
                self._features.popitem(last=False)
        self._features.move_to_end(key)
        return ScoredSplit(opened, pixels, self._features[key])

    def _remembered_bytes(self) -> int:
        return sum(one.nbytes for one in self._features.values())

    def _classified(
        self,
        opened: Opened,
        prompts: Prompts,
        split: ScoredSplit,
        encoder: Encoder,
        figure: str | None,
    ) -> ScoredCell:
        import numpy as np
        import torch

        from skymark.suites.clip.oracle.verdict import Scored
        from skymark.suites.clip.tasks import zero_shot as task

        if prompts.digest not in self._classifiers:
            texts = opened.texts
            self._classifiers[prompts.digest] = texts, encoder.texts(texts)
        texts, text_features = self._classifiers[prompts.digest]
        device = encoder.device
        classifier = task.classifier_of(text_features.to(device), prompts.counts)
        logits = task.logits_of(split.features.to(device), classifier)
        scored = Scored((split,), texts, text_features)
        if (rows := split.opened.samples.multilabels) is not None:
            scores, precisions = task.multilabel_metrics(logits, torch.tensor(rows, device=device))
            report = partial(task.precision_report, prompts.classes, precisions)
        else:
            labels = torch.tensor(split.opened.samples.labels, device=device)
            scores = task.single_label_metrics(logits, labels)
            if figure is not None:
                groups = np.asarray(split.opened.samples.groups or (), np.int64)
                own = task.own_figure(figure, logits, labels, groups)
                scores = task.Scores(scores.metrics | own.metrics, scores.parts | own.parts)
            report = partial(task.class_report, prompts.classes, logits.argmax(dim=1), labels)
        scores.metrics["classes"] = float(len(prompts.classes))
        return ScoredCell(scores, scored, encoder.work, report)


def _matched(
    specification: ClipSpecification, texts: Sequence[str], split: ScoredSplit, encoder: Encoder
) -> ScoredCell:
    """Score images against their captions or words, for retrieval, selection or association."""
    import torch

    from skymark.suites.clip.oracle.verdict import Scored
    from skymark.suites.clip.tasks.zero_shot import (
        association_metrics,
        retrieval_metrics,
        selection_metrics,
    )

    samples = split.opened.samples
    captions = samples.captions or ()
    text_features = encoder.texts(texts)
    queries = text_features.to(encoder.device)
    images = split.features.to(encoder.device)
    if samples.associations is not None:
        scores = association_metrics(images, queries, samples.associations)
    elif specification.task == "zeroshot_retrieval":
        own = [number for number, one in enumerate(captions) for _ in one]
        image_of_text = torch.tensor(own, device=encoder.device)
        scores = retrieval_metrics(images, queries, image_of_text, specification.recall_k)
    else:
        dimensions = images.shape[-1]
        scores = selection_metrics(
            images.view(-1, samples.images_per_instance, dimensions),
            queries.view(len(captions), -1, dimensions),
        )
    return ScoredCell(scores, Scored((split,), texts, text_features), encoder.work)


def _captioned(opened: Opened, encoder: Encoder) -> ScoredCell:
    """Compare the captions that a model writes with the data set's own."""
    from skymark.suites.clip.oracle.verdict import Scored, ScoredSplit
    from skymark.suites.clip.pixels.preprocessing import PixelMap
    from skymark.suites.clip.tasks.captioning import caption_report, captioning_metrics

    (split,) = opened.splits
    (pixels,) = (one for one in opened.pixels if isinstance(one, PixelMap))
    samples = split.samples
    written = encoder.captions(pixels)
    scores = captioning_metrics(written, samples.captions or ())
    names = [samples.name_of(number) for number in range(len(samples))]
    report = partial(caption_report, names, written)
    scored = Scored((ScoredSplit(split, pixels, written),), opened.texts)
    return ScoredCell(scores, scored, encoder.work, report)


def _probed(
    specification: ClipSpecification,
    settings: LinearProbe,
    splits: tuple[ScoredSplit, ...],
    encoder: Encoder,
) -> ScoredCell:
    """Train a linear classifier on the features of the training split."""
    import torch

    from skymark.suites.clip.oracle.verdict import Scored
    from skymark.suites.clip.tasks.linear_probe import Draws, Features, probe
    from skymark.suites.clip.tasks.zero_shot import unit

    def features(split: ScoredSplit) -> Features:
        values = unit(split.features) if settings.normalize else split.features
        labels = torch.tensor(split.opened.samples.labels)
        return Features(values.to(encoder.device), labels.to(encoder.device))

    test, train, *others = map(features, splits)
    val = others[0] if others else None
    loaders = len(splits) if val is not None or not settings.val_proportion else len(splits) + 1
    draws = Draws(encoder.loaded.random_state, loaders)
    parts = draws.split(len(train.labels), 0.0 if val is not None else settings.val_proportion)
    if parts is not None:
        train, val = train.chosen(parts[0]), train.chosen(parts[1])
    order = draws.order(len(train.labels))
    scores = probe(
        train,
        val,
        test,
        order,
        settings,
        specification.seed,
        autocast=specification.precision == "amp",
    )
    return ScoredCell(scores, Scored(splits), encoder.work)
