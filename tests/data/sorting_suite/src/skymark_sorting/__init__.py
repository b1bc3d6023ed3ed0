"""A suite of skymark in a package of its own: sorting algorithms × shapes of arrays.

`suite` is the planning side and `runner` the worker's; `metrics` declares what they find. `shapes`
holds the scenarios, `algorithms` the adapters, and `specification` what a cell carries from one
side to the other.
"""
