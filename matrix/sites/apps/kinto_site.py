"""Kinto out of its configuration."""

import configparser
import os

import kinto

parser = configparser.ConfigParser(interpolation=None)
parser.read(os.environ["KINTO_INI"])
application = kinto.main({}, **parser["app:main"])
