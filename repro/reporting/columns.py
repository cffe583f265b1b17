"""Arithmetic on a table's columns: `phases.communicate + phases.wait`, `iteration_s / batch`.

Numbers, column names, + - * /, a sign, parentheses and `max(one, other)`; nothing else, and nothing is run as code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from repro.common.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def names(column: str, rows: pd.DataFrame) -> list[str]:
    """The columns that a column is computed from; itself where the table has it."""
    return [column] if column in rows else list(dict.fromkeys(_names(_parsed(column))))


def computed(rows: pd.DataFrame, column: str) -> pd.Series:
    """A float a row, NaN where something is not there; InputError for a column that the table lacks."""
    if missing := [name for name in names(column, rows) if name not in rows]:
        raise unknown("column", missing[0], rows.columns)
    return _floats(rows[column]) if column in rows else _value(_parsed(column), rows)


def _floats(values: pd.Series) -> pd.Series:
    import pandas as pd

    return pd.Series(values.astype("Float64").to_numpy(dtype=float, na_value=math.nan), index=values.index)


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


def _value(node: ast.expr, rows: pd.DataFrame) -> Any:
    """Of a tree that `_names` has let through."""
    import numpy as np

    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(operand=of):
            return -_value(of, rows)
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left, rows), _value(right, rows))
        case ast.Call(args=[one, other]):
            return np.maximum(_value(one, rows), _value(other, rows))
    return _floats(rows[ast.unparse(node)])
