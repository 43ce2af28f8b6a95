"""An annotator that wants a GPU gets one where a cluster has some."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from datalake.pipelines.ray_executor import RayExecutor


class WithGpus(RayExecutor):
    """Says that this machine has a GPU; Ray takes its word."""

    def _init(self, address: str | None) -> None:
        import ray

        ray.init(
            address="local", num_cpus=2, num_gpus=1, object_store_memory=128 << 20,
            include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False,
        )  # fmt: skip


@dataclass
class Seen:
    index: int
    devices: str


@dataclass(frozen=True)
class Look:
    num_gpus: float

    def stage(self, index: int) -> Seen:
        return Seen(index, os.environ.get("CUDA_VISIBLE_DEVICES", ""))


def test_a_job_that_wants_a_gpu_sees_one() -> None:
    with WithGpus() as executor:
        for wanted, devices in ((0.5, "0"), (0.0, "")):
            seen = list(executor.run(Look(wanted), 3))
            assert {each.devices for each in seen} == {devices}
