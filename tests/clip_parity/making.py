"""Make checkpoints and data sets: random weights, and scikit-learn's digits as JPEG files.

Runs with the interpreter of clip_benchmark's environment, which has scikit-learn.
"""

import io
import json
import sys
from pathlib import Path

import numpy as np

from tests.clip.drawing import CLASSES, pictures
from tests.clip.drawing import TEMPLATES as SHAPE_TEMPLATES
from tests.clip.shards import write_shards

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEMPLATES = [
    "a photo of the number {c}.",
    "a blurry scan of a handwritten {c}.",
    "{c}, written by hand",
    'a photo of the number: "{c}".',
]
TONES = ["faint", "light", "grey", "dark", "bold", "very bold"]
TAUGHT = 10
"""Tokens of a caption that a model learns to write."""
SPLITS = {"train": slice(0, 700), "val": slice(700, 900), "test": slice(900, 1300)}
ARCHITECTURES = Path(__file__).with_name("architectures")
"""Small models of both kinds: the code is that of the large ones, and a table takes minutes."""


def digits(split):
    """Return images of a split as arrays of 48x48 or 40x56 pixels, coloured by their number."""
    from PIL import Image
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = SPLITS[split]
    images, labels = [], []
    for number, (values, label) in enumerate(
        zip(data.images[chosen], data.target[chosen], strict=True)
    ):
        grey = Image.fromarray((values * 15).astype(np.uint8))
        size = (48, 48) if number % 3 else (40, 56)
        pixels = np.asarray(grey.resize(size, Image.Resampling.BICUBIC), np.float32)
        colour = 0.4 + 0.6 * np.random.default_rng(number).random(3)
        images.append((pixels[:, :, None] * colour).astype(np.uint8))
        labels.append(int(label))
    return images, labels


def jpeg(pixels):
    """Return the bytes of a JPEG file."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def caption_lines(label, pixels):
    """Return two captions that tell an image from most others."""
    tone = TONES[int(pixels.mean() / 12) % len(TONES)]
    colour = ["red", "green", "blue"][int(pixels.mean(axis=(0, 1)).argmax())]
    return [
        f"a {tone} {WORDS[label]} in {colour}",
        f"the digit {label}, {tone}, {pixels.shape[1]} pixels wide, {int(pixels.mean())} bright",
    ]


def multilabel(label):
    """Return a row of labels: the digit, whether it is odd, and whether it is large."""
    row = np.zeros(12, np.int64)
    row[label] = 1
    row[10], row[11] = label % 2, label > 4
    out = io.BytesIO()
    np.save(out, row)
    return out.getvalue()


def make_sets(root):
    """Write one data set of each kind below a directory."""
    for split in SPLITS:
        images, labels = digits(split)
        files = [jpeg(image) for image in images]
        named = list(zip(images, files, labels, strict=True))
        write_shards(
            root / "digits" / split,
            [{"jpg": file, "cls": str(label).encode()} for _, file, label in named],
        )
        write_shards(
            root / "properties" / split,
            [{"jpg": file, "npy": multilabel(label)} for _, file, label in named],
        )
        write_shards(
            root / "captions" / split,
            [
                {"jpg": file, "txt": "\n".join(caption_lines(label, image)).encode()}
                for image, file, label in named
            ],
        )
        if split == "test":
            make_sugar_crepe(root / "sugar_crepe", named)
            make_winoground(root / "winoground", named)
    for name, classes in (("digits", WORDS), ("properties", [*WORDS, "odd digit", "large digit"])):
        (root / name / "classnames.txt").write_text("\n".join(classes) + "\n")
        templates = "\n".join(TEMPLATES) + "\n"
        (root / name / "zeroshot_classification_templates.txt").write_text(templates)
    (root / "properties" / "dataset_type.txt").write_text("multilabel\n")
    (root / "captions" / "dataset_type.txt").write_text("retrieval\n")


def make_pictures(directory, count=2000):
    """Write a data set of many small pictures of shapes."""
    drawn = pictures(count, seed=4)
    samples = [{"jpg": one.file, "cls": one.label_text} for one in drawn]
    write_shards(directory / "test", samples)
    (directory / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
    lines = "\n".join(SHAPE_TEMPLATES) + "\n"
    (directory / "zeroshot_classification_templates.txt").write_text(lines)


def make_sugar_crepe(root, named):
    """Write a data set as SugarCrepe has it: images of COCO, and a file of captions."""
    (root / "val2017").mkdir(parents=True)
    entries = {}
    for number, (image, file, label) in enumerate(named):
        (root / "val2017" / f"{number:012d}.jpg").write_bytes(file)
        entries[str(number)] = {
            "filename": f"{number:012d}.jpg",
            "caption": caption_lines(label, image)[0],
            "negative_caption": caption_lines((label + 3) % 10, image)[0],
        }
    (root / "add_att.json").write_text(json.dumps(entries))


def make_winoground(root, named):
    """Write a data set as Winoground has it: pairs of images and captions."""
    from PIL import Image

    (root / "images").mkdir(parents=True)
    lines = []
    for number in range(0, len(named) - 1, 2):
        entry = {}
        for which in (0, 1):
            image, _, label = named[number + which]
            name = f"ex_{number // 2}_img_{which}"
            Image.fromarray(image).save(root / "images" / f"{name}.png")
            entry[f"image_{which}"] = name
            entry[f"caption_{which}"] = caption_lines(label, image)[1]
        lines.append(json.dumps(entry))
    (root / "examples.jsonl").write_text("\n".join(lines) + "\n")


def make_checkpoint(architecture, file):
    """Save random weights whose image features are turned towards those of digits' names."""
    import open_clip
    import torch

    open_clip.add_model_config(ARCHITECTURES)
    torch.manual_seed(7)
    network, _, transform = open_clip.create_model_and_transforms(architecture)
    if hasattr(network, "generate"):
        teach(network, transform, open_clip.get_tokenizer(architecture))
    else:
        align(network, transform, open_clip.get_tokenizer(architecture))
    torch.save(network.state_dict(), file)


def align(network, transform, tokenizer):
    """Turn the features of digits towards those of their names, so that scores are not chance."""
    import torch
    from PIL import Image

    images, labels = digits("train")
    batches = torch.stack([transform(Image.fromarray(one)) for one in images]).split(50)
    prompts = tokenizer([f"a photo of the number {word}." for word in WORDS])
    with torch.inference_mode():
        calibrate(network, batches)
        turn(network, batches, apart(network.encode_text(prompts))[labels])


def teach(network, transform, tokenizer, steps=300, images_per_step=32):
    """Train a CoCa model to write the captions of digits, so that scores are not chance.

    Only the tokens of these captions are trained; the logit of all others is zero.
    """
    import torch
    from PIL import Image

    images, labels = digits("train")
    inputs = torch.stack([transform(Image.fromarray(one)) for one in images])
    pairs = zip(labels, images, strict=True)
    tokens = tokenizer([caption_lines(label, image)[0] for label, image in pairs])[:, :TAUGHT]
    used, places = tokens.unique(return_inverse=True)
    whole = network.text_decoder.text_projection.detach()
    taught = torch.nn.Parameter(whole[:, used].clone())
    network.text_decoder.text_projection = taught
    adam = torch.optim.Adam(network.parameters(), 2e-3)
    others = torch.tensor(float(whole.shape[1] - len(used))).log()
    network.train()
    for _ in range(steps):
        chosen = torch.randperm(len(inputs))[:images_per_step]
        logits = network(inputs[chosen], tokens[chosen])["logits"]
        logits = torch.cat([logits, others.expand_as(logits[..., :1])], dim=-1)
        wanted = places[chosen][:, 1:]
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), ignore_index=0
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
    network.eval()
    whole = torch.zeros_like(whole)
    whole[:, used] = taught.detach()
    network.text_decoder.text_projection = torch.nn.Parameter(whole)


def apart(features):
    """Return unit vectors of texts from their mean: float64 of shape (texts, dimensions)."""
    import torch

    features = torch.nn.functional.normalize(features, dim=-1).double()
    return torch.nn.functional.normalize(features - features.mean(dim=0), dim=-1)


def turn(network, batches, targets):
    """Set the last projection of images by ridge regression.

    Args:
        network: whose projection is changed.
        batches: normalised images.
        targets: what the features of each image shall be: float64 of shape (images, dimensions).
    """
    import torch

    features = torch.cat([network.encode_image(batch) for batch in batches]).double()
    scale = features.T @ features
    ridge = 1e-4 * scale.diagonal().mean() * torch.eye(len(scale), dtype=torch.float64)
    turned = torch.linalg.solve(scale + ridge, features.T @ targets).float()
    visual = network.visual
    if hasattr(visual, "proj"):
        visual.proj.copy_(visual.proj @ turned)
    else:
        last = visual.attnpool.c_proj
        last.weight.copy_(turned.T @ last.weight)
        last.bias.copy_(last.bias @ turned)


def calibrate(network, batches):
    """Give batch normalisation the statistics of the images; a ViT has none."""
    import torch

    layers = [one for one in network.modules() if isinstance(one, torch.nn.BatchNorm2d)]
    for one in layers:
        one.momentum = None
    if layers:
        network.train()
        for batch in batches:
            network.encode_image(batch)
    network.eval()


def main():
    """Make what is asked for: a directory, and architectures."""
    root = Path(sys.argv[1])
    if not (root / "sets").exists():
        make_sets(root / "sets")
    if not (root / "sets" / "pictures").exists():
        make_pictures(root / "sets" / "pictures")
    for architecture in sys.argv[2:]:
        file = root / f"{architecture}.pt"
        if not file.exists():
            make_checkpoint(architecture, file)


if __name__ == "__main__":
    main()
