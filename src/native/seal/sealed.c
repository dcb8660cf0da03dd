/* A bit for each object. One that is not aligned makes that nothing is known: there are none but in a
 * program's static memory.
 */
#include "sealed.h"

#include "../gc/frozen.h"

#include <errno.h>

#if !defined(CPY_UNSUPPORTED) && CPY_HAS_IMMORTALITY

static struct {
    frozen_part part;
    mark_bits set;
    scratch_stack functions;
} sealed;

static void
empty(void)
{
    if (sealed.set.tables != NULL) {
        mark_bits_release(&sealed.set);
    }
    scratch_stack_release(&sealed.functions);
}

PyGC_Head *
sealed_end(void)
{
    return frozen_part_end(&sealed.part);
}

int
sealed_add(PyObject *op)
{
    int err = mark_bits_is_aligned(op) ? 0 : EINVAL;
    if (!err && sealed.set.tables == NULL) {
        err = mark_bits_init(&sealed.set);
    }
    err = err ? err : mark_bits_mark(&sealed.set, op);
    return !err && PyFunction_Check(op) ? scratch_stack_push(&sealed.functions, op) : err;
}

void
sealed_note(bool known)
{
    if (!known || frozen_part_note(&sealed.part) < 0) {
        PyErr_Clear(); /* the next seal walks along all */
        sealed.part.life = 0;
        empty();
    }
}

const mark_bits *
sealed_set(void)
{
    return &sealed.set;
}

const scratch_stack *
sealed_functions(void)
{
    return &sealed.functions;
}

void
sealed_forget(void)
{
    empty();
    sealed.part = (frozen_part){0};
}

#else

void
sealed_forget(void)
{
}

#endif
