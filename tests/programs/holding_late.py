"""A module that the first request of `holding_app` imports, and that holds something."""

import holding_app

is_there = holding_app.HOLD[holding_app.HOLDS]()
