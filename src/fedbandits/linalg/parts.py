"""Compiled functions that only ever become part of others: kept in the compiler's intermediate form, without machine
code of their own.

Left to itself, numba optimises every function, makes machine code of it and of two ways to call it, and does so again
for whoever calls it, with all that is called inside. Loops that are put together from dozens of functions
(`contract.compiled`) are then compiled several times over.
"""

from __future__ import annotations

from typing import Any, NoReturn

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

_ENVIRONMENT = "_ZN08NumbaEnv"
"""How names of the variables begin in which compiled functions find the constants of their module."""


class _Intermediate(JITCodeLibrary):
    """Code that others link. Machine code is made of the variables only that it refers to, since numba fills them for
    each function, whoever it becomes part of.
    """

    def _finalize_final_module(self) -> None:
        for variable in self._final_module.global_variables:
            if variable.name.startswith(RuntimeLinker.PREFIX):
                raise TypeError(f"{self.name} contains itself, for other types: this is what jit_nested is for")
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True
        self._get_module_for_linking()  # type: ignore[no-untyped-call]
        self._final_module = self._variables()
        super()._finalize_final_module()  # type: ignore[no-untyped-call]

    def _variables(self) -> Any:
        module = self._codegen._create_empty_module(self.name)  # type: ignore[no-untyped-call]
        pointer = ir.IntType(8).as_pointer()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                place = ir.GlobalVariable(module, pointer, variable.name)
                place.linkage = "common"
                place.initializer = ir.Constant(pointer, None)
        return llvm.parse_assembly(str(module))


class PartCompiler(Compiler):
    """Numba's compiler for parts."""

    def define_pipelines(self) -> Any:
        """Numba's own; what they make stays in its intermediate form."""
        codegen, name = self.state.targetctx.codegen(), self.state.func_id.func_qualname
        library: Any = _Intermediate(codegen, name)  # type: ignore[no-untyped-call]
        library.enable_object_caching()
        self.state.library = library
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _Part(CPUDispatcher):
    """A compiled function that Python cannot call, there being nothing to be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        raise TypeError(f"{name} is part of compiled functions, which alone can call it: for Python it has py_func")


PART: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
"""Numba's options for what `guarded` takes."""


def guarded(part: Dispatcher) -> Dispatcher:
    """`part`, which was compiled with the options `PART`, or will be: an error says so when Python calls it."""
    part.__class__ = _Part
    return part
