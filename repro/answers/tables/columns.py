"""Arithmetic on a table's columns: `phases.communicate + phases.wait`, `iteration_s / batch`.

Numbers, column names, + - * /, a sign, parentheses and `max(one, other)`; nothing else, and nothing is run as code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from repro.core.errors import InputError, unknown

Filter = dict[str, str | int | float | bool | list[str | int | float] | None]  # column -> its value, or one of several
Row = Mapping[str, Any]  # of a table, whose rows all have its columns
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def chosen(rows: Sequence[Row], where: Filter) -> Sequence[Row]:
    """The rows that have in every column what is asked for; InputError for a column that is not there."""
    for column, wanted in where.items():
        if rows and column not in rows[0]:
            raise unknown("column", column, rows[0])
        rows = [row for row in rows if row[column] in (wanted if isinstance(wanted, list) else [wanted])]
    return rows


def names(column: str, row: Row) -> list[str]:
    """The columns that a column is computed from; itself where the table has it."""
    return [column] if column in row else list(dict.fromkeys(_names(_parsed(column))))


def computed(rows: Sequence[Row], column: str) -> list[float]:
    """A number a row, NaN where something is not there; InputError for a column that the table lacks."""
    import numpy as np

    if not rows:
        return []
    if missing := [name for name in names(column, rows[0]) if name not in rows[0]]:
        raise unknown("column", missing[0], rows[0])
    tree = ast.Name(column) if column in rows[0] else _parsed(column)
    with np.errstate(all="ignore"):  # nothing over nothing is NaN
        return [float(_value(tree, row)) for row in rows]


@cache
def _parsed(column: str) -> ast.expr:
    try:
        tree = ast.parse(column, mode="eval").body
        _names(tree)
    except (SyntaxError, ValueError):
        raise InputError(f"column '{column}': neither a column's name nor arithmetic on columns") from None
    return tree


def _names(node: ast.expr) -> list[str]:
    """ValueError for what is no arithmetic."""
    match node:
        case ast.Name() | ast.Attribute():
            return [ast.unparse(node)]
        case ast.Constant(value=int() | float()):
            return []
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return _names(of)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            return [*_names(node.left), *_names(node.right)]
        case ast.Call(func=ast.Name(id="max"), args=[one, other], keywords=[]):
            return [*_names(one), *_names(other)]
    raise ValueError(ast.unparse(node))


def _value(node: ast.expr, row: Row) -> Any:
    """Of a tree that `_names` has let through."""
    import numpy as np

    match node:
        case ast.Constant(value=int() | float() as number):
            return np.float64(number)
        case ast.UnaryOp(operand=of):
            return -_value(of, row)
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left, row), _value(right, row))
        case ast.Call(args=[one, other]):
            return np.maximum(_value(one, row), _value(other, row))
    found = row[node.id if isinstance(node, ast.Name) else ast.unparse(node)]
    return np.float64(math.nan if found is None else found)
