# cython: language_level=3, binding=True
"""Each kind of object that Cython makes and that can hold another: hold(value), held()."""

cimport cython


cdef class Plain:
    cdef object value
    cdef object __weakref__

    def hold(self, value):
        self.value = value

    def held(self):
        return self.value


@cython.no_gc
cdef class WithoutCollector:
    """Holds objects, and shows the collector none."""
    cdef object value

    def hold(self, value):
        self.value = value

    def held(self):
        return self.value


@cython.no_gc_clear
cdef class WithoutClear:
    cdef object value

    def hold(self, value):
        self.value = value

    def held(self):
        return self.value


@cython.freelist(64)
@cython.final
cdef class FromFreeList:
    cdef object value

    def hold(self, value):
        self.value = value

    def held(self):
        return self.value


@cython.trashcan(True)
cdef class InTrashcan:
    cdef object value

    def hold(self, value):
        self.value = value

    def held(self):
        return self.value


cdef class WithDictionary:
    cdef dict __dict__

    def hold(self, value):
        self.value = value

    def held(self):
        return self.value


cdef class WithEnd:
    """Its end runs code while the collector has it in hand."""
    cdef list values

    def __cinit__(self):
        self.values = []

    def __dealloc__(self):
        [[number] for number in range(3)]

    def hold(self, value):
        self.values[:] = [value]

    def held(self):
        return self.values[0]


cdef class Derived(Plain):
    """Its tp_traverse calls that of its base; text is held and not visited."""
    cdef str text
    cdef tuple more

    def hold(self, value):
        self.text = "text %s" % id(value)
        self.more = (value, self.text)
        self.value = value

    def held(self):
        assert self.more[1] == self.text
        return self.more[0]


class Ordinary(Plain):
    """Made by Cython, a class as Python makes it."""


cdef class Exporter:
    """Gives out memory and holds an object meanwhile."""
    cdef char memory[8]
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]
    cdef readonly object value

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.shape[0] = 8
        self.strides[0] = 1
        buffer.buf = self.memory
        buffer.obj = self
        buffer.len = 8
        buffer.itemsize = 1
        buffer.readonly = 0
        buffer.ndim = 1
        buffer.format = "c"
        buffer.shape = self.shape
        buffer.strides = self.strides
        buffer.suboffsets = NULL
        buffer.internal = NULL

    def hold(self, value):
        self.value = value


def make_view():
    """A memoryview of Cython's own, which owns the only reference to its exporter."""
    cdef char[:] view = Exporter()
    view[3] = 7
    return view[1:]


def hold_by_view(view, value):
    view.base.hold(value)


def held_by_view(view):
    cdef char[:] typed = view
    assert typed[2] == 7
    return view.base.value


def make_closure():
    value = None

    def closure(*new):
        nonlocal value
        if new:
            value = new[0]
        return value

    return closure


def generator():
    value = None
    while True:
        new = yield value
        if new is not None:
            value = new[0]


def delegating():
    yield from generator()


async def coroutine(step):
    value = None
    while True:
        new = await step(value)
        if new is not None:
            value = new[0]


async def asynchronous():
    value = None
    while True:
        new = yield value
        if new is not None:
            value = new[0]


def call_in_generator(call):
    """A generator with locals that are in use while `call` runs."""
    local = [call, "local"]
    before = yield local
    result = (lambda: call())()
    assert local == [call, "local"] and before == "go"
    yield result


def call_in_closure(call):
    kept = [call]

    def inner():
        def innermost():
            return kept[0]()
        return innermost()

    return inner()


def call_beside_view(call):
    cdef char[:] view = Exporter()
    view[0] = 5
    result = call()
    assert view[0] == 5
    return result
