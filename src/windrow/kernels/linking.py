"""Kernels are optimised where they run: in the function that Python calls, together with all that it calls.

numba optimises every function by itself, and again, with everything that it calls, in each of its callers, up to the
function that Python calls; and it makes machine code of each. Of hundreds of small functions that are called several
levels deep that is most of the time. Here a function that only other kernels call is a `Part`: it is translated and
simplified, and waits. A `Whole`, which Python calls, takes its parts and theirs, each once, and is optimised once.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Translator:
    """numba's code generator, for a function that has no address of its own to tell its environment to."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, env: Any) -> None:
        """Nothing: kernels neither raise nor call Python, which is what an environment is for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class Part(JITCodeLibrary):
    """The code of a function that only other kernels call, and that becomes a part of each."""

    attribute = "alwaysinline"

    @property
    def codegen(self) -> Any:
        """The code generator."""
        return _Translator(self._codegen)

    def finalize(self) -> None:
        """Be ready to be linked: neither optimised nor made machine code."""
        self._raise_if_finalized()
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalize_dynamic_globals()
        for function in self.get_defined_functions():
            function.add_function_attribute(self.attribute)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No address."""
        self._ensure_finalized()
        return 0

    def alone(self) -> Any:
        """The module of this function, without what it calls."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """The module with all that it calls, for a function that is no kernel."""
        module = self.alone().clone()
        for library in below(self._linking_libraries):
            module.link_in(_module(library), preserve=True)
        return module


class Apart(Part):
    """The code of a function that only other kernels call, and that stays a function of its own.

    Left to itself LLVM would put most of them into each of their callers, which then take minutes to optimise.
    """

    attribute = "noinline"


class Whole(JITCodeLibrary):
    """The code of a function that Python calls, with all its parts."""

    def finalize(self) -> None:
        """Link every part once, then optimise and make machine code."""
        libraries = below(self._linking_libraries)
        for library in libraries:
            if isinstance(library, Part):
                self._final_module.link_in(library.alone(), preserve=True)
        self._linking_libraries = [library for library in libraries if not isinstance(library, Part)]
        super().finalize()

    def _verify_declare_only_symbols(self) -> None:
        """Refuse to run without a function that is called: a part that was linked before it was asked for."""
        super()._verify_declare_only_symbols()
        missing = [function.name for function in self._final_module.functions if function.is_declaration]
        for name in missing:
            assert not name.startswith("_ZN"), f"{name} is called and was not linked"


def below(libraries: list[Any]) -> list[Any]:
    """Libraries, and all that the parts among them need, each once; callers before what they call.

    LLVM links only what is asked for by then.
    """
    found: list[Any] = []
    seen: set[Any] = set()
    waiting = [(library, False) for library in libraries]
    while waiting:
        library, done = waiting.pop()
        if done:
            found.append(library)
        elif library not in seen:
            seen.add(library)
            waiting.append((library, True))
            if isinstance(library, Part):
                waiting.extend((other, False) for other in library._linking_libraries)
    return found[::-1]


def _module(library: Any) -> Any:
    return library.alone() if isinstance(library, Part) else library._get_module_for_linking()


class _Compiler(Compiler):
    """numba's compiler, into a library of ours."""

    library: type[JITCodeLibrary]

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class PartCompiler(_Compiler):
    """Compiles functions that become a part of other kernels."""

    library = Part


class ApartCompiler(_Compiler):
    """Compiles functions that other kernels call."""

    library = Apart


class WholeCompiler(_Compiler):
    """Compiles functions that Python calls."""

    library = Whole
