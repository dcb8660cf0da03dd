// Each kind of object that pybind11 makes and that can hold another: hold(value), held().
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

namespace py = pybind11;

struct Holder {
    virtual ~Holder() = default;
    virtual void hold(py::object value) { this->value = std::move(value); }
    virtual py::object held() { return value; }
    py::object value = py::none();
};

struct Plain : Holder {};
struct Dynamic : Holder {};
struct Traversed : Holder {};
struct Shared : Holder, std::enable_shared_from_this<Shared> {};
struct Left : Holder {};
struct Right {
    virtual ~Right() = default;
    std::vector<py::object> values;
};
struct Both : Left, Right {};

struct Overridden : Holder {
    using Holder::Holder;
    void hold(py::object value) override { PYBIND11_OVERRIDE(void, Holder, hold, value); }
    py::object held() override { PYBIND11_OVERRIDE(py::object, Holder, held); }
};

// What keeps another object alive without holding it: pybind11's own table does.
struct Keeper {
    PyObject *borrowed = nullptr;
    py::object held() { return py::reinterpret_borrow<py::object>(borrowed); }
    void hold(py::object value) { borrowed = value.ptr(); }
};

enum class Number { one, two };

struct Memory {
    std::vector<int> numbers = std::vector<int>(16, 7);
};

// A container that shows the collector what it holds.
template <typename T>
static py::custom_type_setup
traversed()
{
    return py::custom_type_setup([](PyHeapTypeObject *heap_type) {
        auto *type = &heap_type->ht_type;
        type->tp_flags |= Py_TPFLAGS_HAVE_GC;
        type->tp_traverse = [](PyObject *self, visitproc visit, void *arg) {
            Py_VISIT(Py_TYPE(self));
            if (py::detail::is_holder_constructed(self)) {
                auto &held = py::cast<T &>(py::handle(self));
                Py_VISIT(held.value.ptr());
            }
            return 0;
        };
        type->tp_clear = [](PyObject *self) {
            if (py::detail::is_holder_constructed(self)) {
                auto &held = py::cast<T &>(py::handle(self));
                held.value = py::none();
            }
            return 0;
        };
    });
}

PYBIND11_MODULE(pybind11_kinds, module)
{
    py::class_<Holder, Overridden>(module, "Holder")
        .def(py::init<>())
        .def("hold", &Holder::hold)
        .def("held", &Holder::held);
    py::class_<Plain, Holder>(module, "Plain").def(py::init<>());
    py::class_<Dynamic, Holder>(module, "Dynamic", py::dynamic_attr()).def(py::init<>());
    py::class_<Traversed>(module, "Traversed", traversed<Traversed>())
        .def(py::init<>())
        .def("hold", [](Traversed &self, py::object value) { self.value = value; })
        .def("held", [](Traversed &self) { return self.value; });
    py::class_<Shared, std::shared_ptr<Shared>>(module, "Shared")
        .def(py::init<>())
        .def("hold", [](std::shared_ptr<Shared> self, py::object value) { self->value = value; })
        .def("held", [](std::shared_ptr<Shared> self) { return self->shared_from_this()->value; });
    py::class_<Left, Holder>(module, "Left").def(py::init<>());
    py::class_<Right>(module, "Right").def(py::init<>());
    py::class_<Both, Left, Right>(module, "Both", py::multiple_inheritance(), py::dynamic_attr())
        .def(py::init<>());
    py::class_<Keeper>(module, "Keeper")
        .def(py::init<>())
        .def("hold", &Keeper::hold, py::keep_alive<1, 2>())
        .def("held", &Keeper::held);
    py::class_<Memory>(module, "Memory", py::buffer_protocol())
        .def(py::init<>())
        .def_buffer([](Memory &self) { return py::buffer_info(self.numbers.data(), 16); });
    py::enum_<Number>(module, "Number").value("one", Number::one).value("two", Number::two);

    // Functions that own objects; the capsule behind a function is what owns.
    module.def("function", [](py::object value) {
        return py::cpp_function([value]() { return value; });
    });
    module.def("capsule", [](py::object value) {
        const void *owned = value.release().ptr();
        return py::capsule(owned, [](void *owned) { Py_DECREF((PyObject *)owned); });
    });
    module.def("in_capsule", [](py::capsule capsule) {
        return py::reinterpret_borrow<py::object>(capsule.get_pointer<PyObject>());
    });
    module.def("iterator", [](std::vector<py::object> values) {
        auto *kept = new std::vector<py::object>(std::move(values));
        py::capsule owner(kept, [](void *owned) { delete (std::vector<py::object> *)owned; });
        py::object iterator = py::make_iterator(kept->begin(), kept->end());
        return py::make_tuple(iterator, owner);
    });
    module.def("call", [](const std::function<py::object()> &function) { return function(); });
}
