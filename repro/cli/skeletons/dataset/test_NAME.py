"""Tests of the loader, with small files of the real format, and of the stand-in."""

import numpy as np

from repro import data


def test_the_files_are_read(tmp_path):
    (tmp_path / "NAME").mkdir()
    for part, n in (("train", 20), ("test", 10)):
        x, y = np.random.rand(n, 1, 8, 8).astype("f4"), np.arange(n) % 10
        np.savez(tmp_path / "NAME" / f"{part}.npz", x=x, y=y)
    whole, part = data.load_dataset("NAME", str(tmp_path)), data.load_dataset("NAME", str(tmp_path), samples=5)
    assert (whole.name, len(whole.train), len(whole.test), len(part.train)) == ("NAME", 20, 10, 5)
    assert not whole.standin and whole.checksum == part.checksum and part.name != whole.name


def test_without_them_there_is_a_standin(tmp_path):
    made = data.load_dataset("NAME", str(tmp_path), standin="always")
    assert made.standin and made.name == "NAME-standin-seeded" and made.input_shape == (1, 8, 8)
