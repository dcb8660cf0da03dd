/* Three bits for each object, kept in side bitmaps over the whole address space, so that a walk
 * knows which objects it has seen without writing to any of them.
 *
 * There is a bit for each granule of 16 bytes. No object is smaller, so no two objects start in
 * the same granule. An allocator aligns its blocks to 16 bytes, but an object in a program's static
 * memory may start in the middle of a granule. So an address can always be turned into its bit, and
 * a bit into an address only where the object is known to be aligned (mark_bits_is_aligned).
 *
 * Addresses have 48 bits: the kernel maps nothing above, on x86-64 or aarch64, unless the program
 * asks for such an address, and no allocator does.
 *
 * A leaf covers 64 MiB and is mapped when it is first needed. The kernel backs only what is
 * written: one OS page of each bitmap for 128 times as much heap. Leaves are found through two levels of tables,
 * so that little address space is taken where it is limited.
 *
 *   marked    reached; after the search: alive
 *   noted     first: the successor of a marked object in its list; then: not reached (collect.h)
 *   waiting   to be reached when the walk next passes its address (mark.c)
 *
 * The seal has sets of objects of its own in them (seal/ends.c, seal/order.c).
 */
#ifndef PASTURE_MARK_BITS_H
#define PASTURE_MARK_BITS_H

#include "../process/scratch.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MARK_BITS_GRANULE_LOG2 4 /* log2 of bytes for each bit */
#define MARK_BITS_WORD_LOG2 6    /* log2 of bits in a word */
#define MARK_BITS_LEAF_LOG2 26   /* log2 of bytes for each leaf */
#define MARK_BITS_ADDRESS_BITS 48
#define MARK_BITS_LEAF_WORDS \
    ((size_t)1 << (MARK_BITS_LEAF_LOG2 - MARK_BITS_GRANULE_LOG2 - MARK_BITS_WORD_LOG2))
#define MARK_BITS_TABLE_LOG2 ((MARK_BITS_ADDRESS_BITS - MARK_BITS_LEAF_LOG2) / 2)
#define MARK_BITS_TABLE_ENTRIES ((size_t)1 << MARK_BITS_TABLE_LOG2)

/* Words of the bitmap that are skipped, not read, as long as none of them was set: those of an OS
   page of the least size. */
#define MARK_BITS_CHUNK_WORDS ((size_t)512)

typedef struct mark_bits_leaf {
    uint64_t marked[MARK_BITS_LEAF_WORDS];
    uint64_t noted[MARK_BITS_LEAF_WORDS];
    uint64_t waiting[MARK_BITS_LEAF_WORDS];
    bool
        touched[MARK_BITS_LEAF_WORDS / MARK_BITS_CHUNK_WORDS]; /* chunks with a bit in any bitmap */
    uintptr_t base;                                            /* first address covered */
    uint32_t *ranks;             /* of each word, once mark_bits_rank() was called */
    struct mark_bits_leaf *next; /* the one with the next higher addresses */
} mark_bits_leaf;

/* Leaves of 2^37 bytes of address space. */
typedef struct {
    mark_bits_leaf *leaves[MARK_BITS_TABLE_ENTRIES];
} mark_bits_table;

typedef struct {
    mark_bits_table *
        *tables; /* MARK_BITS_TABLE_ENTRIES; `mark_bits_no_leaves` where there is none yet */
    mark_bits_leaf *first; /* all leaves, in the order of addresses */
    size_t bytes;          /* mapped for tables, leaves and ranks */
} mark_bits;

/* A table without leaves: a look-up needs no test for a missing table. Never written. */
extern const mark_bits_table mark_bits_no_leaves;

/* Returns 0 or errno; on failure there is nothing to release. */
int mark_bits_init(mark_bits *bits);
void mark_bits_release(mark_bits *bits);

/* Map the leaf for an address. Returns NULL where memory could not be had. */
mark_bits_leaf *mark_bits_add_leaf(mark_bits *bits, uintptr_t address);

/* Give each word its rank: the number of noted bits before it, in the order of addresses.
   Bits noted later have none. Returns 0 or errno. */
int mark_bits_rank(mark_bits *bits);

/* Whether an object can be found again from its bit. */
static inline bool
mark_bits_is_aligned(const void *object)
{
    return ((uintptr_t)object & (((uintptr_t)1 << MARK_BITS_GRANULE_LOG2) - 1)) == 0;
}

/* A word with the bit of the object set, and no other. */
static inline uint64_t
mark_bits_mask(const void *object)
{
    return (uint64_t)1 << (((uintptr_t)object >> MARK_BITS_GRANULE_LOG2) & 63);
}

static inline size_t
mark_bits_word_index(const void *object)
{
    return ((uintptr_t)object >> (MARK_BITS_GRANULE_LOG2 + MARK_BITS_WORD_LOG2))
           & (MARK_BITS_LEAF_WORDS - 1);
}

static inline size_t
mark_bits_table_index(uintptr_t address)
{
    return (address >> (MARK_BITS_LEAF_LOG2 + MARK_BITS_TABLE_LOG2))
           & (MARK_BITS_TABLE_ENTRIES - 1);
}

static inline size_t
mark_bits_leaf_index(uintptr_t address)
{
    return (address >> MARK_BITS_LEAF_LOG2) & (MARK_BITS_TABLE_ENTRIES - 1);
}

/* The leaf of an object, or NULL if none was mapped so far. */
static inline mark_bits_leaf *
mark_bits_find_leaf(const mark_bits *bits, const void *object)
{
    uintptr_t address = (uintptr_t)object;
    return bits->tables[mark_bits_table_index(address)]->leaves[mark_bits_leaf_index(address)];
}

/* The leaf of an object, mapped if need be; NULL where memory could not be had. */
static inline mark_bits_leaf *
mark_bits_leaf_for(mark_bits *bits, const void *object)
{
    if (scratch_is_refused()) {
        return NULL;
    }
    mark_bits_leaf *leaf = mark_bits_find_leaf(bits, object);
    return __builtin_expect(leaf != NULL, 1) ? leaf : mark_bits_add_leaf(bits, (uintptr_t)object);
}

/* Say that a bit of the word may be set. Every function that sets a bit calls it. */
static inline void
mark_bits_touch(mark_bits_leaf *leaf, size_t index)
{
    leaf->touched[index / MARK_BITS_CHUNK_WORDS] = true;
}

/* The index of the first word from `index` on that may have a bit set, or MARK_BITS_LEAF_WORDS. */
static inline size_t
mark_bits_skip_untouched(const mark_bits_leaf *leaf, size_t index)
{
    while (index < MARK_BITS_LEAF_WORDS && index % MARK_BITS_CHUNK_WORDS == 0
           && !leaf->touched[index / MARK_BITS_CHUNK_WORDS]) {
        index += MARK_BITS_CHUNK_WORDS;
    }
    return index;
}

static inline bool
mark_bits_is_marked(const mark_bits *bits, const void *object)
{
    mark_bits_leaf *leaf = mark_bits_find_leaf(bits, object);
    return leaf != NULL && (leaf->marked[mark_bits_word_index(object)] & mark_bits_mask(object));
}

/* Returns 0, or ENOMEM where memory for the bit could not be had. */
static inline int
mark_bits_mark(mark_bits *bits, const void *object)
{
    mark_bits_leaf *leaf = mark_bits_leaf_for(bits, object);
    if (leaf == NULL) {
        return ENOMEM;
    }
    size_t index = mark_bits_word_index(object);
    leaf->marked[index] |= mark_bits_mask(object);
    mark_bits_touch(leaf, index);
    return 0;
}

/* Precondition: it is marked. */
static inline void
mark_bits_unmark(mark_bits *bits, const void *object)
{
    mark_bits_leaf *leaf = mark_bits_find_leaf(bits, object);
    assert(leaf != NULL);
    leaf->marked[mark_bits_word_index(object)] &= ~mark_bits_mask(object);
}

static inline bool
mark_bits_is_noted(const mark_bits *bits, const void *object)
{
    mark_bits_leaf *leaf = mark_bits_find_leaf(bits, object);
    return leaf != NULL && (leaf->noted[mark_bits_word_index(object)] & mark_bits_mask(object));
}

/* The object that a bit of a word stands for. Precondition: it is aligned. */
static inline void *
mark_bits_object_at(const mark_bits_leaf *leaf, size_t index, unsigned int bit)
{
    return (void *)(leaf->base
                    + (((uintptr_t)index << MARK_BITS_WORD_LOG2 | bit) << MARK_BITS_GRANULE_LOG2));
}

/* Number of noted objects at lower addresses. Precondition: mark_bits_rank(), and noted. */
static inline uint32_t
mark_bits_rank_of(const mark_bits *bits, const void *object)
{
    mark_bits_leaf *leaf = mark_bits_find_leaf(bits, object);
    size_t index = mark_bits_word_index(object);
    return leaf->ranks[index]
           + (uint32_t)__builtin_popcountll(leaf->noted[index] & (mark_bits_mask(object) - 1));
}

#endif
