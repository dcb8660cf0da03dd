/* Side bitmaps over the whole address space: which objects were seen, without a write to
 * any of them.
 *
 * One bit for each granule of 16 bytes. No object is smaller, so that no two start within the
 * same granule, wherever they start. An allocator aligns its blocks to 16, but what a program
 * holds in static memory may start in the middle of a granule: an address can be turned into
 * its bit, but a bit into an address only where the object is known to be aligned
 * (marks_is_aligned).
 *
 * A leaf covers 64 MiB and is mapped when first needed; the kernel backs only what is written,
 * 4 KiB of each bitmap for 512 KiB of heap. Leaves are found through two levels of tables, so
 * that little address space is asked for where it is limited.
 *
 *   marked    reached; after the search: alive
 *   noted     before the remainder is found: the successor of a marked object in its list;
 *             then: part of the remainder
 *   waiting   to be reached when the walk next passes its address (mark.h)
 */
#ifndef PASTURE_MARKS_H
#define PASTURE_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MARKS_GRANULE_BITS 4 /* log2 of bytes for each bit */
#define MARKS_WORD_BITS 6    /* log2 of bits in a word */
#define MARKS_LEAF_BITS 26   /* log2 of bytes for each leaf */
#define MARKS_ADDRESS_BITS 48
#define MARKS_LEAF_WORDS ((size_t)1 << (MARKS_LEAF_BITS - MARKS_GRANULE_BITS - MARKS_WORD_BITS))
#define MARKS_TABLE_BITS ((MARKS_ADDRESS_BITS - MARKS_LEAF_BITS) / 2)
#define MARKS_TABLE_ENTRIES ((size_t)1 << MARKS_TABLE_BITS)

/* Words of one OS page of a bitmap: those that were never set are skipped, not read. */
#define MARKS_CHUNK_WORDS ((size_t)512)

typedef struct marks_leaf {
    uint64_t marked[MARKS_LEAF_WORDS];
    uint64_t noted[MARKS_LEAF_WORDS];
    uint64_t waiting[MARKS_LEAF_WORDS];
    bool touched[MARKS_LEAF_WORDS / MARKS_CHUNK_WORDS]; /* chunks with a bit in any bitmap */
    uintptr_t base;                                     /* first address covered */
    uint32_t *ranks;         /* of each word, once marks_rank() was called */
    struct marks_leaf *next; /* the one with the next higher addresses */
} marks_leaf;

/* Leaves of 2^37 bytes of address space. */
typedef struct {
    marks_leaf *leaves[MARKS_TABLE_ENTRIES];
} marks_table;

typedef struct {
    marks_table **tables; /* MARKS_TABLE_ENTRIES; `marks_no_leaves` where there is none yet */
    marks_leaf *first;    /* all leaves, in the order of addresses */
    size_t bytes;         /* mapped for tables, leaves and ranks */
} marks;

/* A table without leaves: a look-up needs no test for a missing table. Never written. */
extern const marks_table marks_no_leaves;

/* Returns 0 or errno; on failure there is nothing to release. */
int marks_init(marks *marks);
void marks_release(marks *marks);

/* Map the leaf for an address. Returns NULL where memory could not be had. */
marks_leaf *marks_add_leaf(marks *marks, uintptr_t address);

/* Give each word its rank: the number of noted bits before it, in the order of addresses.
   Bits noted later have none. Returns 0 or errno. */
int marks_rank(marks *marks);

/* Whether an object can be found again from its bit. */
static inline bool
marks_is_aligned(const void *object)
{
    return ((uintptr_t)object & (((uintptr_t)1 << MARKS_GRANULE_BITS) - 1)) == 0;
}

static inline uint64_t
marks_bit(const void *object)
{
    return (uint64_t)1 << (((uintptr_t)object >> MARKS_GRANULE_BITS) & 63);
}

static inline size_t
marks_word_index(const void *object)
{
    return ((uintptr_t)object >> (MARKS_GRANULE_BITS + MARKS_WORD_BITS)) & (MARKS_LEAF_WORDS - 1);
}

static inline size_t
marks_table_index(uintptr_t address)
{
    return (address >> (MARKS_LEAF_BITS + MARKS_TABLE_BITS)) & (MARKS_TABLE_ENTRIES - 1);
}

static inline size_t
marks_leaf_index(uintptr_t address)
{
    return (address >> MARKS_LEAF_BITS) & (MARKS_TABLE_ENTRIES - 1);
}

/* The leaf of an object, or NULL if none was mapped so far. */
static inline marks_leaf *
marks_find_leaf(const marks *marks, const void *object)
{
    uintptr_t address = (uintptr_t)object;
    return marks->tables[marks_table_index(address)]->leaves[marks_leaf_index(address)];
}

/* The leaf of an object, mapped if need be; NULL where memory could not be had. */
static inline marks_leaf *
marks_leaf_for(marks *marks, const void *object)
{
    marks_leaf *leaf = marks_find_leaf(marks, object);
    return __builtin_expect(leaf != NULL, 1) ? leaf : marks_add_leaf(marks, (uintptr_t)object);
}

/* To be called with each word in which a bit is set. */
static inline void
marks_touch(marks_leaf *leaf, size_t index)
{
    leaf->touched[index / MARKS_CHUNK_WORDS] = true;
}

/* The first word from `index` on that may have a bit set, or MARKS_LEAF_WORDS. */
static inline size_t
marks_skip_untouched(const marks_leaf *leaf, size_t index)
{
    while (index < MARKS_LEAF_WORDS && index % MARKS_CHUNK_WORDS == 0
           && !leaf->touched[index / MARKS_CHUNK_WORDS]) {
        index += MARKS_CHUNK_WORDS;
    }
    return index;
}

static inline bool
marks_is_marked(const marks *marks, const void *object)
{
    marks_leaf *leaf = marks_find_leaf(marks, object);
    return leaf != NULL && (leaf->marked[marks_word_index(object)] & marks_bit(object));
}

static inline void
marks_unmark(marks *marks, const void *object)
{
    marks_leaf *leaf = marks_find_leaf(marks, object);
    if (leaf != NULL) {
        leaf->marked[marks_word_index(object)] &= ~marks_bit(object);
    }
}

static inline bool
marks_is_noted(const marks *marks, const void *object)
{
    marks_leaf *leaf = marks_find_leaf(marks, object);
    return leaf != NULL && (leaf->noted[marks_word_index(object)] & marks_bit(object));
}

/* The object that a bit of a word stands for. Precondition: it is aligned. */
static inline void *
marks_object_at(const marks_leaf *leaf, size_t index, unsigned int bit)
{
    return (void *)(leaf->base
                    + (((uintptr_t)index << MARKS_WORD_BITS | bit) << MARKS_GRANULE_BITS));
}

/* Number of noted objects at lower addresses. Precondition: marks_rank(), and noted. */
static inline uint32_t
marks_rank_of(const marks *marks, const void *object)
{
    marks_leaf *leaf = marks_find_leaf(marks, object);
    size_t index = marks_word_index(object);
    return leaf->ranks[index]
           + (uint32_t)__builtin_popcountll(leaf->noted[index] & (marks_bit(object) - 1));
}

#endif
