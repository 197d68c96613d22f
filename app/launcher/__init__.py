"""`make run`: the whole service in the foreground, from an empty folder to the first answered request.

__main__       begins the API's process, and imports the rest
service        checks before anything starts, and the steps of a start, in order
supervisor     restarts processes that end, and stops all of them in order
embedded_redis starts Redis where REDIS_URL names none; python_redis is the one in Python
screen         the demo seed, and the text that is printed once the service runs
"""
