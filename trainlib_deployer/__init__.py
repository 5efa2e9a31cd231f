"""Deploy the training of a PyTorch network on a PULP cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainlib_deployer.version import __version__

if TYPE_CHECKING:
    from trainlib_deployer.api import Deployment, deploy, sweep
    from trainlib_deployer.run.session import Session
    from trainlib_deployer.tune.asked import Tune

__all__ = ["Deployment", "Session", "Tune", "__version__", "deploy", "sweep"]
PLACES = {"Deployment": "api", "Session": "run.session", "Tune": "tune.asked", "deploy": "api", "sweep": "api"}


def __getattr__(name: str) -> Any:
    """What brings PyTorch along is imported when first asked for."""
    if name in PLACES:
        return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext trainlib_deployer` in a notebook."""
    from trainlib_deployer.notebook.magics import Deploy

    shell.register_magics(Deploy)


def __dir__() -> list[str]:
    return sorted(__all__)
