"""Work on one field of an element, for stages that draw nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Parameters


def on(
    field: str, work: Callable[[Any], Any], into: str | None = None
) -> Callable[[Element, Parameters], Element]:
    """Return a stage's `apply` that replaces a field by ``work(field)``.

    Args:
        field: what the work reads.
        work: called with the field's value.
        into: the result's name where it is another; `field` is then dropped.
    """

    def apply(element: Element, parameters: Parameters) -> Element:
        del parameters
        if into is None:
            return {**element, field: work(element[field])}
        kept = {name: value for name, value in element.items() if name != field}
        return {**kept, into: work(element[field])}

    return apply
