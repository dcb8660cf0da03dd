/* Verifies what the interpreter's state holds besides the collector's: versions of key tables,
 * pymalloc's arenas, functions of atexit.
 */
#include "debug_offsets.h"
#include "layout_rows.h"
#include "readable.h"

#ifndef CPY_UNSUPPORTED

/* --- Versions of key tables -------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030D0000
#  define MAX_CALLS 64 /* until an instruction that reads a global name is specialized */

static uint32_t
next_version(size_t at)
{
    uint32_t version;
    memcpy(&version, (char *)PyInterpreterState_Get() + at, sizeof version);
    return version;
}

/* Have the interpreter give the keys of the samples' globals a version. 1: it has, from `before` on
   and below `after`. */
static int
give_version(const layout_samples *samples, size_t at, uint32_t *before, uint32_t *after)
{
    const PyDictKeysObject *keys = ((PyDictObject *)samples->globals)->ma_keys;
    for (int i = 0; i < MAX_CALLS && keys->dk_version == 0; i++) {
        *before = next_version(at);
        PyObject *result = PyObject_CallNoArgs(samples->read);
        Py_XDECREF(result);
        if (result == NULL) {
            return -1;
        }
        *after = next_version(at);
    }
    return keys->dk_version != 0;
}
#endif

/* The globals' keys have a version once layout_next_keys_version() has been. */
int
layout_keys_version(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030D0000
    uint32_t version, none,
        next = next_version(offsetof(PyInterpreterState, dict_state.next_keys_version));
    memcpy(&version, (char *)((PyDictObject *)samples->globals)->ma_keys + at, sizeof version);
    memcpy(&none, (char *)((PyDictObject *)samples->dict)->ma_keys + at, sizeof none);
    return version == next - 1 && none == 0;
#else
    (void)samples, (void)at;
    return 1;
#endif
}

/* The probe can be made once: later the table has a version. */
int
layout_next_keys_version(const layout_samples *samples, size_t at)
{
#if PY_VERSION_HEX >= 0x030D0000
    uint32_t before = 0, after = 0;
    int given = give_version(samples, at, &before, &after);
    if (given <= 0) {
        return given;
    }
    uint32_t version = ((PyDictObject *)samples->globals)->ma_keys->dk_version;
    return version >= before && version < after && after - before < MAX_CALLS;
#else
    (void)samples, (void)at;
    return 1;
#endif
}

/* --- pymalloc ---------------------------------------------------------------------------- */

#define SAMPLE_BYTES 48
#define LARGER_BYTES 496

/* A block of pymalloc's, or NULL where another allocator serves objects: then its state is not
   used, and must not be read. */
static void *
take_block(size_t bytes)
{
    const char *allocator = cpy_allocator_name();
    bool is_plain = allocator != NULL && strcmp(allocator, "pymalloc") == 0;
    return is_plain ? PyObject_Malloc(bytes) : NULL;
}

#if CPY_HAS_ARENAS
static bool
is_in_arena(const struct _obmalloc_mgmt *state, const cpy_pool *pool)
{
    unsigned int index = pool->arenaindex;
    if (!readable(state, sizeof *state) || index >= state->maxarenas
        || !readable(&state->arenas[index], sizeof *state->arenas)) {
        return false;
    }
    uintptr_t start = state->arenas[index].address;
    return (uintptr_t)pool >= start && (uintptr_t)pool < start + CPY_ARENA_BYTES;
}
#endif

int
layout_obmalloc(const layout_samples *Py_UNUSED(samples), size_t at)
{
#if CPY_HAS_ARENAS
    void *block = take_block(SAMPLE_BYTES);
    if (block == NULL) {
        return 1;
    }
    const struct _obmalloc_state *state =
        (const struct _obmalloc_state *)layout_word(PyInterpreterState_Get(), at);
    bool right = readable(state, sizeof *state) && is_in_arena(&state->mgmt, cpy_pool_of(block));
    PyObject_Free(block);
    return right;
#else
    (void)at;
    return 1;
#endif
}

#if CPY_HAS_ARENAS
/* `freepools` of an arena: NULL, or a pool of it that is not in use. Before it are the numbers of
   its pools, and where the first one is that was never used. */
static bool
has_free_pools_at(const struct arena_object *arena, size_t at)
{
    uintptr_t start = arena->address, end = start + CPY_ARENA_BYTES;
    uintptr_t pool = layout_word(arena, at), unused = layout_word(arena, at - 16);
    uint32_t numbers[2];
    memcpy(numbers, (const char *)arena + at - sizeof numbers, sizeof numbers);
    return unused >= start && unused <= end && numbers[0] <= numbers[1]
           && numbers[1] <= CPY_ARENA_BYTES / CPY_POOL_BYTES
           && (pool == 0
               || (pool >= start && pool < end && pool % CPY_POOL_BYTES == 0
                   && cpy_pool_used((const cpy_pool *)pool) == 0));
}
#endif

int
layout_arenas(const layout_samples *Py_UNUSED(samples), size_t at)
{
#if CPY_HAS_ARENAS
    void *block = take_block(SAMPLE_BYTES);
    if (block == NULL) {
        return 1;
    }
    const struct _obmalloc_state *state = PyInterpreterState_Get()->obmalloc;
    bool right = readable(state, sizeof *state) && is_in_arena(&state->mgmt, cpy_pool_of(block));
    for (unsigned int i = 0; right && i < state->mgmt.maxarenas; i++) {
        const struct arena_object *arena = &state->mgmt.arenas[i];
        right = arena->address == 0 || has_free_pools_at(arena, at);
    }
    PyObject_Free(block);
    return right;
#else
    (void)at;
    return 1;
#endif
}

/* A number in the header of a pool; UINT32_MAX where there is none. A pool may be the first of its
   mapping: nothing need lie before it. */
static uint32_t
number_in(const cpy_pool *pool, size_t at)
{
    const char *number = (const char *)pool + at;
    uint32_t value = UINT32_MAX;
    if (readable(number, sizeof(uint64_t))) {
        memcpy(&value, number, sizeof value);
    }
    return value;
}

static bool
is_class_of(size_t bytes, size_t at)
{
    void *block = take_block(bytes);
    if (block == NULL) {
        return true;
    }
    uint32_t index = number_in(cpy_pool_of(block), at);
    PyObject_Free(block);
    return index == bytes / CPY_SMALL_BLOCK_STEP_BYTES - 1;
}

int
layout_pool_class(const layout_samples *Py_UNUSED(samples), size_t at)
{
    return is_class_of(SAMPLE_BYTES, at) && is_class_of(LARGER_BYTES, at);
}

/* The pool of the first block stays in use when that goes: the second lies there, or it was full. */
int
layout_pool_count(const layout_samples *Py_UNUSED(samples), size_t at)
{
    void *first = take_block(SAMPLE_BYTES), *second = take_block(SAMPLE_BYTES);
    const cpy_pool *pool = first != NULL && second != NULL ? cpy_pool_of(first) : NULL;
    uint32_t before = pool != NULL ? number_in(pool, at) : 1;
    PyObject_Free(first);
    uint32_t after = pool != NULL ? number_in(pool, at) : 0;
    PyObject_Free(second);
    return after == before - 1;
}

/* --- atexit ------------------------------------------------------------------------------ */

/* The number of functions that the module counts; -1 with an exception set. */
static Py_ssize_t
count_functions(void)
{
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *count = atexit ? PyObject_CallMethod(atexit, "_ncallbacks", NULL) : NULL;
    Py_ssize_t value = count ? PyLong_AsSsize_t(count) : -1;
    Py_XDECREF(atexit);
    Py_XDECREF(count);
    return value;
}

int
layout_atexit_callbacks(const layout_samples *Py_UNUSED(samples), size_t at)
{
    Py_ssize_t count = count_functions();
    if (count < 0) {
        return -1;
    }
    const char *list = (const char *)layout_word(PyInterpreterState_Get(), at);
#if PY_VERSION_HEX >= 0x030E0000
    return readable(list, sizeof(PyListObject)) && PyList_CheckExact((PyObject *)list)
           && PyList_GET_SIZE((PyObject *)list) == count;
#else
    /* Each is a record that the array points to; a function that was taken back leaves NULL. */
    if (!readable(list, sizeof(void *) * (size_t)Py_MAX(count, 1))) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const void *record = (const void *)layout_word(list, (size_t)i * sizeof(void *));
        if (record != NULL && !readable(record, 3 * sizeof(void *))) {
            return 0;
        }
    }
    return 1;
#endif
}

int
layout_atexit_count(const layout_samples *Py_UNUSED(samples), size_t at)
{
#if PY_VERSION_HEX >= 0x030E0000
    (void)at;
    return 1;
#else
    Py_ssize_t count = count_functions();
    int seen, room;
    memcpy(&seen, (char *)PyInterpreterState_Get() + at, sizeof seen);
    memcpy(&room, (char *)PyInterpreterState_Get() + at + sizeof seen, sizeof room);
    return count < 0 ? -1 : seen == count && room >= seen && room > 0 && room < 1 << 20;
#endif
}

#endif

/* not reached in this file: each condition is an assertion about the interpreter, and holds in every build of it */
