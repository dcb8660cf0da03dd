"""Who this process is; a child of a fork finds out by comparing."""
import os

from rpython.rtyper.lltypesystem import lltype

from collector.native import function

own_id = function('pasture_process_id', [], lltype.Signed, os.getpid)
parent_id = function('pasture_parent_id', [], lltype.Signed, os.getppid)
