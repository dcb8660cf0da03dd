/* How the bitmaps get their memory, and ranks.
 *
 * Reading and setting bits is inline in the header. This file maps tables and leaves when they are
 * first needed, and numbers the noted objects (mark_bits_rank), so that an array can hold something
 * for each of them.
 */
#include "mark_bits.h"

#include "../process/scratch.h"

#include <errno.h>

#define TABLES_BYTES (MARK_BITS_TABLE_ENTRIES * sizeof(mark_bits_table *))
#define RANKS_BYTES (MARK_BITS_LEAF_WORDS * sizeof(uint32_t))

const mark_bits_table mark_bits_no_leaves;

int
mark_bits_init(mark_bits *bits)
{
    bits->first = NULL;
    bits->bytes = 0;
    int err = scratch_map((void **)&bits->tables, TABLES_BYTES);
    if (err) {
        bits->tables = NULL;
        return err;
    }
    for (size_t i = 0; i < MARK_BITS_TABLE_ENTRIES; i++) {
        bits->tables[i] = (mark_bits_table *)&mark_bits_no_leaves;
    }
    bits->bytes = TABLES_BYTES;
    return 0;
}

static void
release_leaves(mark_bits *bits)
{
    while (bits->first != NULL) {
        mark_bits_leaf *leaf = bits->first;
        bits->first = leaf->next;
        if (leaf->ranks != NULL) {
            scratch_unmap(leaf->ranks, RANKS_BYTES);
        }
        scratch_unmap(leaf, sizeof *leaf);
    }
}

void
mark_bits_release(mark_bits *bits)
{
    release_leaves(bits);
    for (size_t i = 0; i < MARK_BITS_TABLE_ENTRIES; i++) {
        if (bits->tables[i] != &mark_bits_no_leaves) {
            scratch_unmap(bits->tables[i], sizeof(mark_bits_table));
        }
    }
    scratch_unmap(bits->tables, TABLES_BYTES);
    bits->tables = NULL;
}

/* The table for an address, mapped if need be; NULL where memory could not be had. */
static mark_bits_table *
table_for(mark_bits *bits, uintptr_t address)
{
    mark_bits_table **slot = &bits->tables[mark_bits_table_index(address)];
    if (*slot == &mark_bits_no_leaves) {
        mark_bits_table *table = NULL;
        if (scratch_map((void **)&table, sizeof *table) != 0) {
            return NULL;
        }
        bits->bytes += sizeof *table;
        *slot = table;
    }
    return *slot;
}

static void
put_in_order(mark_bits *bits, mark_bits_leaf *leaf)
{
    mark_bits_leaf **link = &bits->first;
    while (*link != NULL && (*link)->base < leaf->base) {
        link = &(*link)->next;
    }
    leaf->next = *link;
    *link = leaf;
}

mark_bits_leaf *
mark_bits_add_leaf(mark_bits *bits, uintptr_t address)
{
    mark_bits_table *table = table_for(bits, address);
    mark_bits_leaf *leaf = NULL;
    if (table == NULL || scratch_map((void **)&leaf, sizeof *leaf) != 0) {
        return NULL;
    }
    leaf->base = address >> MARK_BITS_LEAF_LOG2 << MARK_BITS_LEAF_LOG2;
    put_in_order(bits, leaf);
    table->leaves[mark_bits_leaf_index(address)] = leaf;
    bits->bytes += sizeof *leaf;
    return leaf;
}

int
mark_bits_rank(mark_bits *bits)
{
    uint32_t rank = 0;
    for (mark_bits_leaf *leaf = bits->first; leaf != NULL; leaf = leaf->next) {
        int err = scratch_map((void **)&leaf->ranks, RANKS_BYTES);
        if (err) {
            leaf->ranks = NULL;
            return err;
        }
        bits->bytes += RANKS_BYTES;
        for (size_t i = 0; (i = mark_bits_skip_untouched(leaf, i)) < MARK_BITS_LEAF_WORDS; i++) {
            leaf->ranks[i] = rank;
            rank += (uint32_t)__builtin_popcountll(leaf->noted[i]);
        }
    }
    return 0;
}
