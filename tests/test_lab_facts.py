"""Dated facts: every entry has its document and date, and one past its shelf life says so."""

from __future__ import annotations

import re
import warnings
from datetime import date, timedelta
from pathlib import Path

import pytest

from modelcall.lab import facts
from modelcall.lab.paths import data_file

GOOD = """[[fact]]
id = "device.x.label"
value = { capacity_GB = 80 }
title = "X data sheet"
where = "page 2"
published = "2023-05"
checked = 2026-01-01
shelf_life_days = 30
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "facts.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_book_s_facts_are_whole_and_dated() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", facts.StaleFact)
        found = facts.load()
    assert len(found) >= 18 and list(found) == list(facts.known())
    for each in found.values():
        assert re.fullmatch(r"(model|device|format|engine)\.[a-z0-9.-]+", each.id)
        assert len(each.title) > 10 and len(each.where) > 5, each.id
        assert each.checked <= date.today() + timedelta(days=1), each.id
        assert 365 <= each.shelf_life_days <= 1825, each.id


def test_a_fact_past_its_shelf_life_warns_with_the_document(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    last = date(2026, 1, 31)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert facts.fact("device.x.label", path, today=last).expires == last
        assert list(facts.load(path, today=last)) == ["device.x.label"]
    late = last + timedelta(days=1)
    for read in (
        lambda: facts.load(path, today=late)["device.x.label"],
        lambda: facts.fact("device.x.label", path, today=late),
    ):
        with pytest.warns(facts.StaleFact, match=r"device\.x\.label: checked on 2026-01-01.*X data sheet"):
            assert read().value == {"capacity_GB": 80}
    assert [each.id for each in facts.stale(facts.load(path, today=last), late)] == ["device.x.label"]


def test_today_is_the_default(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("2023-05", "1999").replace("2026-01-01", "2000-01-01"))
    with pytest.warns(facts.StaleFact):
        facts.load(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "device.x.label"', 'id = "X"', "id: String should match"),
        ("shelf_life_days = 30", "shelf_life_days = 0", "shelf_life_days: Input should be greater"),
        ("shelf_life_days = 30", "", "shelf_life_days: Field required"),
        ('title = "X data sheet"', 'title = " "', "title: .*expected some words"),
        ("value = { capacity_GB = 80 }", "value = {}", "value: Dictionary should have at least 1"),
        ("value = { capacity_GB = 80 }", "value = { capacity_GB = [80] }", "value"),
        ('published = "2023-05"', 'published = "May 2023"', "published: String should match"),
        ('published = "2023-05"', 'published = "2027"', "before it was published"),
        ("checked = 2026-01-01", 'checked = "2026-01-01"', "checked: Input should be a valid date"),
        ("shelf_life_days = 30", "shelf_life_days = 30\nprice = 3", "price: Extra inputs"),
        ("[[fact]]", "[[fakt]]", r"expected \[\[fact\]\] tables"),
        ("[[fact]]", "fact = 3\n[other]", r"expected \[\[fact\]\] tables"),
        ('title = "X data sheet"', "title = ", "not TOML"),
    ],
)
def test_what_is_no_fact_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(facts.FactsError, match=message) as caught:
        facts.load(path, today=date(2026, 1, 2))
    assert "facts.toml" in str(caught.value)


def test_twice_and_absent(tmp_path: Path) -> None:
    with pytest.raises(facts.FactsError, match=r"device\.x\.label: is there twice"):
        facts.load(written(tmp_path, GOOD + "\n" + GOOD))
    with pytest.raises(facts.FactsError, match="No such file"):
        facts.load(tmp_path / "none.toml")
    with pytest.raises(facts.FactsError, match=r"no fact 'device\.y'; there are device\.a100-80\.label"):
        facts.fact("device.y", today=date(2026, 12, 1))


def test_a_data_file_that_is_not_there_says_where_it_was_looked_for() -> None:
    with pytest.raises(FileNotFoundError, match=r"no data file 'x\.toml'; looked in .* and "):
        data_file("x.toml")
