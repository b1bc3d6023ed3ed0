"""From models, data sets and tasks to the cells of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from skymark.model.cell import Cell, Setting
from skymark.model.errors import UsageError
from skymark.model.plan import PlannedCell
from skymark.model.platform import Platform
from skymark.suites.clip.datasets.choosing import ChosenSet
from skymark.suites.clip.datasets.dataset import DataSet
from skymark.suites.clip.guess import guess
from skymark.suites.clip.models.choosing import SHORT_DIGEST, ChosenModel
from skymark.suites.clip.options import ENGLISH, ClipOptions, ClipSettings
from skymark.suites.clip.reading.prompt_file import Prompting
from skymark.suites.clip.specification import ClipSpecification, Model, Task

SUITE = "clip"
PROMPTED: Task = "zeroshot_classification"


@dataclass(frozen=True)
class Work:
    """A task on a data set in a language, for any model."""

    dataset: DataSet
    specification: ClipSpecification
    """Of the first model."""
    content: dict[str, JsonValue]
    """The specification as cells hold it; each model takes the place of the first."""


def planned_cells(
    models: Sequence[ChosenModel],
    sets: Sequence[ChosenSet],
    options: ClipOptions,
    settings: ClipSettings,
    platform: Platform,
) -> list[PlannedCell]:
    """Return the cells, model by model: a model's cells share a process and a machine.

    Raises:
        UsageError: no data set has a language, two cells would share a file, or the file of
            prompts does not serve.
    """
    require_languages(sets, options.languages)
    prompting = prompting_of(options, sets)
    works = [
        work_of(models[0].model, chosen.dataset, task, language, options, settings, prompting)
        for chosen in sets
        for task in chosen.tasks
        for language in languages_of(chosen, options.languages)
    ]
    shown = settings.changed
    found = [
        planned for model in models for planned in cells_of_model(model, works, shown, platform)
    ]
    require_own_files(found)
    return found


def languages_of(chosen: ChosenSet, wanted: Sequence[str]) -> list[str]:
    """Return the languages that are wanted of a data set, and that it has."""
    return [one for one in dict.fromkeys(wanted) if one in chosen.dataset.languages]


def require_languages(sets: Sequence[ChosenSet], wanted: Sequence[str]) -> None:
    """Refuse a language that would be left out.

    Raises:
        UsageError: a data set has none of the languages, or no data set has one of them.
    """
    for chosen in sets:
        if not languages_of(chosen, wanted):
            dataset = chosen.dataset
            raise UsageError(
                f"{dataset.name} is not in {' or '.join(wanted)}, but in "
                f"{', '.join(dataset.languages)}; give other --languages, or leave it out"
            )
    for language in wanted:
        if not any(language in one.dataset.languages for one in sets):
            raise UsageError(
                f"none of these data sets is in the language {language!r}; leave it out"
            )


def prompting_of(options: ClipOptions, sets: Sequence[ChosenSet]) -> Prompting | None:
    """Return the file of prompts that the user named, if any.

    Raises:
        UsageError: it cannot be read, or nothing is scored by prompts.
    """
    if options.template_file is None:
        return None
    if not any(PROMPTED in one.tasks for one in sets):
        raise UsageError(
            f"none of these data sets is classified by prompts such as those in "
            f"{options.template_file}; leave --template-file out"
        )
    return Prompting(Path(options.template_file).expanduser().resolve())


def work_of(
    model: Model,
    dataset: DataSet,
    task: Task,
    language: str,
    options: ClipOptions,
    settings: ClipSettings,
    prompting: Prompting | None,
) -> Work:
    """Return a task on a data set."""
    specification = ClipSpecification(
        model=model,
        source=dataset.source,
        task=task,
        split=options.test_split,
        language=language,
        prompt_file=prompting.entry_for(dataset.name) if prompting and task == PROMPTED else None,
        precision=settings.precision,
        batch_size=settings.batch_size,
        compile=settings.compile,
        channels_last=settings.channels_last,
        drop_text_tail=settings.drops_text_tail,
        recall_k=options.recall_k,
        linear_probe=settings.probe if task == "linear_probe" else None,
        seed=options.seed,
    )
    return Work(dataset, specification, specification.json_content())


def cells_of_model(
    model: ChosenModel,
    works: Sequence[Work],
    settings: Mapping[str, Setting],
    platform: Platform,
) -> Iterator[PlannedCell]:
    """Yield a model's cells with their process, their machine and their time."""
    key = group_of(model.model)
    own = {"model": model.model.model_dump(mode="json")}
    files = tuple(filter(None, [model.model.weights.file]))
    for work in works:
        prompt_file = work.specification.prompt_file
        own_files = files if prompt_file is None else (*files, prompt_file.path)
        yield PlannedCell(
            cell=Cell(
                suite=SUITE,
                scenario=work.dataset.name,
                variant=work.specification.task,
                adapter=model.name,
                axes=axes_of(work.specification),
                settings=dict(settings),
                specification={**work.content, **own},
            ),
            group=key,
            shard_key=key,
            guess=guess(work.specification, work.dataset, model.sizes, platform),
            local_files=(*work.dataset.local_files, *own_files),
        )


def axes_of(specification: ClipSpecification) -> dict[str, Setting]:
    """Return what tells cells of one model, data set and task apart: language and prompts."""
    found: dict[str, Setting] = {}
    if specification.language != ENGLISH:
        found["language"] = specification.language
    if (file := specification.prompt_file) is not None:
        found["prompts"] = f"{Path(file.path).stem}@{file.sha256[:SHORT_DIGEST]}"
    return found


def group_of(model: Model) -> str:
    """Return the name of a model's process: all its data sets and tasks run in one."""
    return f"{model.architecture}:{model.weights.tag or model.weights.sha256}"


def require_own_files(planned: Sequence[PlannedCell]) -> None:
    """Refuse cells whose results would lie in one file.

    Raises:
        UsageError: two names differ only in characters that no file name has.
    """
    seen: dict[str, Cell] = {}
    for one in planned:
        other = seen.setdefault(one.cell.id, one.cell)
        if other is not one.cell:
            raise UsageError(
                f"{other.scenario} and {one.cell.scenario} on {one.cell.adapter} would share a "
                "file; rename one of the directories, or score them in two runs"
            )
