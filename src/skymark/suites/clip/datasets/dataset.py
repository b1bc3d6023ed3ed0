"""A data set as plans know it: its place, the tasks that it serves, and its size."""

from __future__ import annotations

from skymark.model.base import Frozen
from skymark.model.data_taken import DataTaken
from skymark.suites.clip.specification import Source, Task


class DataSet(Frozen):
    """A data set that can be scored."""

    title: str
    source: Source
    task: Task
    """Its own task."""
    multilabel: bool = False
    languages: tuple[str, ...] = ("en",)
    """Of class names and templates, or of captions."""
    classes: int | None = None
    prompts: int | None = None
    """Templates per class."""
    images: int | None = None
    """Of the test split."""
    texts: int | None = None
    """Captions of the test split; None where prompts are made of classes."""
    local_files: tuple[str, ...] = ()
    taken: DataTaken | None = None
    """Account of a folder's images; None where they are not counted before they are read."""
    damaged: tuple[str, ...] = ()
    """Faults of elements that were seen without reading them."""

    @property
    def name(self) -> str:
        """As cells call it."""
        return self.source.name

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that it serves, its own first; one with several labels trains no probe."""
        if self.task == "zeroshot_classification" and not self.multilabel:
            return (self.task, "linear_probe")
        return (self.task,)
