"""Adapters that cheat, each in one way. Every one of them must end `invalid`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from skymark.suites.loading.adapter import Loader, LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference


class Cheat(NumpyReference):
    """A NumPy loop whose batches pass through `cheat`."""

    requirements = ()

    def open(self, job: LoadingJob) -> Loader:
        cheat = self.cheat

        class Cheating(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                return cheat(self, super().epoch(epoch, skip_batches), epoch)

        return Cheating(self.change(job))

    def change(self, job: LoadingJob) -> LoadingJob:
        return job

    def cheat(self, loader: NumpyLoader, batches: Iterator[dict], epoch: int) -> Iterator[dict]:
        return batches


class SkipsNormalise(Cheat):
    slug = "skips-normalise"

    def open(self, job: LoadingJob) -> Loader:
        class WithoutNormalise(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                stages = [s for s in job.scenario.stages() if s.name != "normalise"]
                order = self.order(epoch)
                for start in range(0, len(order), job.batch_size):
                    elements = []
                    for index in order[start : start + job.batch_size]:
                        element = self.reader[index]
                        for stage in stages:
                            element = stage.apply(element, job.scenario.parameters(epoch, index))
                        image = np.asarray(element["image"], np.float32)
                        elements.append({**element, "image": image})
                    yield job.collate(elements)

        return WithoutNormalise(job)


class DropsTail(Cheat):
    slug = "drops-tail"

    def change(self, job: LoadingJob) -> LoadingJob:
        return dataclasses.replace(job, drop_last=True)


class RepeatsElement(Cheat):
    slug = "repeats-element"

    def cheat(self, loader, batches, epoch):
        for number, batch in enumerate(batches):
            if number == 1:
                repeated = {name: np.array(value) for name, value in batch.items()}
                for value in repeated.values():
                    value[1] = value[0]
                yield repeated
            else:
                yield batch


class ServesOneBatch(Cheat):
    slug = "serves-one-batch"

    def cheat(self, loader, batches, epoch):
        kept = list(batches)
        yield from [kept[0]] * (len(kept) - 1)
        yield kept[-1]


class IgnoresSeed(Cheat):
    slug = "ignores-seed"

    def change(self, job: LoadingJob) -> LoadingJob:
        return dataclasses.replace(job, scenario=dataclasses.replace(job.scenario, seed=0), seed=0)


class CropsCentre(Cheat):
    slug = "crops-centre"

    def change(self, job: LoadingJob) -> LoadingJob:
        side = job.scenario.size["side"]

        def cut_centre(element, parameters):
            image = element["image"]
            edge = min(image.size)
            left, top = ((length - edge) // 2 for length in image.size)
            image = image.crop((left, top, left + edge, top + edge)).resize((side, side), 2)
            return {**element, "image": image}

        class CentreCrop(type(job.scenario)):
            def stages(self):
                return tuple(
                    stage._replace(apply=cut_centre) if stage.name == "crop" else stage
                    for stage in super().stages()
                )

        scenario = CentreCrop(job.scenario.size, job.scenario.seed, job.scenario.axes)
        return dataclasses.replace(job, scenario=scenario)


class ShufflesLabels(Cheat):
    slug = "shuffles-labels"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            yield {**batch, "label": np.roll(batch["label"], 1)}


class CastsDown(Cheat):
    slug = "casts-down"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            image = batch["image"].astype(np.float16).astype(np.float32)
            yield {**batch, "image": image}


class TakesAnotherRank(Cheat):
    slug = "takes-another-rank"

    def change(self, job: LoadingJob) -> LoadingJob:
        return dataclasses.replace(job, rank=0)


class Hangs(Cheat):
    slug = "hangs"

    def cheat(self, loader, batches, epoch):
        import time

        yield next(batches)
        time.sleep(3600)


class Leaks(Cheat):
    slug = "leaks"

    def cheat(self, loader, batches, epoch):
        import subprocess

        subprocess.Popen(["sleep", "3600"], start_new_session=True)
        return batches


class Dies(Cheat):
    slug = "dies"

    def cheat(self, loader, batches, epoch):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        return batches


class Prints(Cheat):
    slug = "prints"

    def cheat(self, loader, batches, epoch):
        import os

        print("a library that talks")
        os.write(1, b'{"event": "measured"}\n')
        return batches


class Raises(Cheat):
    slug = "raises"

    def cheat(self, loader, batches, epoch):
        raise RuntimeError("the library is broken")
