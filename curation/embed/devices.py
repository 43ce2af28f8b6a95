"""Where a model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datalake.errors import ConfigError, MissingPackageError

if TYPE_CHECKING:
    import torch

__all__ = ["load_torch", "on_device"]


def load_torch(purpose: str) -> None:
    """See that torch is installed.

    Raises:
        MissingPackageError: it is not.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingPackageError.of("torch", "torch", purpose) from error


def on_device(name: str) -> torch.device:
    """The device of that name; for `auto` CUDA where there is one.

    Where one is found, matrix products keep float32: TF32 would move embeddings by 1e-3.

    Raises:
        ConfigError: there is no such device here.
        MissingPackageError: torch is not installed.
    """
    load_torch("This embedder")
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f"The device {name} is not known", expected="auto, cpu, cuda or cuda:N"
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"There is no device {name} here",
            found=f"{torch.cuda.device_count()} CUDA devices",
            fix="Use --device auto or --device cpu",
        )
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    return device
