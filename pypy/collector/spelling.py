"""What the collector assumes about RPython's sources, checked before it is used.

A derived class depends on more than an interface: on which methods of the base class look at
GCFLAG_VISITED, and on the fields of its lists. RPython has no version number that would show a change.
"""
from rpython.memory.support import get_address_deque, get_address_stack
from rpython.memory.support import DEFAULT_CHUNK_SIZE, get_chunk_manager


class UnknownSpelling(Exception):
    def __init__(self, what):
        Exception.__init__(
            self, "this RPython is not one that the collector knows: %s.\n"
            "hint: it was tested with rpython 0.2.1 from PyPI, and with that of PyPy 8.0" % what)


# Methods that read or write GCFLAG_VISITED, and what becomes of each.
OVERRIDDEN = {
    'visit', 'record_pinned_object_with_shadow', '_add_to_more_objects_to_trace',
    '_add_to_more_objects_to_trace_if_black', '_trace_drag_out1_marking_phase',
    '_sweep_old_objects_pointing_to_pinned', '_free_if_unvisited', '_reset_gcflag_visited',
    'free_unvisited_rawmalloc_objects_step', 'deal_with_old_objects_with_destructors',
    'deal_with_objects_with_finalizers', '_finalization_state', 'invalidate_old_weakrefs',
    '_rrc_major_free', '_debug_check_object_marking', '_debug_check_not_white',
    '_debug_check_object_scanning'}
NURSERY_ONLY = {'_minor_collection', '_trace_drag_out'}
WRAPPED = {'collect_cardrefs_to_nursery'}

# Methods that ours calls or replaces, with their arguments after self.
SIGNATURES = {
    '_minor_collection': (), 'major_collection_step': ('reserving_size',),
    'external_malloc': ('typeid', 'length', 'alloc_young'),
    '_malloc_out_of_nursery_nonsmall': ('totalsize',), 'collect_cardrefs_to_nursery': (),
    'visit_all_objects_step': ('size_to_track',), 'start_free_rawmalloc_objects': (),
    'free_unvisited_rawmalloc_objects_step': ('nobjects',),
    'free_rawmalloced_object_if_unvisited': ('obj', 'check_flag'),
    'deal_with_objects_with_finalizers': (), 'deal_with_old_objects_with_destructors': (),
    'invalidate_old_weakrefs': (), 'rrc_major_collection_free': (),
    'record_pinned_object_with_shadow': ('obj', 'new_shadow_object_dict'),
    'debug_check_consistency': (), 'debug_check_object': ('obj',), 'post_setup': (),
    '_rrc_free': ('pyobject',), 'mark_finalizer_to_run': ('fq_index', 'obj')}

STACK_FIELDS = ('chunk', 'used_in_last_chunk')
DEQUE_FIELDS = ('oldest_chunk', 'newest_chunk', 'index_in_oldest', 'index_in_newest')


def _names(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, 'co_names'):
            names |= _names(constant)
    return names


def _method(cls, name):
    method = getattr(cls, name, None)
    if method is None:
        raise UnknownSpelling("%s has no method %s" % (cls.__name__, name))
    return method.im_func


def check(incminimark):
    """Raises UnknownSpelling and says what differs."""
    cls = incminimark.IncrementalMiniMarkGC
    users = {name for name, member in vars(cls).items()
             if hasattr(member, 'func_code') and 'GCFLAG_VISITED' in _names(member.func_code)}
    for name in sorted(users - OVERRIDDEN - NURSERY_ONLY - WRAPPED):
        raise UnknownSpelling("%s uses GCFLAG_VISITED" % name)
    for name in sorted((OVERRIDDEN | NURSERY_ONLY | WRAPPED) - users):
        raise UnknownSpelling("%s does not use GCFLAG_VISITED" % name)
    for name, expected in sorted(SIGNATURES.items()):
        code = _method(cls, name).func_code
        found = code.co_varnames[1:code.co_argcount]
        if found != expected:
            raise UnknownSpelling("%s takes %r, not %r" % (name, found, expected))
    for maker, fields in ((get_address_stack, STACK_FIELDS), (get_address_deque, DEQUE_FIELDS)):
        found = set(vars(maker(DEFAULT_CHUNK_SIZE)()))
        for field in fields:
            if field not in found:
                raise UnknownSpelling("%s has no field %s" % (maker.__name__, field))
    # After the two above: in 0.2.1 get_address_stack fails on what a call before it has cached.
    if not hasattr(get_chunk_manager(DEFAULT_CHUNK_SIZE)[0], 'put'):
        raise UnknownSpelling("get_chunk_manager has no list of unused chunks")
