//go:build !linux

package store_test

import "testing"

func wantReserved(*testing.T, string, int64) {}
