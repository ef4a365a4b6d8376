package store_test

func child() bool { return false }
