"""Optuna's dashboard over a database of studies."""

import os

import optuna
from optuna_dashboard import wsgi

application = wsgi(optuna.storages.RDBStorage(f"sqlite:///{os.environ['SITE_DATA']}/studies.db"))
