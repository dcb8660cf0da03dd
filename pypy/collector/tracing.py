"""Calls of a method for each reference of an object, in both of RPython's spellings.

rpython 0.2.1 takes a bound method: trace(obj, self.method, argument). That of PyPy since 2022
takes a function of three arguments and two of them: trace(obj, function, self, argument).
"""
from rpython.memory.gc.base import GCBase

TAKES_FUNCTIONS = hasattr(GCBase, 'make_callback')


def caller_of(method_name):
    """A method trace(obj, argument) that calls self.method_name(address, argument)."""
    if TAKES_FUNCTIONS:
        def trace(self, obj, argument):
            self.trace(obj, self.make_callback(method_name), self, argument)
    else:
        def trace(self, obj, argument):
            self.trace(obj, getattr(self, method_name), argument)
    trace._always_inline_ = True
    return trace


def push_references(self, obj, stack):
    """Pushes what the object refers to on the stack."""
    if TAKES_FUNCTIONS:
        self.trace(obj, self._append_if_nonnull, stack, None)
    else:
        self.trace(obj, self._append_if_nonnull, stack)
