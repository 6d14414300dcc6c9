"""Imports the adapters to the frameworks where no framework is, to read what they say of themselves."""

import contextlib
import importlib
import importlib.abc
import importlib.util
import sys
import types

import bulkhead

_FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "ray")


class _Anything(type):
    """A class that stands for whatever a framework has; its attributes are such classes, too.

    A class of ours that is derived from it has its own attributes only.
    """

    def __getattr__(cls, name):
        if cls.__module__ != __name__:
            raise AttributeError(name)
        return _stand_in(name)


def _stand_in(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything(name, (), {})


class _Framework(types.ModuleType):
    def __getattr__(self, name):
        return _stand_in(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for every module of a framework, installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in _FRAMEWORKS:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        return _Framework(spec.name)

    def exec_module(self, module):
        pass


@contextlib.contextmanager
def adapters(names):
    """Modules of the package by name, on stand-ins. All imports are as before when it ends."""
    before = dict(sys.modules)
    # An import also becomes an attribute of the package that it is in.
    packages = {
        module: dict(vars(module))
        for name, module in before.items()
        if name.partition(".")[0] == "bulkhead" and hasattr(module, "__path__")
    }
    for module in before:
        if module.partition(".")[0] in _FRAMEWORKS or module in [f"bulkhead.{n}" for n in names]:
            del sys.modules[module]
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield {name: importlib.import_module(f"bulkhead.{name}") for name in names}
    finally:
        sys.meta_path.remove(finder)
        for module in set(sys.modules) - set(before):
            del sys.modules[module]
        sys.modules.update(before)
        for package, attributes in packages.items():
            for name in set(vars(package)) - set(attributes):
                delattr(package, name)
            vars(package).update(attributes)
