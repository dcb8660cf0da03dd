"""A program that does little but allocate: trees built from above, kept for a while, dropped.

    allocation ROUNDS

Says `cpu MICROSECONDS`, CPU time after a first round that warms up.
"""
import os
import time


class Node(object):
    def __init__(self, left, right, depth):
        self.left = left
        self.right = right
        self.depth = depth
        self.label = None


def tree(depth):
    if depth == 0:
        return Node(None, None, 0)
    node = Node(tree(depth - 1), tree(depth - 1), depth)
    if depth & 3 == 0:
        node.label = str(depth)
    return node


def count(node):
    if node.left is None:
        return 1
    return 1 + count(node.left) + count(node.right)


def one_round(kept):
    total = 0
    for i in range(24):
        built = tree(14)
        total += count(built)
        kept[i % len(kept)] = built
    for i in range(400):
        total += count(tree(8))
    return total


def entry_point(argv):
    long_lived = tree(17)
    kept = [long_lived] * 6
    expected = one_round(kept)
    start = time.clock()
    for _ in range(int(argv[1])):
        if one_round(kept) != expected:
            return 1
    os.write(1, 'cpu %d\n' % int((time.clock() - start) * 1000000))
    return 0 if count(long_lived) == 2 ** 18 - 1 else 1
