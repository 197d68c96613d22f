"""The functions that read what clients and strangers wrote, as `test_readers` measures them."""
