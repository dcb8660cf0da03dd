/* Marks: one bit for each 8 bytes of address space, in a table keyed by address.
 *
 * Owns the table and the stack of objects that are marked but not traced yet. Knows nothing
 * of objects: an address is marked or it is not.
 *
 *   address  [ 46 .. 30 | 29 .. 9 | 8 .. 3 | 2 .. 0 ]
 *              root       word      bit      always 0
 *
 * The root lies in .bss (1 MiB, touched where it is used). A leaf covers 1 GiB, is 16 MiB of
 * address space mapped when an object is first allocated in its range, and holds memory only
 * for the OS pages in which a mark is set: 1/64 of the heap, between the start of a marking
 * and the end of the sweep.
 *
 * Invariant: outside a collection cycle no bit is set. The sweep clears every bit that the
 * marking has set (pages by the word, large and prebuilt objects one by one), so that giving
 * the memory back is only that: where MADV_DONTNEED is refused nothing is lost but memory.
 */

#ifndef PASTURE_MARKS_H
#define PASTURE_MARKS_H

#include <stddef.h>

#define PASTURE_REACH_BITS 47
#define PASTURE_LEAF_BITS 30
#define PASTURE_ROOT_LENGTH (1UL << (PASTURE_REACH_BITS - PASTURE_LEAF_BITS))
#define PASTURE_LEAF_WORDS (1UL << (PASTURE_LEAF_BITS - 9))
#define PASTURE_LEAF_BYTES (PASTURE_LEAF_WORDS * sizeof(unsigned long))

#define pasture_unlikely(condition) __builtin_expect(!!(condition), 0)

extern unsigned long *pasture_marks_root[PASTURE_ROOT_LENGTH];

/* Maps the leaf of this address if it is not there. Returns 0, or -1: no memory, or an
 * address that the table does not reach. No mark is lost by a failure. */
long pasture_marks_reserve(void *address);

/* Marks an address whose leaf is missing: prebuilt objects come here once. Ends the process
 * with a message if there is no memory for the leaf, because a mark cannot fail. */
void pasture_marks_set_slowly(void *address);

/* After the sweep: returns the memory of every leaf to the system. Safe in any process. */
void pasture_marks_give_back(void);

/* Prebuilt objects that no list holds: their marks are cleared by range. */
void pasture_marks_note_prebuilt(void *address);

#ifdef PASTURE_CHECK
/* True for one mark of the process, if it was ordered: so that the verifier has something to
 * find. PASTURE_CHECK_FORGET=N forgets mark number N. */
int pasture_marks_forgets(void);
#endif

/* For the verifier: marks that are set although the sweep is over. Reads every leaf. */
long pasture_marks_stray(void);

static inline unsigned long *
pasture_marks_leaf(void *address)
{
    unsigned long index = (unsigned long)address >> PASTURE_LEAF_BITS;
    if (pasture_unlikely(index >= PASTURE_ROOT_LENGTH)) {
        return NULL;
    }
    return pasture_marks_root[index];
}

static inline unsigned long
pasture_marks_word(void *address)
{
    return ((unsigned long)address >> 9) & (PASTURE_LEAF_WORDS - 1);
}

static inline unsigned long
pasture_marks_bit(void *address)
{
    return 1UL << (((unsigned long)address >> 3) & 63);
}

static inline long
pasture_marks_test(void *address)
{
    unsigned long *leaf = pasture_marks_leaf(address);
    return leaf != NULL && (leaf[pasture_marks_word(address)] & pasture_marks_bit(address)) != 0;
}

/* Marks; returns 1 if the address was not marked before, else 0. */
static inline long
pasture_marks_set(void *address)
{
    unsigned long *leaf = pasture_marks_leaf(address);
    if (pasture_unlikely(leaf == NULL)) {
        pasture_marks_set_slowly(address);
        return 1;
    }
    unsigned long *word = leaf + pasture_marks_word(address);
    unsigned long bit = pasture_marks_bit(address);
    if (*word & bit) {
        return 0;
    }
#ifdef PASTURE_CHECK
    if (pasture_marks_forgets()) {
        return 1;
    }
#endif
    *word |= bit;
    return 1;
}

/* Reads first: clearing what is clear must not bring an OS page into being. */
static inline void
pasture_marks_clear(void *address)
{
    if (pasture_marks_test(address)) {
        pasture_marks_root[(unsigned long)address >> PASTURE_LEAF_BITS]
                          [pasture_marks_word(address)] &= ~pasture_marks_bit(address);
    }
}

#endif
