"""`pasture try`: the same load against an application under several policies.

    from pasture_tools.trial import TrialPlan, run_trial
    result = run_trial(TrialPlan(app="mysite.wsgi:application"), on_event=print)

A plan says what to do, a result what was measured; both are frozen. In between, servers and
load generators run as processes of their own, and none outlives the call. Layout:

    plan                    the user's request
    trial                   which policy when, and what the answers say
    run                     one policy: boot, load, samples, shutdown
    server, load            the processes at the edge
    client                  the programs that send a load, in processes of their own
    servers facts of each server that a trial can boot
    measurement, responses, caveats pure functions over the measurements
    table, document, html   the result, for a person and for programs
"""

from pasture_tools.display.progress import Event
from pasture_tools.trial.measurement import PolicyResult, Run, TrialResult
from pasture_tools.trial.plan import TrialPlan
from pasture_tools.trial.trial import attempt_trial, run_trial

__all__ = ["Event", "PolicyResult", "Run", "TrialPlan", "TrialResult", "attempt_trial", "run_trial"]
