"""Sizes and machines as people write them."""

from __future__ import annotations

import pytest

from trainlib_deployer.errors import UsageError
from trainlib_deployer.machine.sizes import parse_size, show_size
from trainlib_deployer.machine.targets import TARGETS, resolve


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        (65536, 65536),
        ("64k", 65536),
        ("64K", 65536),
        ("64KiB", 65536),
        ("64kb", 65536),
        ("64 kB", 65536),
        (" 2M ", 2 << 20),
        ("2MiB", 2 << 20),
        ("1g", 1 << 30),
        ("0", 0),
        ("100b", 100),
        ("7", 7),
    ],
)
def test_parse(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "k", "64q", "-1", "1.5k", "64 k k", "0x40", "64kk", "4g", "99999999999", "1e3", "64,000", "٦٤k"]
)
def test_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--l1"):
        parse_size(text, "--l1")


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 65536, 3 << 19, 2 << 20, 1 << 30, (1 << 20) + 1])
def test_show_reads_back(size: int) -> None:
    assert parse_size(show_size(size)) == size


def test_show_is_short() -> None:
    assert [show_size(n) for n in (65536, 3 << 19, 2 << 20, 1000)] == ["64k", "1536k", "2M", "1000"]


def test_default_target() -> None:
    assert resolve() == TARGETS["pulp-open"]
    assert resolve(cores=8, l1="64k") == TARGETS["pulp-open"]


def test_overrides() -> None:
    ours = resolve(None, "5", "48k", "1M")
    assert (ours.name, ours.cores, ours.inner.size, ours.outer.size) == ("custom", 5, 48 << 10, 1 << 20)
    gap9 = resolve("gap9", cores=3)
    assert (gap9.name, gap9.cores, gap9.inner.size) == ("gap9", 3, 128 << 10)


@pytest.mark.parametrize("cores", ["0", "17", "-1", "2.5", "many", "", "1_0", "٨", "1e1"])
def test_cores_refused(cores: str) -> None:
    with pytest.raises(UsageError, match="--cores"):
        resolve(cores=cores)


def test_unknown_target_names_the_known() -> None:
    with pytest.raises(UsageError) as err:
        resolve("gap8")
    assert "gap9" in err.value.render()


def test_the_sdk_keeps_its_part_of_the_l1_of_a_chip_by_name() -> None:
    assert resolve(cores=5, l1="64k").inner.reserved == TARGETS["pulp-open"].inner.reserved > 0
    assert resolve(l1="48k").inner.reserved == 0
    assert resolve("siracusa", l1="64k").inner.reserved == TARGETS["siracusa"].inner.reserved > 0
