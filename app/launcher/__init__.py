"""`make run`: the whole service in the foreground, from an empty folder to the first answered request.

prepare.py   what must be right before anything starts: settings, data folder, port, database, seed
children.py  one process of the service
supervisor.py keeps the processes running, and ends them in order
demo.py      what only the demo seed needs: its key, its webhook receiver
screen.py    the one screen that a newcomer reads
__main__.py  all of it, in order
"""
