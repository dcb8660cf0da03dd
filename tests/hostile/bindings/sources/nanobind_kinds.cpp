// Each kind of object that nanobind makes and that can hold another: hold(value), held().
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/trampoline.h>

#include <memory>

namespace nb = nanobind;

struct Holder {
    virtual ~Holder() = default;
    virtual void hold(nb::object value) { this->value = std::move(value); }
    virtual nb::object held() { return value; }
    nb::object value = nb::none();
};

struct Plain : Holder {};
struct Dynamic : Holder {};
struct WithWeakReferences : Holder {};
struct Everything : Holder {};
struct Traversed : Holder {};
struct Shared : Holder {};

struct Overridden : Holder {
    NB_TRAMPOLINE(Holder, 2);
    void hold(nb::object value) override { NB_OVERRIDE(hold, value); }
    nb::object held() override { NB_OVERRIDE(held); }
};

// What keeps another object alive without holding it: nanobind's own table does.
struct Keeper {
    PyObject *borrowed = nullptr;
    nb::object held() { return nb::borrow(borrowed); }
    void hold(nb::object value) { borrowed = value.ptr(); }
};

template <typename T>
static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self))
        Py_VISIT(nb::inst_ptr<T>(self)->value.ptr());
    return 0;
}

template <typename T>
static int
clear(PyObject *self)
{
    nb::inst_ptr<T>(self)->value.reset();
    return 0;
}

template <typename T>
static PyType_Slot slots[] = {
    {Py_tp_traverse, (void *)traverse<T>}, {Py_tp_clear, (void *)clear<T>}, {0, nullptr}};

NB_MODULE(nanobind_kinds, module)
{
    nb::set_leak_warnings(false); // what is sealed is not freed
    nb::class_<Holder, Overridden>(module, "Holder")
        .def(nb::init<>())
        .def("hold", &Holder::hold, nb::arg().none())
        .def("held", &Holder::held);
    nb::class_<Plain, Holder>(module, "Plain").def(nb::init<>());
    nb::class_<Dynamic, Holder>(module, "Dynamic", nb::dynamic_attr()).def(nb::init<>());
    nb::class_<WithWeakReferences, Holder>(module, "WithWeakReferences", nb::is_weak_referenceable())
        .def(nb::init<>());
    nb::class_<Everything, Holder>(module, "Everything", nb::dynamic_attr(),
                                   nb::is_weak_referenceable(), nb::type_slots(slots<Everything>))
        .def(nb::init<>());
    nb::class_<Traversed, Holder>(module, "Traversed", nb::type_slots(slots<Traversed>))
        .def(nb::init<>());
    nb::class_<Shared, Holder>(module, "Shared").def(nb::init<>());
    nb::class_<Keeper>(module, "Keeper")
        .def(nb::init<>())
        .def("hold", &Keeper::hold, nb::keep_alive<1, 2>())
        .def("held", &Keeper::held);

    module.def("shared", []() { return std::make_shared<Shared>(); });
    module.def("function", [](nb::object value) {
        return nb::cpp_function([value]() { return value; });
    });
    module.def("capsule", [](nb::object value) {
        return nb::capsule(value.release().ptr(),
                           [](void *owned) noexcept { Py_DECREF((PyObject *)owned); });
    });
    module.def("in_capsule", [](nb::capsule capsule) {
        return nb::borrow((PyObject *)capsule.data());
    });
    module.def("call", [](const std::function<nb::object()> &function) { return function(); });
}
