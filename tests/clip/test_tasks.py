"""Metrics of the tasks on numbers that can be checked by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from skymark.model.errors import DataError, UsageError  # noqa: E402
from skymark.suites.clip.reading.samples import Association  # noqa: E402
from skymark.suites.clip.specification import LinearProbe  # noqa: E402
from skymark.suites.clip.tasks import linear_probe, zero_shot  # noqa: E402
from skymark.suites.clip.tasks.zero_shot import (  # noqa: E402
    association_metrics,
    retrieval_metrics,
    selection_metrics,
    unit,
)


def test_accuracy_counts_the_highest_and_the_five_highest():
    logits = torch.tensor(
        [[9.0, 1, 2, 3, 4, 5], [0, 6, 5, 4, 3, 2], [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]]
    )
    metrics = zero_shot.single_label_metrics(logits, torch.tensor([0, 0, 5, 5])).metrics
    assert metrics == {"acc1": 0.5, "acc5": 0.5, "mean_per_class_recall": 0.5}


def test_there_is_no_acc5_below_five_classes():
    metrics = zero_shot.single_label_metrics(torch.eye(3), torch.tensor([0, 1, 1])).metrics
    assert metrics == {"acc1": pytest.approx(2 / 3), "mean_per_class_recall": 0.75}


def test_a_class_without_images_does_not_lower_the_mean_recall():
    logits = torch.tensor([[1.0, 0, 0], [1.0, 0, 0]])
    metrics = zero_shot.single_label_metrics(logits, torch.tensor([0, 0])).metrics
    assert metrics["mean_per_class_recall"] == 1.0


def test_the_class_report_has_precision_recall_and_f1():
    predicted, labels = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1])
    first, second, absent = zero_shot.class_scores(predicted, labels, 3)
    assert (first.precision, first.recall, first.support) == (0.5, 1.0, 1)
    assert (second.precision, second.recall, second.f1) == (1.0, 2 / 3, 0.8)
    assert (absent.precision, absent.recall, absent.f1, absent.support) == (0, 0, 0, 0)


def test_average_precision_is_the_mean_precision_at_each_hit():
    logits = torch.tensor([[0.9], [0.8], [0.7], [0.6]])
    found = zero_shot.average_precisions(logits, torch.tensor([[1], [0], [1], [0]]))
    assert found.tolist() == pytest.approx([(1 + 2 / 3) / 2])


def test_a_classifier_is_the_unit_mean_of_unit_prompts():
    prompts = torch.tensor([[2.0, 0], [0, 3], [5, 0], [5, 0]])
    classifier = zero_shot.classifier_of(prompts, [2, 2])
    assert torch.allclose(classifier, torch.tensor([[0.5**0.5, 0.5**0.5], [1, 0]]))


def test_classes_can_have_different_numbers_of_prompts():
    prompts = torch.tensor([[2.0, 0], [0, 3], [0, 1], [5, 0]])
    classifier = zero_shot.classifier_of(prompts, [3, 1])
    assert torch.allclose(classifier, torch.tensor([[0.2**0.5, 0.8**0.5], [1, 0]]))


def test_a_query_is_found_if_one_of_its_own_is_near():
    images = torch.eye(3)
    texts = torch.tensor([[1.0, 0, 0], [0, 0.1, 1], [0, 1, 0], [0.9, 0, 1]])
    found = retrieval_metrics(images, texts, torch.tensor([0, 0, 1, 2]), (1, 2)).metrics
    assert found == {
        "image_retrieval_recall@1": 0.75,
        "text_retrieval_recall@1": pytest.approx(2 / 3),
        "image_retrieval_recall@2": 0.75,
        "text_retrieval_recall@2": 1.0,
    }


def test_among_equal_texts_each_k_takes_its_own():
    """clip_benchmark asks for the k nearest anew for each k; among ties that is not one order."""
    images, unique = torch.randn(2, 100, 8, generator=torch.Generator().manual_seed(3)).unbind()
    texts, of_text = unique[:20].repeat(5, 1), torch.arange(100)
    scores = unit(images) @ unit(texts).T
    metrics = retrieval_metrics(images, texts, of_text, (1, 5)).metrics
    for k in (1, 5):
        found = (scores.topk(k, dim=1).indices == of_text[:, None]).any(dim=1)
        assert metrics[f"text_retrieval_recall@{k}"] == pytest.approx(float(found.float().mean()))
    nearest_of_five = scores.topk(5, dim=1).indices[:, :1]
    assert not torch.equal(nearest_of_five, scores.topk(1, dim=1).indices)


def test_recall_beyond_the_number_of_images_is_refused():
    with pytest.raises(UsageError, match=r"\b5\b.*--recall-k 3\b"):
        retrieval_metrics(torch.eye(3), torch.eye(3), torch.arange(3), (5,))
    found = retrieval_metrics(torch.eye(3), torch.eye(3), torch.arange(3), (1, 5)).metrics
    assert {name.partition("@")[2] for name in found} == {"1"}, "of 3 images, 5 tell nothing"


def test_selection_counts_instances_with_all_texts_and_all_images_right():
    right = torch.eye(2)
    swapped = torch.tensor([[0.0, 1], [1, 0]])
    both = torch.tensor([[1.0, 0], [1, 0]])
    images = torch.stack([right, right, right])
    texts = torch.stack([right, swapped, both])
    found = selection_metrics(images, texts).metrics
    assert found["acc"] == pytest.approx(1 / 3)
    one_image = selection_metrics(
        torch.tensor([[[1.0, 0]]]), torch.tensor([[[1.0, 0], [0, 1]]])
    ).metrics
    assert one_image == {"image_acc": 1.0, "text_acc": 1.0, "acc": 1.0}


def test_a_word_takes_as_many_images_as_belong_to_it():
    def word(candidates, right):
        return Association("x", tuple(candidates), tuple(one in right for one in candidates))

    images = torch.eye(12)
    texts = torch.zeros(3, 12)
    texts[0, [1, 4]] = 1
    texts[1, [2, 3]] = torch.tensor([2.0, 1])
    texts[2, 11] = 1
    words = [word(range(5), {1, 4}), word(range(12), {2, 5}), word([11, 0, 3], {0})]
    found = association_metrics(images, texts, words)
    assert found.metrics == {
        "jaccard": pytest.approx((1 + 1 / 3 + 0) / 3),
        "jaccard_10_12": pytest.approx(1 / 3),
    }
    for name, value in found.metrics.items():
        assert found.parts[f"{name}_part"].mean() == pytest.approx(value)
    assert found.metrics.keys() - association_metrics(images, texts[:1], words[:1]).metrics == {
        "jaccard_10_12"
    }


def clusters(count: int, seed: int) -> linear_probe.Features:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    values = torch.eye(3)[labels] + 0.2 * torch.randn(count, 3, generator=generator)
    return linear_probe.Features(values, labels)


@pytest.mark.parametrize("fewshot_k", [-1, 5])
def test_a_probe_learns_what_can_be_told_apart(fewshot_k):
    settings = LinearProbe(epochs=5, fewshot_k=fewshot_k)
    metrics, _ = linear_probe.probe(
        clusters(90, 1), clusters(30, 2), clusters(60, 3), torch.randperm(90), settings, 0
    )
    assert metrics["lp_acc1"] > 0.9
    assert 1e-6 <= metrics["weight_decay"] <= 1e2


def test_too_few_images_of_a_class_are_refused():
    with pytest.raises(DataError, match="fewer than 40"):
        linear_probe.probe(
            clusters(90, 1),
            None,
            clusters(60, 3),
            torch.arange(90),
            LinearProbe(epochs=1, fewshot_k=40),
            0,
        )


def test_a_probe_sees_the_batches_of_torchs_own_loader():
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.arange(50)), batch_size=50, shuffle=True)
    torch.manual_seed(5)
    theirs = [batch[0].tolist() for _ in range(3) for batch in loader]
    torch.manual_seed(5)
    ours = [linear_probe._shuffled(50).tolist() for _ in range(3)]
    assert ours == theirs


def test_the_validation_part_is_that_of_torchs_random_split():
    from torch.utils.data import random_split

    torch.manual_seed(11)
    state = torch.get_rng_state()
    train, val = random_split(range(101), [0.7, 0.3])
    ours = linear_probe.Draws(state, 0).split(101, 0.3)
    assert [part.tolist() for part in ours] == [list(train.indices), list(val.indices)]
