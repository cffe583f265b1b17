"""`repro data`, `repro doctor`: data sets and software on this machine."""

from __future__ import annotations

import argparse
import json
from typing import Any

from repro.cli.options import as_json
from repro.core.errors import InputError


def add_commands(commands: Any) -> None:
    datasets = commands.add_parser("data", help="list, fetch or verify data sets")
    datasets.add_argument("action", choices=["list", "fetch", "verify"])
    datasets.add_argument("name", nargs="?", help="data set to fetch or verify")
    as_json(datasets)
    datasets.set_defaults(command=cmd_data)

    doctor = commands.add_parser("doctor", help="check the software and devices of this machine")
    as_json(doctor)
    doctor.set_defaults(command=cmd_doctor)


def cmd_data(args: argparse.Namespace) -> None:
    from repro import data
    from repro.data import fetch

    if args.action == "fetch":
        if not args.name:
            raise InputError("repro data fetch needs a name: " + ", ".join(data.dataset_names()))
        try:
            folder = data.load_source(args.name).find(None)
        except InputError:  # damaged: fetch a copy into the cache
            folder = None
        print(folder or fetch.fetch_dataset(args.name))
    elif args.action == "verify":
        present = [row["name"] for row in data.dataset_status() if row["ok"] is not None]
        if not present and not args.name:
            raise InputError("no data set is on this machine; `repro data list` prints where each is searched")
        for name in [args.name] if args.name else present:
            folder = data.verify_dataset(name)
            result = "checksums match" if data.load_source(name).FILES else "train/ and val/ exist"
            print(f"{name}: {folder}: {result}")
    elif args.json:
        print(json.dumps(data.dataset_status(), indent=1))
    else:
        for row in data.dataset_status():
            absent = f"not found; stand-in: {row['standin']}" if row["standin"] else "no files needed"
            place = row["where"] or absent
            print(f"{row['name']:10} {row['megabytes']:7.1f} MB  {place}  ({row['detail']})")


def cmd_doctor(args: argparse.Namespace) -> None:
    from repro.cli import doctor

    rows = doctor.check_machine()
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        hint = f"  -> {row['hint']}" if not row["ok"] and row["hint"] else ""
        print(f"{'ok ' if row['ok'] else '-- '} {row['name']:16} {row['detail']}{hint}")
