"""`make deploy-check`: the files of `deploy/` at work. It needs root, Linux and packages of the distribution."""
