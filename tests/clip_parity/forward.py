"""CPU time of the encoders alone, on tensors that are ready: the floor of any evaluation.

Runs with the interpreter of the clip suite's environment. Each line of standard input is a cell's
specification; each answer is a line of JSON with seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from skymark.suites.clip.specification import ClipSpecification


def main() -> None:
    """Time all cells of one model, in one thread."""
    import open_clip
    import torch

    torch.set_num_threads(1)

    from skymark.suites.clip.encoding.encoder import Encoder, Settings
    from skymark.suites.clip.encoding.loading import load_model
    from skymark.suites.clip.scoring import Scorer

    open_clip.add_model_config(Path(__file__).with_name("architectures"))
    scorer = Scorer(Path(sys.argv[1]))
    encoder: Encoder | None = None
    for line in sys.stdin:
        specification = ClipSpecification.model_validate_json(line)
        if encoder is None:
            settings = Settings("fp32", 64, compile=False, channels_last=False, drop_text_tail=True)
            loaded = load_model(specification.model, torch.device("cpu"), 0)
            encoder = Encoder(loaded, settings)
        opened = scorer.with_pixels(specification, scorer.opened(specification), encoder)
        texts = list(scorer.expected_texts(specification, opened))
        (pixels,) = opened.pixels
        ready = [
            encoder.image_tensor(torch.from_numpy(pixels.read(start, start + 64)))
            for start in range(0, len(pixels), 64)
        ]
        tokens = encoder.loaded.tokenizer(texts).split(64)
        with torch.inference_mode():
            begin = time.process_time()
            for batch in ready:
                encoder.network.encode_image(batch)
            images_s = time.process_time() - begin
            begin = time.process_time()
            for batch in tokens:
                encoder.network.encode_text(batch)
            texts_s = time.process_time() - begin
        answer = {"images": images_s, "texts": texts_s}
        sys.stderr.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
