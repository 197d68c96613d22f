"""Functions that read text of clients and strangers, which `test_readers` measures."""
