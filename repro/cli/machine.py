"""`repro data`, `repro doctor`: data sets and software of this machine."""

from __future__ import annotations

import argparse
import json
from typing import Any

from repro.cli.options import as_json
from repro.core.errors import InputError


def add(commands: Any) -> None:
    datasets = commands.add_parser("data", help="list, fetch or verify data sets")
    datasets.add_argument("action", choices=["list", "fetch", "verify"])
    datasets.add_argument("name", nargs="?", help="data set to fetch or verify")
    as_json(datasets)
    datasets.set_defaults(command=cmd_data)

    doctor = commands.add_parser("doctor", help="check what this machine has and lacks")
    as_json(doctor)
    doctor.set_defaults(command=cmd_doctor)


def cmd_data(args: argparse.Namespace) -> int:
    from repro import data
    from repro.data import fetch

    if args.action == "fetch":
        if not args.name:
            raise InputError("repro data fetch needs a name: " + ", ".join(data.names()))
        try:
            folder = data.module(args.name).find(None)
        except InputError:  # not whole: the cache gets a copy that is
            folder = None
        print(folder or fetch.fetch(args.name))
        return 0
    if args.action == "verify":
        there = [row["name"] for row in data.status() if row["ok"] is not None]
        if not there and not args.name:
            raise InputError("no data set is on this machine; `repro data list` says where each is looked for")
        for name in [args.name] if args.name else there:
            folder = data.verify(name)
            right = "checksums right" if data.module(name).FILES else "train/ and val/ are there"
            print(f"{name}: {folder}: {right}")
        return 0
    rows = data.status()
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            absent = f"not found; stand-in: {row['standin']}" if row["standin"] else "nothing to find"
            place = row["where"] or absent
            print(f"{row['name']:10} {row['megabytes']:7.1f} MB  {place}  ({row['detail']})")
    return 0


def cmd_doctor(args: argparse.Namespace) -> int:
    from repro.cli import doctor

    rows = doctor.check()
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            hint = f"  -> {row['hint']}" if not row["ok"] and row["hint"] else ""
            print(f"{'ok ' if row['ok'] else '-- '} {row['name']:16} {row['detail']}{hint}")
    return 0
