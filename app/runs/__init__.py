"""Runs of automations: what happens when they are due, pausing, resuming and cancelling them, and reading them.

`work` finds what is due and has it advanced in chunks, each in one transaction (`advance`): the runs are locked, what
the rules need is read (`facts`), the runs are walked by the rules (app/automations/walk.py), what their steps do is
carried out, and all of it is written with the steps passed and the next due times.
"""
