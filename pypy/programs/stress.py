"""A random program against a model of itself, in a parent and its forked children.

    stress SEED STEPS

Keeps a table of slots. A step fills a slot with a cell, a large array, a pinned buffer or a
weak reference, links cells to each other, drops them, collects, or forks a child that goes on
for a while with a seed of its own. Beside each slot stands what it must hold: numbers that
are not objects, so that the collector cannot spoil both in the same way. `verify` compares.

A finalizer of a cell may run only when no slot leads to it; each runs once.

Says `ok SEED CHECKED CHILDREN`, or what was wrong, and ends with status 1.
"""
import os

from rpython.rlib import rgc, rweakref
from rpython.rlib.rarithmetic import intmask

SLOTS = 400
EMPTY, CELL, LARGE, PINNED, WEAK = range(5)


class Random(object):
    def __init__(self, seed):
        self.state = seed * 2654435761 + 12345

    def below(self, limit):
        self.state = intmask(self.state * 6364136223846793005 + 1442695040888963407)
        return ((self.state >> 33) & 0x3fffffff) % limit


class Cell(object):
    def __init__(self, number):
        self.number = number
        self.text = 'cell %d' % number
        self.left = None
        self.right = None


class Finalized(Cell):
    def __init__(self, number):
        Cell.__init__(self, number)
        heap.queue.register_finalizer(self)


class Queue(rgc.FinalizerQueue):
    Class = Finalized

    def finalizer_trigger(self):
        while True:
            cell = self.next_dead()
            if cell is None:
                break
            heap.note_finalized(cell)


class Heap(object):
    def __init__(self):
        self.queue = Queue()

    def start(self):
        self.cells = [None] * SLOTS
        self.arrays = [None] * SLOTS
        self.buffers = [''] * SLOTS
        self.pinned = [False] * SLOTS
        self.weak = [None] * SLOTS
        self.kind = [EMPTY] * SLOTS
        self.number = [0] * SLOTS
        self.links = [-1] * SLOTS        # number of the cell that the slot's cell leads to
        self.weak_alive = [-1] * SLOTS   # slot that keeps the target of a weak reference
        self.finalized = {}
        self.spoilt = -1                 # number of a cell finalized twice, or spoilt
        self.next_number = 1
        self.checked = 0
        self.children = 0

    def note_finalized(self, cell):
        # Runs inside a collection: it may not do more than take notes.
        if cell.number in self.finalized or cell.text != 'cell %d' % cell.number:
            self.spoilt = cell.number
        self.finalized[cell.number] = True


heap = Heap()


def fail(what):
    os.write(2, 'stress: %s\n' % what)
    os._exit(1)


def clear(slot):
    if heap.pinned[slot]:
        rgc.unpin(heap.buffers[slot])
        heap.pinned[slot] = False
    heap.cells[slot] = None
    heap.arrays[slot] = None
    heap.buffers[slot] = ''
    heap.weak[slot] = None
    heap.kind[slot] = EMPTY
    heap.links[slot] = -1
    for other in range(SLOTS):
        if heap.weak_alive[other] == slot:
            heap.weak_alive[other] = -1


def new_number():
    heap.next_number += 1
    return heap.next_number


def put_cell(random, slot):
    number = new_number()
    cell = Finalized(number) if random.below(6) == 0 else Cell(number)
    heap.cells[slot] = cell
    heap.kind[slot] = CELL
    heap.number[slot] = number
    other = random.below(SLOTS)
    if heap.kind[other] == CELL:
        cell.left = heap.cells[other]
        heap.links[slot] = heap.number[other]


def put_large(random, slot):
    length = 40 + random.below(60) if random.below(4) else 20000 + random.below(30000)
    array = [None] * length
    number = new_number()
    step = 1 + length // 7
    i = 0
    while i < length:
        array[i] = Cell(number + i)
        i += step
    heap.next_number += length
    heap.arrays[slot] = array
    heap.kind[slot] = LARGE
    heap.number[slot] = number


def put_pinned(random, slot):
    number = new_number()
    text = 'pinned %d ' % number
    heap.buffers[slot] = text
    heap.pinned[slot] = rgc.can_move(text) and rgc.pin(text)
    heap.kind[slot] = PINNED
    heap.number[slot] = number


def put_weak(random, slot):
    other = random.below(SLOTS)
    cell = heap.cells[other]
    if cell is not None:
        heap.weak[slot] = rweakref.ref(cell)
        heap.kind[slot] = WEAK
        heap.number[slot] = heap.number[other]
        heap.weak_alive[slot] = other


def relink(random):
    slot = random.below(SLOTS)
    other = random.below(SLOTS)
    if heap.kind[slot] == CELL and heap.kind[other] == CELL:
        heap.cells[slot].left = heap.cells[other]
        heap.links[slot] = heap.number[other]
    elif heap.kind[slot] == LARGE:
        array = heap.arrays[slot]
        if array is not None:
            step = 1 + len(array) // 7
            place = random.below(len(array) // step) * step
            array[place] = Cell(heap.number[slot] + place)


def garbage(random):
    total = 0
    for i in range(random.below(200)):
        total += len(Cell(i).text)
    return total


def crowd(random):
    """Cells with finalizers that die together, so many that RPython's lists of them, which have
    chunks of 1,019 entries, give chunks back and take them again.
    """
    for i in range(1500 + random.below(1500)):
        Finalized(new_number())


def verify_large(slot):
    array = heap.arrays[slot]
    if array is None:
        fail('a large array is gone')
        return
    step = 1 + len(array) // 7
    for i in range(len(array)):
        cell = array[i]
        if i % step == 0:
            if cell is None or cell.number != heap.number[slot] + i:
                fail('a large array has a wrong cell')
        elif cell is not None:
            fail('a large array has a cell too many')


def verify():
    if heap.spoilt >= 0:
        fail('cell %d was finalized twice or spoilt' % heap.spoilt)
    for slot in range(SLOTS):
        kind = heap.kind[slot]
        number = heap.number[slot]
        if kind == CELL:
            cell = heap.cells[slot]
            if cell is None or cell.number != number or cell.text != 'cell %d' % number:
                fail('slot %d has a wrong cell' % slot)
            elif number in heap.finalized:
                fail('a reachable cell was finalized')
            elif heap.links[slot] >= 0:
                left = cell.left
                if left is None or left.number != heap.links[slot]:
                    fail('slot %d leads to a wrong cell' % slot)
                elif left.text != 'cell %d' % left.number:
                    fail('slot %d leads to a spoilt cell' % slot)
                elif left.number in heap.finalized:
                    fail('a cell that another leads to was finalized')
        elif kind == LARGE:
            verify_large(slot)
        elif kind == PINNED:
            if heap.buffers[slot] != 'pinned %d ' % number:
                fail('a pinned buffer is spoilt')
        elif kind == WEAK:
            ref = heap.weak[slot]
            if ref is not None:
                target = ref()
                if target is None and heap.weak_alive[slot] >= 0:
                    fail('a weak reference lost a live cell')
                if target is not None and target.number != number:
                    fail('a weak reference leads to another cell')
        heap.checked += 1


def step(random, depth, seed):
    what = random.below(1000)
    slot = random.below(SLOTS)
    if what < 3 and depth < 2 and heap.children < 12:
        fork(random, depth, seed)
    elif what < 10:
        # Not collect(1): rpython 0.2.1 starts a major collection there without a minor one
        # before it if finalizers have just run.
        rgc.collect(2 * random.below(2))
        verify()
    elif what < 60:
        relink(random)
    elif what < 100:
        garbage(random)
    elif what < 105:
        crowd(random)
    else:
        clear(slot)
        if what < 600:
            put_cell(random, slot)
        elif what < 700:
            put_large(random, slot)
        elif what < 750:
            put_pinned(random, slot)
        elif what < 900:
            put_weak(random, slot)


def run(random, steps, depth, seed):
    for _ in range(steps):
        step(random, depth, seed)
    rgc.collect()
    verify()


def fork(random, depth, seed):
    heap.children += 1
    pid = os.fork()
    if pid == 0:
        run(Random(seed * 31 + heap.children), 600, depth + 1, seed * 31 + heap.children)
        os._exit(0)
    if random.below(2):
        for _ in range(200):    # while the child runs
            step(random, 2, seed)
    pid, status = os.waitpid(pid, 0)
    if status != 0:
        fail('a child ended with status %d' % status)


def entry_point(argv):
    seed = int(argv[1])
    heap.start()
    run(Random(seed), int(argv[2]), 0, seed)
    os.write(1, 'ok %d %d %d\n' % (seed, heap.checked, heap.children))
    return 0
