"""Answers to GraphQL requests without a schema: every field is looked up by its name."""

from __future__ import annotations

from typing import Any

from graphql import (
    FragmentDefinitionNode,
    OperationDefinitionNode,
    SelectionSetNode,
    parse,
)
from graphql.utilities import value_from_ast_untyped as value_of


class Request:
    """One request, and what it asks for."""

    def __init__(self, text: str, variables: dict[str, Any], operation: str | None) -> None:
        document = parse(text)
        self.fragments = {
            one.name.value: one
            for one in document.definitions
            if type(one) is FragmentDefinitionNode
        }
        (self.asked,) = [
            one
            for one in document.definitions
            if type(one) is OperationDefinitionNode
            and operation in {None, one.name and one.name.value}
        ]
        defaults = {
            one.variable.name.value: value_of(one.default_value)
            for one in self.asked.variable_definitions or ()
            if one.default_value is not None
        }
        self.variables = defaults | variables

    @property
    def is_mutation(self) -> bool:
        """Whether it changes something."""
        return self.asked.operation.value == "mutation"

    def answer(self, root: dict[str, Any]) -> dict[str, Any]:
        """Return the fields asked for; a value that can be called gets the field's arguments."""
        return self._select(root, self.asked.selection_set, {})

    def _included(self, node: Any) -> bool:
        return all(
            value_of(one.arguments[0].value, self.variables) == (one.name.value == "include")
            for one in node.directives or ()
        )

    def _select(self, source: Any, selections: SelectionSetNode, answer: dict[str, Any]) -> Any:
        for node in filter(self._included, selections.selections):
            if node.kind == "fragment_spread":
                self._select(source, self.fragments[node.name.value].selection_set, answer)
            elif node.kind == "inline_fragment":
                self._select(source, node.selection_set, answer)
            else:
                value = source.get(node.name.value)
                if callable(value):
                    given = {
                        one.name.value: value_of(one.value, self.variables)
                        for one in node.arguments or ()
                    }
                    value = value(**given)
                answer[(node.alias or node.name).value] = self._below(value, node)
        return answer

    def _below(self, value: Any, node: Any) -> Any:
        if isinstance(value, list):
            return [self._below(one, node) for one in value]
        if value is None or node.selection_set is None:
            return value
        return self._select(value, node.selection_set, {})
