"""Meadow, a market of small farms: the demonstration site of pasture.

It is written the way production sites are, with the libraries they use, so that
the memory of its workers is made up of what fills theirs: models, forms,
templates, serializers, URL resolvers, translations and caches that come into
being with the first requests. It knows nothing of pasture.
"""
