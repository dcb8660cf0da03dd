#include "marks.h"

#include "scratch.h"

#include <errno.h>

#define DIRECTORY_BYTES (MARKS_LEAVES * sizeof(marks_leaf *))
#define RANKS_BYTES (MARKS_LEAF_WORDS * sizeof(uint32_t))

int
marks_init(marks *marks)
{
    marks->first = NULL;
    marks->bytes = 0;
    return scratch_map((void **)&marks->leaves, DIRECTORY_BYTES);
}

void
marks_release(marks *marks)
{
    while (marks->first != NULL) {
        marks_leaf *leaf = marks->first;
        marks->first = leaf->next;
        if (leaf->ranks != NULL) {
            scratch_unmap(leaf->ranks, RANKS_BYTES);
        }
        scratch_unmap(leaf, sizeof *leaf);
    }
    scratch_unmap(marks->leaves, DIRECTORY_BYTES);
    marks->leaves = NULL;
}

marks_leaf *
marks_add_leaf(marks *marks, uintptr_t address)
{
    marks_leaf *leaf = NULL;
    if (scratch_map((void **)&leaf, sizeof *leaf) != 0) {
        return NULL;
    }
    leaf->base = address >> MARKS_LEAF_BITS << MARKS_LEAF_BITS;
    marks_leaf **link = &marks->first;
    while (*link != NULL && (*link)->base < leaf->base) {
        link = &(*link)->next;
    }
    leaf->next = *link;
    *link = leaf;
    *marks_leaf_slot(marks, (void *)address) = leaf;
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
