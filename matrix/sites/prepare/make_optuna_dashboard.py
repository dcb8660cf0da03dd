"""A study with thirty trials."""

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(storage="sqlite:///studies.db", study_name="made")
sampler = optuna.samplers.RandomSampler(seed=1)
study.sampler = sampler
study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=30)
