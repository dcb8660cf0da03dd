#include "mark_bits.h"

#include "../process/scratch.h"

#include <errno.h>

#define TABLES_BYTES (MARKS_TABLE_ENTRIES * sizeof(marks_table *))
#define RANKS_BYTES (MARKS_LEAF_WORDS * sizeof(uint32_t))

const marks_table marks_no_leaves;

int
marks_init(marks *marks)
{
    marks->first = NULL;
    marks->bytes = 0;
    int err = scratch_map((void **)&marks->tables, TABLES_BYTES);
    if (err) {
        marks->tables = NULL;
        return err;
    }
    for (size_t i = 0; i < MARKS_TABLE_ENTRIES; i++) {
        marks->tables[i] = (marks_table *)&marks_no_leaves;
    }
    marks->bytes = TABLES_BYTES;
    return 0;
}

static void
release_leaves(marks *marks)
{
    while (marks->first != NULL) {
        marks_leaf *leaf = marks->first;
        marks->first = leaf->next;
        if (leaf->ranks != NULL) {
            scratch_unmap(leaf->ranks, RANKS_BYTES);
        }
        scratch_unmap(leaf, sizeof *leaf);
    }
}

void
marks_release(marks *marks)
{
    release_leaves(marks);
    for (size_t i = 0; i < MARKS_TABLE_ENTRIES; i++) {
        if (marks->tables[i] != &marks_no_leaves) {
            scratch_unmap(marks->tables[i], sizeof(marks_table));
        }
    }
    scratch_unmap(marks->tables, TABLES_BYTES);
    marks->tables = NULL;
}

/* The table for an address, mapped if need be; NULL where memory could not be had. */
static marks_table *
table_for(marks *marks, uintptr_t address)
{
    marks_table **slot = &marks->tables[marks_table_index(address)];
    if (*slot == &marks_no_leaves) {
        marks_table *table = NULL;
        if (scratch_map((void **)&table, sizeof *table) != 0) {
            return NULL;
        }
        marks->bytes += sizeof *table;
        *slot = table;
    }
    return *slot;
}

static void
put_in_order(marks *marks, marks_leaf *leaf)
{
    marks_leaf **link = &marks->first;
    while (*link != NULL && (*link)->base < leaf->base) {
        link = &(*link)->next;
    }
    leaf->next = *link;
    *link = leaf;
}

marks_leaf *
marks_add_leaf(marks *marks, uintptr_t address)
{
    marks_table *table = table_for(marks, address);
    marks_leaf *leaf = NULL;
    if (table == NULL || scratch_map((void **)&leaf, sizeof *leaf) != 0) {
        return NULL;
    }
    leaf->base = address >> MARKS_LEAF_BITS << MARKS_LEAF_BITS;
    put_in_order(marks, leaf);
    table->leaves[marks_leaf_index(address)] = leaf;
    marks->bytes += sizeof *leaf;
    return leaf;
}

int
marks_rank(marks *marks)
{
    uint32_t rank = 0;
    for (marks_leaf *leaf = marks->first; leaf != NULL; leaf = leaf->next) {
        int err = scratch_map((void **)&leaf->ranks, RANKS_BYTES);
        if (err) {
            leaf->ranks = NULL;
            return err;
        }
        marks->bytes += RANKS_BYTES;
        for (size_t i = 0; (i = marks_skip_untouched(leaf, i)) < MARKS_LEAF_WORDS; i++) {
            leaf->ranks[i] = rank;
            rank += (uint32_t)__builtin_popcountll(leaf->noted[i]);
        }
    }
    return 0;
}
