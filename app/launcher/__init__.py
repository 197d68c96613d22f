"""`make run`: the whole service in the foreground, from an empty folder to the first answered request.

__main__       the steps of a start, in order
prepare        checks before anything starts: settings, data folder, port, database, seed
children       one process of the service
supervisor     restarts processes that end, and stops all of them in order
embedded_redis starts Redis where REDIS_URL names none; python_redis is the one in Python
demo           the key and the webhook receiver of the demo seed
screen         the text that is printed once the service runs
"""
