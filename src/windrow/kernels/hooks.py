"""Hooks: the places at which a policy has its say. Which function that is, is settled while a kernel is compiled.

A kernel that comes to such a place gets the hooks as its first argument and calls `h.entered(h, m, slot)`. `h` is named
after a policy, and its functions are those of the policy's own file (kernels/policies/<name>.py) or, where that has
none of the name, of the file that it names as its BASE, and at last of policy.py, which lists all hooks and mostly does
nothing. numba sees a type for each policy: every
policy has kernels of its own, in which what it does not do is not there, and an exact join compiles no policy at all.
Functions without hooks among their arguments are the same for all.

A join that releases rows by constraints has further hooks, which no policy knows: kernels/release/hooks.py has them,
and stands before the policy's own file in the type `prob+hooks` (`prob+demoting` where what is released goes to disk);
who only looks for matches takes `exact+looking`.

Adding a policy with a formula of its own takes its file here, its file in windrow/policies, and the list there.
"""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from numba import config, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox

ROOM, BESIDES = "windrow.kernels.policies", "windrow.kernels.release"


class Hooks:
    """The functions of a policy, by the names of hooks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._modules = list(_files(name))
        if not config.DISABLE_JIT:  # type: ignore[attr-defined]
            self._numba_type_ = HooksType(name)

    def __getattr__(self, hook: str) -> Any:
        for module in self.__dict__.get("_modules", ()):
            if hasattr(module, hook):
                found = getattr(module, hook)
                if not callable(found):  # what a policy keeps, asked for again and again
                    self.__dict__[hook] = found
                return found
        raise AttributeError(hook)

    def __reduce__(self) -> Any:
        return hooks, (self.name,)


def _files(name: str) -> Iterator[ModuleType]:
    """The file of a policy, that of its base, and so on; before them what a join does besides (`prob+hooks`)."""
    name, _, besides = name.partition("+")
    while besides:
        module = import_module(f"{BESIDES}.{besides}")
        yield module
        besides = getattr(module, "BASE", "")
    while name:
        module = import_module(f"{ROOM}.{name}")
        yield module
        name = getattr(module, "BASE", "")


_known: dict[str, Hooks] = {}


def hooks(name: str) -> Hooks:
    """The hooks of a policy."""
    if name not in _known:
        _known[name] = Hooks(name)
    return _known[name]


class HooksType(types.Opaque):
    """The type of a policy's hooks: one for each."""

    def __init__(self, name: str) -> None:
        self.policy = name
        super().__init__(f"hooks({name})")


register_model(HooksType)(models.OpaqueModel)


@unbox(HooksType)
def _unboxed(typ: Any, obj: Any, c: Any) -> Any:
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class _Hook(AttributeTemplate):
    """A hook is the function itself."""

    key = HooksType

    def generic_resolve(self, typ: Any, attr: str) -> Any:  # type: ignore[override]  # numba says that there is none
        return self.context.resolve_value_type(getattr(hooks(typ.policy), attr))


@lower_getattr_generic(HooksType)
def _read(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
    return context.get_dummy_value()
