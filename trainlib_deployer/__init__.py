"""Deploy the training of a PyTorch network on a PULP cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainlib_deployer.version import __version__

if TYPE_CHECKING:
    from trainlib_deployer.api import Deployment, deploy, sweep

__all__ = ["Deployment", "__version__", "deploy", "sweep"]


def __getattr__(name: str) -> Any:
    """What brings PyTorch along is imported when first asked for."""
    if name in ("deploy", "Deployment", "sweep"):
        from trainlib_deployer import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
