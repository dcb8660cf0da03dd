"""`pasture lab`: the published experiments, re-run on this machine.

    from pasture_lab.engine import Options, Store, run_lab
    from pasture_lab.experiments import EXPERIMENTS
    result = run_lab([EXPERIMENTS["micro"]], Options(quick=True), Store(Path("results")))

An experiment is a table (TOML) of its setting, its published figures and their source, with for
each figure the rule that decides whether it was reproduced; and a module beside it with its runs.
Each room imports from those below it only:

    command, lab    `pasture lab`: arguments; what is run and where results and reports go
    report/         table, document, page
    experiments/    one module each, with a table of the same name beside it
    measurements/   the two applications under load, and what is measured on them
    processes/      what touches the machine: servers, clients, groups of processes
    engine/         what an experiment is, how its runs are kept, and how they are judged
    sites/, programs/   what the processes run; not imported here
"""
