"""Puts our collector, or the published one, in the place of RPython's own.

Nothing of RPython is edited: a class is bound to the name under which choose_gc_from_config,
the JIT and cpyext look it up. Import this before anything of rpython.translator.
"""


def register(collector):
    """`collector` is 'ours', 'stock' or 'published'. Returns the value for --gc.

    Raises UnknownSpelling if this RPython is not one that the class was written for.
    """
    from rpython.memory.gc import incminimark, minimark
    if collector == 'ours':
        from collector import spelling
        spelling.check(incminimark)
        from collector.outside_marks import OutsideMarksGC
        incminimark.IncrementalMiniMarkGC = OutsideMarksGC
        return 'incminimark'
    if collector == 'published':
        from published.visited_dict import VisitedDictGC
        minimark.MiniMarkGC = VisitedDictGC
        return 'minimark'
    assert collector == 'stock', collector
    return 'incminimark'
