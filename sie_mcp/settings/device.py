"""Settings: the device that a worker computes on, and the memory that models may take."""

from typing import Literal

from pydantic import BaseModel, Field

from sie_mcp.setting_types import GpuPaths, Names


class DeviceSettings(BaseModel):
    """What runs where, how, and who stays."""

    device: str = Field(
        default="auto",
        description="auto, cpu, mps, cuda (all there are), cuda:N, or several with commas.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16", "int8", "fp8"] = Field(
        default="auto",
        description="auto: float32 on CPU, bfloat16 on CUDA. Less than float32 on a CPU only for "
        "models that agree with it; int8: of linear layers, on a CPU alone; fp8: of linear layers, "
        "on CUDA alone. A model's own dtype in catalogue_file comes first.",
    )
    cpu_backend: Literal["torch", "openvino"] = Field(
        default="torch",
        description="Whose kernels compute encoders on a CPU; openvino: of BERT-like models that "
        "agree with torch's float32, the extra of that name installed.",
    )
    gpu_paths: GpuPaths = Field(
        default=("kernels", "graphs", "overlap"),
        description="Faster ways on CUDA, each checked as a model loads and off where it differs: "
        "kernels (our own), graphs (recorded passes), overlap (batches launched ahead), or none.",
    )
    retry_nonfinite: bool = Field(
        default=True,
        description="Run an item again in float32 whose numbers outgrow a smaller dtype.",
    )
    memory_budget: str = Field(
        default="0.8",
        description="Bytes for models per device: a fraction of what is free at start, or 6GiB.",
    )
    host_memory_budget: str = Field(
        default="auto",
        description="Host memory for models off the device: a fraction of what is free, or 6GiB; "
        "auto: 0.5 for CUDA, else 0.",
    )
    eviction: Literal["lru", "greedy_dual"] = Field(
        default="lru",
        description="Who leaves first: the longest unused, or whose bytes save least loading.",
    )
    model_idle_s: float = Field(
        default=0.0, ge=0, description="A model unused for so long leaves its device; 0: never."
    )
    preload: Names = Field(default=(), description="Models brought up when the worker starts.")
    pinned: Names = Field(default=(), description="The same, and these never leave.")
    allow_model_control: bool = Field(
        default=False,
        description="Callers over TCP may load, pin and unload; over the local socket they may.",
    )
    num_threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads of one forward; default: the processors the container may use.",
    )
    allow_remote_code: Names = Field(
        default=(),
        description="Models, by exact name or hub id, whose own code may be fetched and run.",
    )
