"""What is held about one person, handing it out, and forgetting it (docs/privacy.md).

`places` is the one list of where it is: `export` reads all of them, and `forget` erases all of them.
"""
