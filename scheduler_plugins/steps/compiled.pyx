# cython: language_level=3, boundscheck=True, wraparound=False
"""The steps of in_python.py, which describes them, in Cython: each reads its nodes once."""

import numpy as np

from scheduler_plugins.steps import in_python
from scheduler_plugins.steps.formula import NO_GROUP

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define FETCH(address) __builtin_prefetch(address)
    #else
    #define FETCH(address) ((void)(address))
    #endif
    """
    void FETCH(const void* address) noexcept nogil  # starts to load memory, so that many loads overlap

cdef double MAX_SCORE = in_python.MAX_SCORE
cdef double AVOIDED = in_python.AVOIDED
cdef int64_t LARGEST_SPAN = in_python.LARGEST_SPAN
cdef int8_t NONE = NO_GROUP
INTEGERS = np.dtype(np.int64)

cdef void* allocate(size_t size) except NULL:
    cdef void* memory = malloc(size + 1)
    if memory is NULL:
        raise MemoryError
    return memory

cdef inline uint64_t mixed(uint64_t value) noexcept nogil:
    """The finalizer of SplitMix64: each bit of the value changes about half of the result's."""
    value = (value ^ (value >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * <uint64_t>0x94D049BB133111EB
    return value ^ (value >> 31)

cdef inline uint64_t hash_of(const char* text, size_t length) noexcept nogil:
    cdef uint64_t result = length, word
    while length >= 8:
        memcpy(&word, text, 8)
        result = mixed(result ^ word)
        text += 8
        length -= 8
    word = 0
    memcpy(&word, text, length)
    return mixed(result ^ word)


# Rows by names

cdef struct Slot:
    uint64_t hash
    int64_t row  # -1: the slot is free

cdef struct Name:
    const char* text
    size_t length
    uint64_t hash
    int64_t row

cdef class NodeIndex:
    """A table with open addressing. It compares the names, not only their hashes."""

    cdef Slot* slots
    cdef uint64_t mask
    cdef bytes text  # all names
    cdef size_t* starts  # where each begins in it, and where the last one ends
    cdef int64_t* named  # the last request that named each row
    cdef int64_t request
    cdef Name* names  # of the last request
    cdef Py_ssize_t count

    def __cinit__(self, names):
        cdef Py_ssize_t row, size = 16
        cdef uint64_t slot, hashed
        cdef const char* text
        parts = [name.encode("utf-8", "surrogatepass") for name in names]
        self.count = len(parts)
        while size < 2 * self.count:
            size *= 2
        self.mask = size - 1
        self.text = b"".join(parts)
        self.slots = <Slot*>allocate(size * sizeof(Slot))
        self.starts = <size_t*>allocate((self.count + 1) * sizeof(size_t))
        self.named = <int64_t*>allocate(self.count * sizeof(int64_t))
        self.names = <Name*>allocate(self.count * sizeof(Name))
        for slot in range(<uint64_t>size):
            self.slots[slot].row = -1
        text = self.text
        self.starts[0] = 0
        for row in range(self.count):
            self.named[row] = 0
            self.starts[row + 1] = self.starts[row] + <size_t>len(parts[row])
            hashed = hash_of(text + self.starts[row], self.starts[row + 1] - self.starts[row])
            slot = hashed & self.mask
            while self.slots[slot].row >= 0:
                slot = (slot + 1) & self.mask
            self.slots[slot] = Slot(hashed, row)

    def __dealloc__(self):
        free(self.slots)
        free(self.starts)
        free(self.named)
        free(self.names)

    def rows(self, const uint8_t[::1] text):
        cdef const char* names = self.text
        cdef Py_ssize_t count = -1, at
        if text.shape[0]:
            count = self.read(<const char*>&text[0], <const char*>&text[0] + text.shape[0])
        if count < 0 or not self.look_up(count) or not self.agree(count, names):
            return None
        result = np.empty(count, np.intp)
        cdef Py_ssize_t[::1] rows = result
        for at in range(count):
            rows[at] = self.names[at].row
        return result

    cdef Py_ssize_t read(self, const char* text, const char* end) noexcept nogil:
        """Read a JSON array of strings as Go writes it, without spaces. Return their number, or -1 for any other text."""
        cdef Py_ssize_t count = 0
        cdef Name* name
        if text[0] != b"[":
            return -1
        text += 1
        if end - text == 1 and text[0] == b"]":
            return 0
        while count < self.count and text < end and text[0] == b'"':
            name = &self.names[count]
            text += 1
            name.text = text
            while text < end and text[0] != b'"':
                if text[0] == b"\\":
                    return -1
                text += 1
            if end - text < 2:
                return -1
            name.length = text - name.text
            name.hash = hash_of(name.text, name.length)
            FETCH(&self.slots[name.hash & self.mask])
            count += 1
            text += 1
            if text[0] == b"]":
                return count if end - text == 1 else -1
            if text[0] != b",":
                return -1
            text += 1
        return -1

    cdef bint look_up(self, Py_ssize_t count) noexcept nogil:
        """Find the rows by the hashes of the names. Return whether each has one."""
        cdef Py_ssize_t at
        cdef uint64_t slot
        cdef Name* name
        for at in range(count):
            name = &self.names[at]
            slot = name.hash & self.mask
            while self.slots[slot].row >= 0 and self.slots[slot].hash != name.hash:
                slot = (slot + 1) & self.mask
            name.row = self.slots[slot].row
            if name.row < 0:
                return False
            FETCH(&self.starts[name.row])
            FETCH(&self.named[name.row])
        return True

    cdef bint agree(self, Py_ssize_t count, const char* names) noexcept nogil:
        """Return whether the rows have these names, and each is named once."""
        cdef Py_ssize_t at
        cdef size_t start
        cdef Name* name
        for at in range(count):
            FETCH(names + self.starts[self.names[at].row])
        self.request += 1
        for at in range(count):
            name = &self.names[at]
            start = self.starts[name.row]
            if self.named[name.row] == self.request or self.starts[name.row + 1] - start != name.length:
                return False
            if memcmp(names + start, name.text, name.length):
                return False
            self.named[name.row] = self.request
        return True


# The best of each group

cdef struct Node:
    double cost
    uint64_t lot
    Py_ssize_t row

cdef struct Heap:  # the best nodes of a group so far, the worst of them first
    Node* nodes
    Py_ssize_t wanted
    Py_ssize_t size

cdef inline bint is_worse(const Node* one, const Node* other) noexcept nogil:
    return one.cost > other.cost or (one.cost == other.cost and one.lot > other.lot)

cdef void sink(Node* nodes, Node node, Py_ssize_t size) noexcept nogil:
    """Put a node into the place of the first, and restore the order of the heap."""
    cdef Py_ssize_t place = 0, child = 1
    while child < size:
        if child + 1 < size and is_worse(&nodes[child + 1], &nodes[child]):
            child += 1
        if not is_worse(&nodes[child], &node):
            break
        nodes[place] = nodes[child]
        place, child = child, 2 * child + 1
    nodes[place] = node

cdef void add(Heap* heap, const Node* node) noexcept nogil:
    cdef Py_ssize_t place = heap.size, parent
    if heap.size == heap.wanted:
        if heap.size and is_worse(&heap.nodes[0], node):
            sink(heap.nodes, node[0], heap.size)
        return
    heap.size += 1
    while place:
        parent = (place - 1) // 2
        if not is_worse(node, &heap.nodes[parent]):
            break
        heap.nodes[place] = heap.nodes[parent]
        place = parent
    heap.nodes[place] = node[0]

cdef void sort(Heap* heap) noexcept nogil:
    """Move the worst of the nodes that remain to their end, until none remains."""
    cdef Py_ssize_t last
    cdef Node moved
    for last in range(heap.size - 1, 0, -1):
        moved = heap.nodes[last]
        heap.nodes[last] = heap.nodes[0]
        sink(heap.nodes, moved, last)

def best_of_groups(const double[:] scores, const int32_t[:] groups, avoided, count, generator):
    cdef const uint8_t[:] last = avoided.view(np.uint8) if avoided is not None else None
    cdef uint64_t lots = generator.bit_generator.random_raw()
    cdef Py_ssize_t number = 0, group, row, total = 0
    cdef Py_ssize_t[::1] rows
    cdef Heap* heaps = NULL
    cdef Node* nodes = NULL
    cdef Node node
    for row in range(groups.shape[0]):
        if groups[row] < 0:
            raise ValueError(f"node {row} is in group {groups[row]}: must not be negative")
        number = max(number, groups[row] + 1)
    try:
        heaps = <Heap*>allocate(number * sizeof(Heap))
        for group in range(number):
            heaps[group] = Heap(NULL, 0, 0)
        for row in range(groups.shape[0]):
            heaps[groups[row]].wanted += 1
        for group in range(number):
            if heaps[group].wanted:
                heaps[group].wanted = max(0, min(heaps[group].wanted, count(heaps[group].wanted)))
            total += heaps[group].wanted
        nodes = <Node*>allocate(total * sizeof(Node))
        total = 0
        for group in range(number):
            heaps[group].nodes = &nodes[total]
            total += heaps[group].wanted
        for row in range(groups.shape[0]):
            lots += <uint64_t>0x9E3779B97F4A7C15  # the step of SplitMix64
            node = Node((AVOIDED if last is not None and last[row] else 0.0) - scores[row], mixed(lots), row)
            group = groups[row]
            if not 0 <= group < number:
                raise ValueError("`count` has changed the groups")
            add(&heaps[group], &node)
        for group in range(number):
            sort(&heaps[group])
        result = np.empty(total, np.intp)
        rows = result
        for row in range(total):
            rows[row] = nodes[row].row
    finally:
        free(heaps)
        free(nodes)
    return result

def groups_of(const int32_t[:, :] table, const int64_t[:] ids):
    cdef Py_ssize_t at
    result = np.empty(ids.shape[0], np.int32)
    cdef int32_t[::1] groups = result
    for at in range(ids.shape[0]):
        groups[at] = table[ids[at], 0]
        if groups[at] < 0:
            return None
    return result


# Scores and limits

def weighted_mean(scores, weights, Py_ssize_t count):
    cdef Py_ssize_t row
    cdef double weight, total = sum(weights), score
    cdef const double[:] numbers
    cdef const int64_t[:] integers
    cdef double[::1] sums
    result = np.zeros(count)
    sums = result
    for some, weight in zip(scores, weights, strict=True):
        integers = some if getattr(some, "dtype", None) is INTEGERS else None
        numbers = np.asarray(some, np.float64) if integers is None else None
        if (integers.shape[0] if integers is not None else numbers.shape[0]) != count:
            raise ValueError(f"there are not {count} scores")
        for row in range(count):
            score = integers[row] if integers is not None else numbers[row]
            if not 0.0 <= score <= MAX_SCORE:  # NaN is not, either
                raise ValueError("a score is outside of 0 to 100")
            sums[row] += weight * score
    for row in range(count):
        sums[row] /= total
    return result

def any_exceeds(const int64_t[:, :] amounts, const int64_t[:, :] limits, const int64_t[:] more):
    cdef Py_ssize_t row, column
    if limits.shape[0] != amounts.shape[0] or limits.shape[1] != amounts.shape[1] or more.shape[0] != amounts.shape[1]:
        raise ValueError("amounts, limits and additions have different shapes")
    for column in range(more.shape[0]):
        for row in range(amounts.shape[0]):
            if amounts[row, column] > limits[row, column] - more[column]:
                return True
    return False


# Changes of rows

def change_rows(
    int64_t[:, ::1] amounts,
    double[:, ::1] variance,
    const Py_ssize_t[::1] rows,
    const int64_t[:, ::1] more,
    const double[:, ::1] more_variance,
    int sign,
):
    cdef Py_ssize_t at, column
    if amounts.shape[1] != more.shape[1] or variance.shape[1] != more_variance.shape[1]:
        raise ValueError("the rows and the additions have different widths")
    if more.shape[0] != rows.shape[0] or more_variance.shape[0] != rows.shape[0]:
        raise ValueError("the number of rows and the number of additions differ")
    for at in range(rows.shape[0]):
        if not 0 <= rows[at] < min(amounts.shape[0], variance.shape[0]):
            raise IndexError(f"row {rows[at]} is outside of the matrices")
        FETCH(&amounts[rows[at], 0] if amounts.shape[1] else NULL)
        FETCH(&variance[rows[at], 0] if variance.shape[1] else NULL)
    for at in range(rows.shape[0]):
        for column in range(more.shape[1]):
            amounts[rows[at], column] += sign * more[at, column]
        for column in range(more_variance.shape[1]):
            variance[rows[at], column] += sign * more_variance[at, column]


# Filters and scores of ordinary nodes

cdef column(columns, name):
    return columns[name] if name else None

cdef class Columns:
    """The columns and numbers of a formula; formula.py describes them."""

    cdef const int64_t[:, :] slack, spare, divisor
    cdef const int8_t[:] group
    cdef const double[:] time
    cdef const int64_t[:] score, position
    cdef int64_t[::1] weights, more  # more: the amounts of the present pod
    cdef double seconds, weight
    cdef int64_t dominant, total
    cdef Py_ssize_t first, amounts
    cdef bint counts  # for the present pod

    def __cinit__(self, part, Py_ssize_t amounts):
        formula, columns = part.formula, part.columns
        self.slack, self.group = column(columns, formula.slack), column(columns, formula.group)
        self.time, self.seconds = column(columns, formula.time), formula.seconds
        self.spare, self.divisor = column(columns, formula.spare), column(columns, formula.divisor)
        self.weights, self.dominant = np.array(formula.weights, np.int64), formula.dominant
        self.total = sum(formula.weights) + formula.dominant
        self.score, self.position = column(columns, formula.score), column(columns, formula.position)
        self.first, self.amounts, self.weight = part.first, amounts, part.weight
        self.more = np.zeros(len(columns.get(formula.slack or formula.spare, ())), np.int64)

    cdef bint prepare(self, amounts) except -1:
        """Take the amounts of the pod. Return whether the formula counts."""
        cdef Py_ssize_t at
        self.counts = amounts is not None
        if not self.counts:
            return False
        if len(amounts) != self.more.shape[0]:
            raise ValueError(f"the pod has {len(amounts)} amounts, the formula {self.more.shape[0]}")
        for at in range(self.more.shape[0]):
            self.more[at] = amounts[at]
        return True

    cdef bint is_old(self, Py_ssize_t row, double now) except -1:
        return self.time is not None and not now - self.time[row] < self.seconds

    cdef Py_ssize_t filter(self, const int64_t[:, ::1] common, Py_ssize_t[::1] rows, Py_ssize_t count, double now) except -2:
        """Move the rows that pass to the front. Return how many do, or -1 where a node is not ordinary."""
        cdef Py_ssize_t at, row, column, passing = 0
        cdef bint may, must
        cdef int64_t left
        for at in range(count):
            row = rows[at]
            if self.is_old(row, now):
                return -1
            may = must = False
            for column in range(self.slack.shape[0]):
                left = self.slack[column, row] - self.more[column]
                may |= common[row, self.first + self.amounts + column] > left
                must |= common[row, self.first + column] - 1 > left
            if may and self.group[row] != NONE:
                if not must or self.group[row] < NONE:
                    return -1
                continue
            rows[passing] = row
            passing += 1
        return passing

    cdef bint are_ordinary(self, const int64_t[:, ::1] common, const Py_ssize_t[::1] rows, double now) except -1:
        """Return whether the score of each node is by the formula."""
        cdef Py_ssize_t at, column
        for at in range(rows.shape[0]):
            if self.is_old(rows[at], now):
                return False
            for column in range(self.slack.shape[0] if self.slack is not None else 0):
                if common[rows[at], self.first + column] > self.slack[column, rows[at]] - self.more[column]:
                    return False
        return True

    cdef bint add(self, const int64_t[:, ::1] common, const Py_ssize_t[::1] rows, double[::1] sums) except -1:
        """Add the weighted scores. Return whether all are by the formula."""
        cdef Py_ssize_t at, row
        cdef int64_t score = 0, least = 0, most = 0, span = 0
        if self.position is not None:
            least = most = self.position[rows[0]]
            for at in range(rows.shape[0]):
                least, most = min(least, self.position[rows[at]]), max(most, self.position[rows[at]])
            span = most - least
            if not 0 <= span <= LARGEST_SPAN:  # a difference beyond 64 bits is negative
                return False
        for at in range(rows.shape[0]):
            row = rows[at]
            if self.spare is not None:
                score = self.free(common, row)
            elif self.score is not None:
                score = self.score[row]
            elif span:
                score = (self.position[row] - least) * 100 // span
            if not 0 <= score <= <int64_t>MAX_SCORE:
                return False
            sums[at] += self.weight * score
        return True

    cdef int64_t free(self, const int64_t[:, ::1] common, Py_ssize_t row) except? -1:
        cdef int64_t weighted = 0, least = 100, share
        cdef Py_ssize_t column
        for column in range(self.spare.shape[0]):
            share = max(self.spare[column, row] - common[row, self.first + column] - self.more[column], 0)
            share = share * 100 // self.divisor[column, row]
            weighted += share * self.weights[column]
            least = min(least, share)
        return (weighted + least * self.dominant) // self.total

cdef class Evaluator:

    cdef const int64_t[:, ::1] common
    cdef Py_ssize_t pods
    cdef tuple formulas
    cdef double total

    def __cinit__(self, common, parts, Py_ssize_t amounts, Py_ssize_t pods):
        self.common, self.pods = common, pods
        self.formulas = tuple(Columns(part, amounts) for part in parts)
        self.total = sum(part.weight for part in parts)

    def evaluate(self, const Py_ssize_t[:] rows, amounts, double now):
        cdef Columns formula
        cdef Py_ssize_t count = rows.shape[0], at
        cdef int64_t pods = 0
        result = np.array(rows)
        cdef Py_ssize_t[::1] passing = result
        cdef int64_t[::1] numbered
        cdef double[::1] sums
        for formula, of_pod in zip(self.formulas, amounts, strict=True):
            if formula.prepare(of_pod) and formula.group is not None:
                count = formula.filter(self.common, passing, count, now)
            if count <= 0:
                return None
        result, passing, ids, scores = result[:count], passing[:count], np.empty(count, np.int64), np.zeros(count)
        numbered, sums = ids, scores
        for formula in self.formulas:
            if not formula.counts:
                continue
            if formula.group is None and not formula.are_ordinary(self.common, passing, now):
                return None
            if not formula.add(self.common, passing, sums):
                return None
        for at in range(count):
            sums[at] = sums[at] / self.total if self.total else 0.0
            pods += self.common[passing[at], self.pods]
            numbered[at] = self.common[passing[at], 0]
        return result, ids, scores, pods
