"""Kernels compiled for a device that need not be there: a program of its own.

`python -m tests.adapters.compiled KERNEL…`. Each kernel's own check is run on the CPU, and what it
would launch is compiled for Hopper instead: the interpreter takes code that a compiler does not.
"""

import contextlib
import importlib
import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32", torch.int32: "*i32",
    torch.int64: "*i64", torch.uint8: "*u8", torch.bool: "*i1", torch.float8_e4m3fn: "*fp8e4nv",
}  # fmt: skip
OPTIONS = ("num_warps", "num_stages")


def main(*names: str) -> int:
    """Print each variant of a kernel that compiles; raise what a compiler says of one."""
    seen = set()

    def launch(function, _):
        return lambda *args, **kwargs: compile_once(function, args, kwargs, seen)

    JITFunction.__getitem__ = launch
    for name in names:
        module = importlib.import_module(f"sie_mcp.adapters.layers.kernels.{name}")
        before = len(seen)
        with contextlib.suppress(IndexError, ValueError):  # Of what was not computed.
            module.check(torch.device("cpu"))
        assert len(seen) > before, name
        sys.stdout.write(f"{name} {len(seen) - before}\n")
    return 0


def compile_once(function, args, kwargs, seen):
    """Compile a kernel for the types of these arguments, unless it is."""
    options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
    given = dict(zip(function.arg_names, args, strict=False)) | kwargs
    constants = {p.name: given[p.name] for p in function.params if p.is_constexpr}
    signature = {name: "constexpr" if name in constants else kind(given[name]) for name in given}
    key = (function.fn.__name__, str(signature), str(constants), str(options))
    if key in seen:
        return
    seen.add(key)
    source = triton.compiler.ASTSource(
        fn=function,
        signature={name: signature[name] for name in function.arg_names},
        constexprs={(function.arg_names.index(name),): one for name, one in constants.items()},
    )
    triton.compile(source, target=TARGET, options=options)
    for (name, _), (value, where) in function.used_global_vals.items():
        assert where[name] == value, f"{name} would seem to have changed at the second launch"


def kind(value):
    """Return an argument's type in a kernel's signature."""
    if isinstance(value, torch.Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
