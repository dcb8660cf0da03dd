"""Customers, collection points, baskets, orders and weekly boxes."""
