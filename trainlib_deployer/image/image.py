"""Everything that a build puts into memory, by what it is: of a firmware, and of the verification run besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainlib_deployer.machine.build import TENSORS, Bank, Build

FIRMWARE, RUN = "firmware", "verification run"


@dataclass(frozen=True)
class Share:
    """Bytes of one kind; `only` a firmware or a verification run may have them."""

    what: str
    kind: str
    size: int
    only: str = ""


@dataclass(frozen=True)
class Image:
    """What a build brings, and the link script that places it."""

    build: Build
    shares: tuple[Share, ...]

    def of_firmware(self, planned: int) -> int:
        """Bytes of the outer memory, `planned` ones of tensors among them."""
        return self.placed(self.build.outer, planned, FIRMWARE)

    def beside(self, planned: int) -> int:
        """Bytes of the outer memory that are not the plan's."""
        return self.of_firmware(planned) - planned

    def of_run(self, planned: int) -> int:
        return self.placed(self.build.outer, planned, RUN)

    @property
    def flash(self) -> int:
        return self.placed(self.build.flash, 0, FIRMWARE)

    @property
    def flash_of_run(self) -> int:
        return self.placed(self.build.flash, 0, RUN)

    def placed(self, banks: Sequence[Bank], planned: int, of: str) -> int:
        sizes = Counter({TENSORS: planned})
        for share in self.shares:
            sizes[share.kind] += share.size if share.only in ("", of) else 0
        end = 0
        for bank in banks:
            end = max(end, bank.begins) + bank.own + sum(sizes[kind] for kind in bank.holds)
        return end

    def rows(self, banks: Sequence[Bank], planned: int) -> list[dict[str, Any]]:
        """What lies in a memory, line by line."""
        merged: dict[tuple[str, str, str], int] = {}
        for s in self.shares:
            merged[s.what, s.kind, s.only] = merged.get((s.what, s.kind, s.only), 0) + s.size
        kinds = {kind for bank in banks for kind in bank.holds}
        found = [(w, k, size, only) for (w, k, only), size in merged.items() if k in kinds and size]
        own = sum(bank.own for bank in banks)
        brought = sum(size for _, _, size, only in found if only != RUN)
        gaps = self.placed(banks, planned, FIRMWARE) - planned - own - brought
        found = [("the plan's tensors", TENSORS, planned, ""), *found]
        found += [("the SDK or back end", "", own, ""), ("between banks", "", gaps, "")]
        return [{"what": w, "kind": k, "bytes": size, "only": only} for w, k, size, only in found if size]
